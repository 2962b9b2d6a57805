package host

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"os"

	"golang.org/x/sys/unix"
)

// The process connector: Documentation/driver-api/connector.rst and
// include/uapi/linux/cn_proc.h.
const (
	cnIdxProc, cnValProc = 1, 1
	mcastListen          = 1

	procFork = 0x00000001
	procExec = 0x00000002
	procComm = 0x00000200

	nlHeader   = unix.NLMSG_HDRLEN // struct nlmsghdr
	cnHeader   = 20                // struct cn_msg
	eventAt    = nlHeader + cnHeader
	eventInfo  = eventAt + 16 // after the fields what, cpu and timestamp_ns
	eventBytes = 8192
)

var native = binary.NativeEndian

func (liveSched) Events(ctx context.Context, kinds EventKind) (<-chan TaskEvent, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_CONNECTOR)
	if err != nil {
		return nil, fmt.Errorf("process events: %w (is the kernel built with CONFIG_PROC_EVENTS?)", err)
	}
	fail := func(what string, err error) (<-chan TaskEvent, error) {
		unix.Close(fd)
		return nil, fmt.Errorf("process events: %s: %w", what, err)
	}
	if err := onlyEvents(fd, kinds); err != nil {
		return fail("filter", err)
	}
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 1<<20) // room for a burst of a few thousand events
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: cnIdxProc}); err != nil {
		return fail("bind", err)
	}
	if err := unix.Sendto(fd, listenMessage(), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return fail("listen", err)
	}
	f := os.NewFile(uintptr(fd), "process events") // polled by the runtime
	stop := context.AfterFunc(ctx, func() { f.Close() })
	out := make(chan TaskEvent, 256)
	go func() {
		defer close(out)
		defer stop()
		defer f.Close()
		buf := make([]byte, eventBytes)
		for {
			n, err := f.Read(buf)
			ev := TaskEvent{Kind: EventLost}
			switch {
			case errors.Is(err, unix.ENOBUFS):
			case err != nil:
				return
			default:
				var ok bool
				if ev, ok = parseEvent(buf[:n]); !ok || ev.Kind&kinds == 0 {
					continue
				}
			}
			select {
			case out <- ev:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out, nil
}

// listenMessage returns the subscription: nlmsghdr, cn_msg and proc_cn_mcast_op.
func listenMessage() []byte {
	b := make([]byte, eventAt+4)
	native.PutUint32(b[0:], uint32(len(b)))
	native.PutUint16(b[4:], unix.NLMSG_DONE)
	native.PutUint32(b[12:], uint32(os.Getpid()))
	native.PutUint32(b[nlHeader:], cnIdxProc)
	native.PutUint32(b[nlHeader+4:], cnValProc)
	native.PutUint16(b[nlHeader+16:], 4)
	native.PutUint32(b[eventAt:], mcastListen)
	return b
}

// parseEvent parses one message of the connector; ok is false for other messages.
func parseEvent(b []byte) (event TaskEvent, ok bool) {
	if len(b) < eventInfo+8 {
		return TaskEvent{}, false
	}
	field := func(n int) int { return int(int32(native.Uint32(b[eventInfo+4*n:]))) }
	switch native.Uint32(b[eventAt:]) {
	case procExec:
		return TaskEvent{Kind: EventExec, TID: field(0), PID: field(1)}, true
	case procComm:
		return TaskEvent{Kind: EventComm, TID: field(0), PID: field(1)}, true
	case procFork:
		if len(b) < eventInfo+16 {
			return TaskEvent{}, false
		}
		return TaskEvent{Kind: EventFork, Parent: field(1), TID: field(2), PID: field(3)}, true
	}
	return TaskEvent{}, false
}

// onlyEvents installs a filter that drops unrequested events, especially task exits,
// before they wake the reader (classic BPF, socket(7), SO_ATTACH_FILTER).
func onlyEvents(fd int, kinds EventKind) error {
	wanted := map[EventKind]uint32{EventFork: procFork, EventExec: procExec, EventComm: procComm}
	program := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: eventAt}}
	for kind, what := range wanted {
		if kinds&kind != 0 {
			program = append(program,
				unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: networkOrder(what), Jf: 1},
				unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: 1<<32 - 1})
		}
	}
	program = append(program, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K})
	return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
		&unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]})
}

// networkOrder converts a number to network byte order, which BPF loads expect.
func networkOrder(v uint32) uint32 {
	if native.Uint16([]byte{1, 0}) == 1 {
		return bits.ReverseBytes32(v)
	}
	return v
}
