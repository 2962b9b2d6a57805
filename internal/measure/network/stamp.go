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

// arrivals is the size of the buffer for probes, in bytes. A small probe takes 768 bytes.
const arrivals = 8 << 20

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
			came = timespec(m.Data)
		case m.Header.Type == unix.SO_RXQ_OVFL && len(m.Data) >= 4:
			overflowed = binary.NativeEndian.Uint32(m.Data)
		}
	}
	return came, overflowed
}

// timespec returns the time of a struct timespec of a 64-bit kernel.
func timespec(p []byte) time.Time {
	return time.Unix(int64(binary.NativeEndian.Uint64(p)), int64(binary.NativeEndian.Uint64(p[8:])))
}

// departure is when a datagram left.
type departure struct {
	At     int64 // ns of the clock of the sender's machine
	Kernel bool  // the time is the kernel's; otherwise that at which the program wrote the datagram
}

// sender sends datagrams and returns when they left.
//
// The time is the kernel's, at which it passes a datagram to the queueing discipline of the device
// (SOF_TIMESTAMPING_TX_SCHED). Between the program's own reading of the clock and that point, a
// program on a busy machine may lose its processor for milliseconds, which is not the network's
// delay. What comes after it is: the queue of the own device (a shaper, netem, a full link) delays
// all programs' packets. The other time that kernels offer (SOF_TIMESTAMPING_TX_SOFTWARE) is taken
// by the driver behind that queue, and would hide it. It also depends on the driver, while the
// first is taken on all devices.
type sender struct {
	conn    *net.UDPConn
	raw     syscall.RawConn
	control []byte // asks for the time of a datagram; nil if the kernel has none
	oob     [256]byte
}

func newSender(c *net.UDPConn) (*sender, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	s := &sender{conn: c, raw: raw}
	// Without OPT_TSONLY, the kernel returns a time together with the datagram, and, by
	// net.core.tstamp_allow_data, possibly only to root.
	if withFD(c, func(fd int) error {
		return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPING, unix.SOF_TIMESTAMPING_SOFTWARE|unix.SOF_TIMESTAMPING_OPT_TSONLY)
	}) == nil {
		s.control = askForDeparture()
	}
	return s, nil
}

// askForDeparture returns a control message that asks for the time at which one datagram leaves, so
// the error queue has no times of the datagrams that are sent without it.
func askForDeparture() []byte {
	h := unix.Cmsghdr{Level: unix.SOL_SOCKET, Type: unix.SO_TIMESTAMPING}
	h.SetLen(unix.CmsgLen(4))
	p, _ := binary.Append(nil, binary.NativeEndian, h) // cannot fail: the fields have fixed sizes
	p = binary.NativeEndian.AppendUint32(p, unix.SOF_TIMESTAMPING_TX_SCHED)
	return append(p, make([]byte, unix.CmsgSpace(4)-len(p))...)
}

// send sends a datagram. to is the zero address for a connected socket. send discards the ICMP
// errors that it finds in the error queue.
func (s *sender) send(p []byte, to netip.AddrPort) (departure, error) {
	written := time.Now()
	_, _, err := s.conn.WriteMsgUDPAddrPort(p, s.control, to)
	if at := s.left(written); !at.IsZero() {
		return departure{At: at.UnixNano(), Kernel: true}, err
	}
	return departure{At: written.UnixNano()}, err
}

// left empties the error queue. It returns the time at which a datagram left, or the zero time.
// written is when the datagram was written: the kernel stamps it during the write, so the first
// later time in the queue belongs to it and no identifiers are needed. A datagram in a tunnel is
// stamped twice, by the tunnel's device and the device below; the first time counts. A datagram
// that has to wait, for example for the answer of ARP, is stamped later: its time is in the queue
// before that of the next datagram.
func (s *sender) left(written time.Time) (at time.Time) {
	if s.control == nil {
		return at
	}
	_ = s.raw.Control(func(fd uintptr) {
		var data [1]byte
		for {
			_, n, _, _, err := unix.Recvmsg(int(fd), data[:], s.oob[:], unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT)
			if err != nil {
				return
			}
			if t := stampIn(s.oob[:n]); at.IsZero() && !t.Before(written) {
				at = t
			}
		}
	})
	return at
}

// stampIn returns the time at which a datagram left, in the control messages of an entry of the error
// queue. It returns the zero time for an ICMP error.
func stampIn(oob []byte) (at time.Time) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return at
	}
	isStamp := false
	for _, m := range messages {
		switch level, kind := m.Header.Level, m.Header.Type; {
		case len(m.Data) < 16:
		case level == unix.SOL_SOCKET && kind == unix.SCM_TIMESTAMPING:
			at = timespec(m.Data)
		case level == unix.SOL_IP && kind == unix.IP_RECVERR, level == unix.SOL_IPV6 && kind == unix.IPV6_RECVERR:
			isStamp = m.Data[4] == unix.SO_EE_ORIGIN_TIMESTAMPING
		}
	}
	if !isStamp {
		return time.Time{}
	}
	return at
}
