package engine

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// direct is a TCP connection whose reads and writes are raw system calls. Go's sockets never block,
// so the scheduler need not know of the calls; if it does, its monitor thread takes the processor
// from each call of more than 20 µs and so never sleeps for longer: 14 % of a generator's processor
// time (Go 1.26, TLS over loopback, two processors).
type direct struct {
	net.Conn
	raw     syscall.RawConn
	in, out transfer
}

// transfer is a read or a write in progress, one at a time.
type transfer struct {
	lock  sync.Mutex
	call  uintptr // number of the system call
	rest  []byte
	n     int
	errno syscall.Errno
	once  func(fd uintptr) bool
}

// newDirect returns conn itself if it has no socket, and for the race detector.
func newDirect(conn net.Conn) net.Conn {
	socket, ok := conn.(syscall.Conn)
	if !ok || raceDetector {
		return conn
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return conn
	}
	d := &direct{Conn: conn, raw: raw, in: transfer{call: unix.SYS_READ}, out: transfer{call: unix.SYS_WRITE}}
	d.in.once, d.out.once = d.in.do, d.out.do
	return d
}

// do makes one system call. It reports false if the socket is not ready.
func (t *transfer) do(fd uintptr) bool {
	for {
		n, _, errno := unix.RawSyscall(t.call, fd, uintptr(unsafe.Pointer(unsafe.SliceData(t.rest))), uintptr(len(t.rest)))
		if errno == unix.EINTR {
			continue
		}
		t.n, t.errno = int(n), errno
		return errno != unix.EAGAIN
	}
}

// SyscallConn returns the socket.
func (d *direct) SyscallConn() (syscall.RawConn, error) { return d.raw, nil }

func (d *direct) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	d.in.lock.Lock()
	defer d.in.lock.Unlock()
	d.in.rest = p
	err := d.raw.Read(d.in.once)
	d.in.rest = nil
	switch {
	case err != nil:
		return 0, d.failed("read", err)
	case d.in.errno != 0:
		return 0, d.failed("read", os.NewSyscallError("read", d.in.errno))
	case d.in.n == 0:
		return 0, io.EOF
	}
	return d.in.n, nil
}

func (d *direct) Write(p []byte) (n int, err error) {
	d.out.lock.Lock()
	defer d.out.lock.Unlock()
	for n < len(p) && err == nil {
		d.out.rest = p[n:]
		err = d.raw.Write(d.out.once)
		if err == nil && d.out.errno != 0 {
			err = os.NewSyscallError("write", d.out.errno)
		}
		if err == nil {
			n += d.out.n
		}
	}
	d.out.rest = nil
	if err != nil {
		err = d.failed("write", err)
	}
	return n, err
}

// failed returns an error as the net package has it.
func (d *direct) failed(op string, err error) error {
	var raw *net.OpError
	if errors.As(err, &raw) {
		err = raw.Err
	}
	return &net.OpError{Op: op, Net: "tcp", Source: d.LocalAddr(), Addr: d.RemoteAddr(), Err: err}
}
