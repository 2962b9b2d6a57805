package engine

import (
	"crypto/tls"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// socket is the TCP socket of a connection.
type socket struct{ raw syscall.RawConn } // nil without a socket

// socketOf returns the socket of a connection, with or without TLS.
func socketOf(conn net.Conn) socket {
	if secured, ok := conn.(*tls.Conn); ok {
		conn = secured.NetConn()
	}
	if tcp, ok := conn.(syscall.Conn); ok {
		if raw, err := tcp.SyscallConn(); err == nil {
			return socket{raw}
		}
	}
	return socket{}
}

// stale reports whether the server has sent something on an idle connection or closed it: the next
// request would then get no answer. It is called before requests that may have an effect, which
// must not be sent twice.
func (s socket) stale() bool {
	if s.raw == nil {
		return false
	}
	sent := false
	err := s.raw.Control(func(fd uintptr) { sent = readable(fd) })
	return err != nil || sent
}

// wait waits until the server sends something or closes the connection. It returns no error, such
// as that of a deadline: the next read returns it.
func (s socket) wait() {
	if s.raw == nil {
		return
	}
	waited := false
	_ = s.raw.Read(func(fd uintptr) bool {
		done := waited || readable(fd)
		waited = true
		return done
	})
}

// readable reports whether a read of a socket would return at once.
func readable(fd uintptr) bool {
	n, _ := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0) // EINTR: not yet
	return n > 0
}
