package network

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Layout of a probe, big endian. A reply repeats the first 24 bytes.
const (
	atTag     = 0  // 8 bytes: only the two sides of a session know it
	atTrain   = 8  // 4 bytes
	atSeq     = 12 // 4 bytes
	atSent    = 16 // 8 bytes, ns of the client's clock when it wrote the probe
	atKind    = 24 // 1 byte
	atSize    = 25 // 2 bytes: size of the reply to sizedReply
	atEntry   = 27 // 4 bytes, in a reply to echoProbe: index in the peer's log of the train
	atTold    = 31 // 4 bytes: MTU that the peer's own interface allows, if the reply did not fit
	probeSize = 35
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

// queued reports whether a datagram has arrived and was not read.
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

// reflector answers the probes of one session, and logs those of the last train.
type reflector struct {
	conn   *net.UDPConn
	sender *sender
	tag    [8]byte
	mtu    int // of the interface, for replies that do not fit

	// mu protects the log. It is not held while a reply is sent, which waits if the socket's send
	// buffer is full.
	mu         sync.Mutex
	train      uint32
	entries    []logEntry
	reported   int   // length of the log that the client knows
	unlogged   int64 // probes that came when the log was full
	overflowed overflows
}

// answer returns the reply to a datagram, or nil if it is not a probe of the session. It logs a probe
// of a train, and returns its index in the log, otherwise -1. overflowed is the socket's count of
// datagrams dropped by a full buffer.
func (r *reflector) answer(p []byte, came time.Time, overflowed uint32) (out []byte, entry int) {
	if len(p) < probeSize || [8]byte(p) != r.tag {
		return nil, -1
	}
	out, entry = p, -1
	switch p[atKind] {
	case echoProbe:
		if entry = r.add(p, came, overflowed); entry < 0 {
			return nil, -1
		}
		binary.BigEndian.PutUint32(p[atEntry:], uint32(entry))
	case smallReply:
		out = p[:probeSize]
	case sizedReply:
		out = make([]byte, max(probeSize, int(binary.BigEndian.Uint16(p[atSize:]))))
		copy(out, p[:probeSize])
	default:
		return nil, -1
	}
	out[atKind] = reply
	return out, entry
}

// add logs a probe of a train, and returns its index. It returns -1 for a probe of an earlier train,
// which the network has delayed, and for a full log.
func (r *reflector) add(p []byte, came time.Time, overflowed uint32) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	train := binary.BigEndian.Uint32(p[atTrain:])
	if train < r.train {
		return -1
	}
	if train > r.train {
		r.train, r.entries, r.reported, r.unlogged, r.overflowed = train, nil, 0, 0, overflows{}
	}
	r.overflowed.take(overflowed)
	if len(r.entries) >= maxLog {
		r.unlogged++
		return -1
	}
	r.entries = append(r.entries, logEntry{Seq: binary.BigEndian.Uint32(p[atSeq:]), ReceivedAt: came.UnixNano()})
	return len(r.entries) - 1
}

// state returns the number of log entries, and whether the reply to the last one is being sent.
func (r *reflector) state() (n int, sending bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n = len(r.entries)
	return n, n > 0 && r.entries[n-1].SentAt == departure{}
}

// reply answers a datagram. Only one goroutine may call it.
func (r *reflector) reply(p []byte, from netip.AddrPort, came time.Time, overflowed uint32) {
	out, entry := r.answer(p, came, overflowed)
	if out == nil {
		return
	}
	var err error
	if entry >= 0 {
		var at departure
		at, err = r.sender.send(out, from)
		r.mu.Lock()
		r.entries[entry].SentAt = at
		r.mu.Unlock()
	} else {
		_, err = r.conn.WriteToUDPAddrPort(out, from)
	}
	if errors.Is(err, syscall.EMSGSIZE) {
		r.tooBig(out, from)
	}
}

// serve answers datagrams until the connection is closed.
func (r *reflector) serve() {
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
		r.reply(p[:n], from, came, overflowed)
	}
}

// tooBig replies that the interface does not carry the reply of the requested size.
func (r *reflector) tooBig(out []byte, to netip.AddrPort) {
	out = out[:probeSize]
	out[atKind] = tooBig
	binary.BigEndian.PutUint32(out[atTold:], uint32(r.mtu))
	_, _ = r.conn.WriteToUDPAddrPort(out, to)
}
