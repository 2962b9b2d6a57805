package host

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Counter counts an event in processes that the calling thread starts after it was opened, and in
// their descendants, but not in this process.
type Counter struct {
	fd   int
	name string
}

// CountInstructions opens a counter of the instructions that processes execute in user mode. The
// calling goroutine must be locked to its thread (runtime.LockOSThread) until the processes were
// started. It returns an error if the machine has no such counter, or if this user may not count.
func CountInstructions() (*Counter, error) {
	c, err := countWork("instructions", unix.PERF_TYPE_HARDWARE, unix.PERF_COUNT_HW_INSTRUCTIONS)
	switch {
	case err == nil:
		return c, nil
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		return nil, fmt.Errorf("cannot count instructions: %w; see the sysctl kernel.perf_event_paranoid, or measure cpu-time", err)
	}
	return nil, fmt.Errorf("cannot count instructions: this machine has no hardware counter for them (%w), as most virtual machines; measure cpu-time", err)
}

// countWork opens a counter (perf_event_open(2)). The event is inherited disabled, and enabled by
// execve(2), so it never counts in this thread.
func countWork(name string, kind uint32, config uint64) (*Counter, error) {
	attr := unix.PerfEventAttr{Type: kind, Config: config, Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
		Bits:        unix.PerfBitDisabled | unix.PerfBitInherit | unix.PerfBitEnableOnExec | unix.PerfBitExcludeKernel | unix.PerfBitExcludeHv,
		Read_format: unix.PERF_FORMAT_TOTAL_TIME_ENABLED | unix.PERF_FORMAT_TOTAL_TIME_RUNNING}
	fd, err := unix.PerfEventOpen(&attr, 0, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	return &Counter{fd, name}, nil
}

// Read returns the count of the processes that have ended or are running. If the event shared a
// counter of the processor with others, it is extrapolated to the whole time.
func (c *Counter) Read() (float64, error) {
	n, counted, err := readCounter(c.fd, c.name)
	if err == nil && !counted {
		err = fmt.Errorf("cannot count %s: other programs used all counters of the processor during the run", c.name)
	}
	return n, err
}

// Close stops counting.
func (c *Counter) Close() { _ = unix.Close(c.fd) }
