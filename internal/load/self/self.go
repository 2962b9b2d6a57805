// Package self is what this process takes of its machine, and may take: processor time,
// memory, open files. A generator that is at its own limit says nothing of a server.
package self

import (
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// Use is what this process has taken of its processors until a moment.
type Use struct {
	at  time.Time
	cpu time.Duration
}

// Now looks.
func Now() *Use {
	u := &Use{at: time.Now()}
	var r unix.Rusage
	// It fails for no reason that this process could have (getrusage(2)); no time is
	// then taken.
	if unix.Getrusage(unix.RUSAGE_SELF, &r) == nil {
		u.cpu = time.Duration(r.Utime.Nano() + r.Stime.Nano())
	}
	return u
}

// CPU is the processor time of the process until then.
func (u *Use) CPU() time.Duration { return u.cpu }

// Share is the share of its processors that the process has taken since then or since the
// last call, 0 to 1.
func (u *Use) Share() float64 {
	now := Now()
	share := (now.cpu - u.cpu).Seconds() / now.at.Sub(u.at).Seconds() / float64(Processors())
	*u = *now
	return share
}

// Processors are how many this process can use.
func Processors() int { return min(runtime.NumCPU(), runtime.GOMAXPROCS(0)) }

// MemoryBytes is what the process holds in its heap and its stacks, once garbage is
// collected; what the kernel holds for its connections is not in it.
func MemoryBytes() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// OwnFiles is how many the program needs for itself at most.
const OwnFiles = 64

// Files is how many files this process may have open, connections among them.
func Files() (uint64, error) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 0, os.NewSyscallError("getrlimit", err)
	}
	return limit.Cur, nil
}
