// alarm wakes up at a moment, to some microseconds.

package engine

import (
	"errors"
	"os"
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Alarm wakes up one goroutine at a time. The runtime's own timers are rounded to
// milliseconds by epoll_wait(2) while a process is idle; a timerfd(2) is a descriptor that
// the runtime waits for as for a connection. At 426 moments a second it is 50 µs late at the
// median, time.Sleep 640 µs (Go 1.26, two busy processors), which would be part of each time.
type Alarm struct {
	file *os.File
	raw  syscall.RawConn
}

// NewAlarm makes an alarm.
func NewAlarm() (*Alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("timerfd_create", err)
	}
	a := &Alarm{file: os.NewFile(uintptr(fd), "timerfd")}
	if a.raw, err = a.file.SyscallConn(); err != nil {
		return nil, errors.Join(err, a.file.Close())
	}
	return a, nil
}

// near is so short a time that to sleep would take longer.
const near = 10 * time.Microsecond

// Until waits for a moment; false once the alarm is closed.
func (a *Alarm) Until(t time.Time) bool {
	for {
		left := time.Until(t)
		switch {
		case left <= 0:
			return true
		case left < near:
			runtime.Gosched()
			continue
		}
		spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(left))}
		var err error
		if a.raw.Control(func(fd uintptr) { err = unix.TimerfdSettime(int(fd), 0, &spec, nil) }) != nil || err != nil {
			return false
		}
		var expired uint64
		if _, err := a.file.Read(unsafe.Slice((*byte)(unsafe.Pointer(&expired)), 8)); err != nil {
			return false
		}
	}
}

// Close wakes up whoever waits. It may be called again.
func (a *Alarm) Close() { _ = a.file.Close() }
