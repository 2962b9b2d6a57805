package network

import (
	"encoding/binary"
	"errors"
	"math"
	"net"
	"net/netip"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Layout of a probe, big endian. A reply repeats the first 24 bytes.
const (
	atTag     = 0  // 8 bytes: only the two sides of a session know it
	atTrain   = 8  // 4 bytes
	atSeq     = 12 // 4 bytes
	atSent    = 16 // 8 bytes, ns of the client's clock
	atKind    = 24 // 1 byte
	atSize    = 25 // 2 bytes: size of the reply to sizedReply
	atCame    = 27 // 8 bytes, ns of the peer's clock when the probe came
	atLeft    = 35 // 8 bytes, the same when the reply left
	atTold    = 43 // 4 bytes: MTU that the peer's own interface allows, if the reply did not fit
	probeSize = 47
)

// Kinds of probes. A peer answers only the first three, so two peers cannot answer each other.
const (
	echoProbe  = iota + 1 // a reply of the same size
	smallReply            // a reply of probeSize: only the way to the peer is tested
	sizedReply            // a reply of the given size: only the way back is tested
	reply
	tooBig // the reply does not fit the peer's interface
)

// dontFragment makes the kernel set DF on every datagram, ignore the learned path MTU, and keep the
// ICMP errors of a socket.
func dontFragment(c *net.UDPConn, v6 bool) error {
	return withFD(c, func(fd int) error {
		if v6 {
			return errors.Join(unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_PROBE),
				unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_RECVERR, 1))
		}
		return errors.Join(unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_PROBE),
			unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_RECVERR, 1))
	})
}

// stampArrivals makes the kernel record when each datagram arrived, and how many were dropped by a
// full buffer. So a busy program does not count as a slow or lossy network.
func stampArrivals(c *net.UDPConn) error {
	return withFD(c, func(fd int) error {
		// The buffer holds the probes of one second, so that a program that waits for a processor
		// loses none. Only root may exceed net.core.rmem_max.
		if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, arrivals) != nil {
			_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, arrivals)
		}
		return errors.Join(unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1), unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RXQ_OVFL, 1))
	})
}

// arrivals is the size of the buffer for probes, in bytes. A small probe takes 768 bytes.
const arrivals = 8 << 20

func withFD(c syscall.Conn, do func(fd int) error) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	if err := raw.Control(func(fd uintptr) { inner = do(int(fd)) }); err != nil {
		return err
	}
	return inner
}

// arrival returns, from a datagram's control messages, when it arrived, and how many datagrams were
// dropped by a full buffer since the socket was opened. Without a time from the kernel it returns
// the current time.
func arrival(oob []byte, now time.Time) (came time.Time, overflowed uint32) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return now, 0
	}
	came = now
	for _, m := range messages {
		switch {
		case m.Header.Level != unix.SOL_SOCKET:
		case m.Header.Type == unix.SCM_TIMESTAMPNS && len(m.Data) >= 16:
			came = time.Unix(int64(binary.NativeEndian.Uint64(m.Data)), int64(binary.NativeEndian.Uint64(m.Data[8:])))
		case m.Header.Type == unix.SO_RXQ_OVFL && len(m.Data) >= 4:
			overflowed = binary.NativeEndian.Uint32(m.Data)
		}
	}
	return came, overflowed
}

// queued reports whether datagrams have come that were not read.
func queued(c *net.UDPConn) bool {
	n := 0
	_ = withFD(c, func(fd int) (err error) {
		n, err = unix.IoctlGetInt(fd, unix.SIOCINQ)
		return err
	})
	return n > 0
}

// toldMTU empties the error queue of a socket, and returns the smallest MTU that a router
// reported by ICMP, or 0.
func toldMTU(c *net.UDPConn) (mtu int) {
	_ = withFD(c, func(fd int) error {
		data, oob := make([]byte, 512), make([]byte, 512)
		for {
			_, n, _, _, err := unix.Recvmsg(fd, data, oob, unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT)
			if err != nil {
				return nil
			}
			messages, err := unix.ParseSocketControlMessage(oob[:n])
			if err != nil {
				continue
			}
			for _, m := range messages {
				if len(m.Data) < 16 || m.Header.Type != unix.IP_RECVERR && m.Header.Type != unix.IPV6_RECVERR {
					continue
				}
				number, origin, info := binary.NativeEndian.Uint32(m.Data), m.Data[4], int(binary.NativeEndian.Uint32(m.Data[8:]))
				icmp := origin == unix.SO_EE_ORIGIN_ICMP || origin == unix.SO_EE_ORIGIN_ICMP6
				if number == uint32(unix.EMSGSIZE) && icmp && info > 0 && (mtu == 0 || info < mtu) {
					mtu = info
				}
			}
		}
	})
	return mtu
}

// way has the counts of one direction of a train.
type way struct {
	received     int64
	next         uint32 // the expected sequence number
	reordered    int64  // came after a later one (RFC 4737)
	duplicates   int64  // came a second time
	overflowedAt uint32 // datagrams that found the socket's buffer full, when the first of this train came
	overflowed   int64  // the same since then
	seen         map[uint32]bool
	jitter       float64 // sum of the differences of transit times between neighbors, in seconds
	transit      float64 // of the last one
}

// take counts a datagram with its transit time, which may include the difference of two clocks.
func (w *way) take(seq uint32, transit float64) {
	if w.seen == nil {
		w.seen = map[uint32]bool{}
	}
	if w.seen[seq] {
		w.duplicates++
		return
	}
	w.seen[seq] = true
	if w.received > 0 {
		w.jitter += math.Abs(transit - w.transit)
	}
	w.transit = transit
	w.received++
	if seq >= w.next {
		w.next = seq + 1
	} else {
		w.reordered++
	}
}

// overflow records the socket's count of datagrams dropped by a full buffer.
func (w *way) overflow(total uint32) {
	if w.received == 0 {
		w.overflowedAt = total
	}
	w.overflowed = int64(total - w.overflowedAt)
}

// trainReport is the count of one direction of a train. JitterS is the mean difference of the transit times of
// neighbors. RFC 3550 (6.4.1) smooths the same difference over the last 16 or so, which is noisier.
type trainReport struct {
	Received   int64 `json:"received"`
	Reordered  int64 `json:"reordered"`
	Duplicates int64 `json:"duplicated"`
	// Overflowed is the number of probes that arrived, but were dropped by a full socket buffer.
	Overflowed int64   `json:"overflowed,omitempty"`
	JitterS    float64 `json:"jitter_s"`
}

func (w *way) report() trainReport {
	return trainReport{Received: w.received, Reordered: w.reordered, Duplicates: w.duplicates, Overflowed: w.overflowed, JitterS: w.jitter / float64(max(1, w.received-1))}
}

// reflector answers the probes of one session.
type reflector struct {
	conn *net.UDPConn
	tag  [8]byte
	mtu  int // of the interface, for replies that do not fit

	train uint32
	way   way
}

// answer returns the reply to a datagram, or nil if it is not a probe of the session. overflowed is
// the socket's count of datagrams dropped by a full buffer.
func (r *reflector) answer(p []byte, came time.Time, overflowed uint32) []byte {
	if len(p) < probeSize || [8]byte(p) != r.tag {
		return nil
	}
	out := p
	switch p[atKind] {
	case echoProbe:
		train, seq, sent := binary.BigEndian.Uint32(p[atTrain:]), binary.BigEndian.Uint32(p[atSeq:]), int64(binary.BigEndian.Uint64(p[atSent:]))
		if train != r.train {
			r.train, r.way = train, way{}
		}
		r.way.overflow(overflowed)
		r.way.take(seq, float64(came.UnixNano()-sent)/1e9)
	case smallReply:
		out = p[:probeSize]
	case sizedReply:
		out = make([]byte, max(probeSize, int(binary.BigEndian.Uint16(p[atSize:]))))
		copy(out, p[:probeSize])
	default:
		return nil
	}
	out[atKind] = reply
	binary.BigEndian.PutUint64(out[atCame:], uint64(came.UnixNano()))
	binary.BigEndian.PutUint64(out[atLeft:], uint64(time.Now().UnixNano()))
	return out
}

// serve answers probes until the connection is closed. It calls answer, which makes the reply.
func (r *reflector) serve(answer func(p []byte, came time.Time, overflowed uint32) []byte) {
	p, oob := make([]byte, 64<<10), make([]byte, 256)
	for {
		n, m, _, from, err := r.conn.ReadMsgUDPAddrPort(p, oob)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // an ICMP error, which the error queue has too
			continue
		}
		came, overflowed := arrival(oob[:m], time.Now())
		out := answer(p[:n], came, overflowed)
		if out == nil {
			continue
		}
		if _, err := r.conn.WriteToUDPAddrPort(out, from); errors.Is(err, syscall.EMSGSIZE) {
			r.tooBig(out, from)
		}
	}
}

// tooBig replies that the interface does not carry the reply of the requested size.
func (r *reflector) tooBig(out []byte, to netip.AddrPort) {
	out = out[:probeSize]
	out[atKind] = tooBig
	binary.BigEndian.PutUint32(out[atTold:], uint32(r.mtu))
	_, _ = r.conn.WriteToUDPAddrPort(out, to)
}
