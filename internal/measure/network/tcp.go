package network

import (
	"net"
	"strconv"
	"strings"
	"syscall"
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
	// Shares of the time in which the connection had data to send: the peer's receive window, or
	// this end's send buffer, was full. 0 to 1.
	RwndLimited   float64 `json:"receive_window_limited_share"`
	SndbufLimited float64 `json:"send_buffer_limited_share"`
	Unsent        uint32  `json:"-"`
}

func tcpInfo(c *net.TCPConn) (s tcpState, err error) {
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
		Window: uint64(info.Snd_cwnd) * uint64(info.Snd_mss), Unsent: info.Notsent_bytes,
	}
	if info.Busy_time > 0 {
		s.RwndLimited = float64(info.Rwnd_limited) / float64(info.Busy_time)
		s.SndbufLimited = float64(info.Sndbuf_limited) / float64(info.Busy_time)
	}
	return s, nil
}

// ends describes this end of a connection.
func ends(h *host.Host, c *net.TCPConn) End {
	e := End{RmemMax: lastNumber(h, "/proc/sys/net/ipv4/tcp_rmem"), WmemMax: lastNumber(h, "/proc/sys/net/ipv4/tcp_wmem"), CPUs: len(cpuTimes(h))}
	if raw, err := c.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) {
			e.Congestion, _ = unix.GetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION)
		})
	}
	local, _ := c.LocalAddr().(*net.TCPAddr)
	interfaces, err := net.Interfaces()
	if err != nil || local == nil {
		return e
	}
	for _, i := range interfaces {
		addresses, _ := i.Addrs()
		for _, a := range addresses {
			if n, is := a.(*net.IPNet); is && n.IP.Equal(local.IP) {
				e.Interface, e.MTU, e.Kind = i.Name, i.MTU, deviceType(h, i.Name)
			}
		}
	}
	return e
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

// cpuTime is the time of one processor since boot in clock ticks (proc(5), stat).
type cpuTime struct{ busy, softirq, all uint64 }

// cpuTimes returns the times of each processor, or nil if /proc/stat is not readable.
func cpuTimes(h *host.Host) (times []cpuTime) {
	for line := range strings.Lines(h.File("/proc/stat").Text) {
		words := strings.Fields(line)
		if len(words) < 9 || !strings.HasPrefix(words[0], "cpu") || words[0] == "cpu" {
			continue
		}
		var t cpuTime
		for i, w := range words[1:9] { // user nice system idle iowait irq softirq steal
			n, _ := strconv.ParseUint(w, 10, 64)
			t.all += n
			if i != 3 && i != 4 {
				t.busy += n
			}
			if i == 5 || i == 6 {
				t.softirq += n
			}
		}
		times = append(times, t)
	}
	return times
}

// processors is the work of this machine's processors during a run.
type processors struct {
	// CPU is the time of this process in seconds, and Wall that of the run, which ends early if all
	// bytes are sent.
	CPU  float64 `json:"cpu_s"`
	Wall float64 `json:"wall_s"`
	// Busiest is the share of the run in which the busiest processor was not idle, and Softirq the
	// largest share of a processor in interrupts. 0 to 1, -1 if unknown.
	Busiest float64 `json:"busiest_cpu_share"`
	Softirq float64 `json:"interrupts_of_a_cpu_share"`
	// All is the mean of all processors.
	All float64 `json:"all_cpus_share"`
}

// watchCPU returns a function that returns the work since now.
func watchCPU(h *host.Host) func() processors {
	begin, before, times := time.Now(), processCPU(), cpuTimes(h)
	return func() processors {
		p := processors{CPU: (processCPU() - before).Seconds(), Wall: time.Since(begin).Seconds(), Busiest: -1, Softirq: -1, All: -1}
		now := cpuTimes(h)
		var busy, all uint64
		for i, t := range now {
			if i >= len(times) || t.all <= times[i].all {
				continue
			}
			total := t.all - times[i].all
			busy, all = busy+t.busy-times[i].busy, all+total
			p.Busiest = max(p.Busiest, float64(t.busy-times[i].busy)/float64(total))
			p.Softirq = max(p.Softirq, float64(t.softirq-times[i].softirq)/float64(total))
		}
		if all > 0 {
			p.All = float64(busy) / float64(all)
		}
		return p
	}
}

func processCPU() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // cannot fail
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
