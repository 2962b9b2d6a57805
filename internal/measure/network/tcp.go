package network

import (
	"net"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"fettle.dev/fettle/internal/host"
)

// tcpState is the kernel's view of one TCP connection (TCP_INFO of linux/tcp.h).
type tcpState struct {
	Retransmits uint64  `json:"retransmitted_segments"`
	Segments    uint64  `json:"sent_segments"`
	RTTS        float64 `json:"rtt_s"`
	MinRTTS     float64 `json:"min_rtt_s"`
	MSS         uint32  `json:"mss_bytes"`
	Window      uint64  `json:"congestion_window_bytes"`
	// Shares of the run, 0 to 1, as the kernel counts them: what kept the sender from sending more.
	Program float64 `json:"program_limited_share"` // it had not written anything
	Rwnd    float64 `json:"receive_window_limited_share"`
	Sndbuf  float64 `json:"send_buffer_limited_share"`
	Path    float64 `json:"path_limited_share"` // the congestion window, or the way to the peer and back
}

// tcpInfo reads the state of a connection. sent is the time for which it has sent; 0 if it has not
// sent.
func tcpInfo(c *net.TCPConn, sent time.Duration) (s tcpState, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return s, err
	}
	var info *unix.TCPInfo
	if outer := raw.Control(func(fd uintptr) { info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO) }); outer != nil {
		return s, outer
	}
	if err != nil {
		return s, err
	}
	s = tcpState{
		Retransmits: uint64(info.Total_retrans), Segments: uint64(info.Segs_out),
		RTTS: float64(info.Rtt) / 1e6, MinRTTS: float64(info.Min_rtt) / 1e6, MSS: info.Snd_mss,
		Window: uint64(info.Snd_cwnd) * uint64(info.Snd_mss),
	}
	// Busy_time has the other two, and the time in which something sent was not acknowledged.
	if all := max(float64(info.Busy_time), float64(sent.Microseconds())); sent > 0 {
		s.Rwnd, s.Sndbuf = float64(info.Rwnd_limited)/all, float64(info.Sndbuf_limited)/all
		s.Path = float64(info.Busy_time-info.Rwnd_limited-info.Sndbuf_limited) / all
		s.Program = 1 - float64(info.Busy_time)/all
	}
	return s, nil
}

// receiveBuffer returns the size of a connection's receive buffer in bytes; 0 if unknown. The
// kernel enlarges it up to the last value of net.ipv4.tcp_rmem.
func receiveBuffer(c *net.TCPConn) (bytes int64) {
	_ = withFD(c, func(fd int) error {
		n, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF)
		bytes = int64(n)
		return err
	})
	return bytes
}

// ends describes this end of a connection.
func ends(h *host.Host, c *net.TCPConn) End {
	e := End{Boot: strings.TrimSpace(h.File("/proc/sys/kernel/random/boot_id").Text), RmemMax: lastNumber(h, "/proc/sys/net/ipv4/tcp_rmem"), WmemMax: lastNumber(h, "/proc/sys/net/ipv4/tcp_wmem"), CPUs: len(cpuTimes(h))}
	if raw, err := c.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) {
			e.Congestion, _ = unix.GetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION)
		})
	}
	local, _ := c.LocalAddr().(*net.TCPAddr)
	if i := interfaceOf(local); i != nil {
		e.Interface, e.MTU, e.Kind = i.Name, i.MTU, deviceType(h, i.Name)
	}
	return e
}

// interfaceOf returns the interface that has a local address, or nil.
func interfaceOf(local *net.TCPAddr) *net.Interface {
	interfaces, err := net.Interfaces()
	if err != nil || local == nil {
		return nil
	}
	for _, i := range interfaces {
		addresses, _ := i.Addrs()
		for _, a := range addresses {
			if n, is := a.(*net.IPNet); is && n.IP.Equal(local.IP) {
				return &i
			}
		}
	}
	return nil
}

// deviceType returns the kernel's DEVTYPE of an interface, which an ordinary one does not have.
func deviceType(h *host.Host, name string) string {
	for line := range strings.Lines(h.File("/sys/class/net/" + name + "/uevent").Text) {
		if kind, is := strings.CutPrefix(strings.TrimSpace(line), "DEVTYPE="); is {
			return kind
		}
	}
	return ""
}

func lastNumber(h *host.Host, path string) int64 {
	words := strings.Fields(h.File(path).Text)
	if len(words) == 0 {
		return 0
	}
	n, _ := strconv.ParseInt(words[len(words)-1], 10, 64)
	return n
}
