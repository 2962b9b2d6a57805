package network

import (
	"encoding/binary"
	"errors"
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
	atSent    = 16 // 8 bytes, ns of the client's clock when it wrote the probe
	atKind    = 24 // 1 byte
	atSize    = 25 // 2 bytes: size of the reply to sizedReply
	atPassage = 27 // 4 bytes, in a reply to echoProbe: index in the peer's log of the train
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

// reflector answers the probes of one session, and logs those of the last train.
type reflector struct {
	conn *net.UDPConn
	send *sender
	tag  [8]byte
	mtu  int // of the interface, for replies that do not fit

	train      uint32
	passages   []passage
	overflowed overflows
}

// answer returns the reply to a datagram, or nil if it is not a probe of the session. It logs a probe
// of a train. overflowed is the socket's count of datagrams dropped by a full buffer.
func (r *reflector) answer(p []byte, came time.Time, overflowed uint32) (out []byte, logged *passage) {
	if len(p) < probeSize || [8]byte(p) != r.tag {
		return nil, nil
	}
	out = p
	switch p[atKind] {
	case echoProbe:
		if train := binary.BigEndian.Uint32(p[atTrain:]); train != r.train {
			r.train, r.passages, r.overflowed = train, nil, overflows{}
		}
		r.overflowed.take(overflowed)
		binary.BigEndian.PutUint32(p[atPassage:], uint32(len(r.passages)))
		r.passages = append(r.passages, passage{Seq: binary.BigEndian.Uint32(p[atSeq:]), Came: came.UnixNano()})
		logged = &r.passages[len(r.passages)-1]
	case smallReply:
		out = p[:probeSize]
	case sizedReply:
		out = make([]byte, max(probeSize, int(binary.BigEndian.Uint16(p[atSize:]))))
		copy(out, p[:probeSize])
	default:
		return nil, nil
	}
	out[atKind] = reply
	return out, logged
}

// reply answers a datagram.
func (r *reflector) reply(p []byte, from netip.AddrPort, came time.Time, overflowed uint32) {
	out, logged := r.answer(p, came, overflowed)
	if out == nil {
		return
	}
	var err error
	if logged != nil {
		logged.Left, err = r.send.send(out, from)
	} else {
		_, err = r.conn.WriteToUDPAddrPort(out, from)
	}
	if errors.Is(err, syscall.EMSGSIZE) {
		r.tooBig(out, from)
	}
}

// serve passes datagrams to a function, which calls reply, until the connection is closed.
func (r *reflector) serve(take func(p []byte, from netip.AddrPort, came time.Time, overflowed uint32)) {
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
		take(p[:n], from, came, overflowed)
	}
}

// tooBig replies that the interface does not carry the reply of the requested size.
func (r *reflector) tooBig(out []byte, to netip.AddrPort) {
	out = out[:probeSize]
	out[atKind] = tooBig
	binary.BigEndian.PutUint32(out[atTold:], uint32(r.mtu))
	_, _ = r.conn.WriteToUDPAddrPort(out, to)
}
