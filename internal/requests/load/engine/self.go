// self is what this process takes of its machine, and may take: processor time,
// memory, open files. A generator that is at its own limit says nothing of a server.

package engine

import (
	"bytes"
	"os"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Use is what this process has taken of its processors until a moment.
type Use struct {
	at     time.Time
	cpu    time.Duration
	waited time.Duration
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
	u.waited = waited()
	return u
}

// waited is how long the threads of this process have had work and no processor: the second
// figure of /proc/self/task/TID/schedstat (Documentation/scheduler/sched-stats.rst), in ns.
// 0 where the kernel does not count it.
func waited() (all time.Duration) {
	const threads = "/proc/self/task"
	dir, err := os.Open(threads)
	if err != nil {
		return 0
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	for _, name := range names {
		text, err := os.ReadFile(threads + "/" + name + "/schedstat") // it may have ended
		if fields := bytes.Fields(text); err == nil && len(fields) == 3 {
			if ns, err := strconv.ParseInt(string(fields[1]), 10, 64); err == nil {
				all += time.Duration(ns)
			}
		}
	}
	return all
}

// CPU is the processor time of the process until then.
func (u *Use) CPU() time.Duration { return u.cpu }

// Share is the share of its processors that the process has taken since then or since the
// last call, 0 to 1, and what it took and waited for: at 1 or above it had more work than
// the machine let it do all the time, however little it took.
func (u *Use) Share() (took, wanted float64) {
	now := Now()
	all := now.at.Sub(u.at).Seconds() * float64(Processors())
	took = (now.cpu - u.cpu).Seconds() / all
	wanted = took + max(0, now.waited-u.waited).Seconds()/all // less where a thread has ended
	*u = *now
	return took, wanted
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

// OpenFiles is how many files this process may have open, connections among them.
func OpenFiles() (uint64, error) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 0, os.NewSyscallError("getrlimit", err)
	}
	return limit.Cur, nil
}
