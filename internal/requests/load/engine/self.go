// Resources of this process: processor time, memory, open files. If the generator is at its own
// limit, its results do not describe the server.

package engine

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	internaltext "fettle.dev/fettle/internal/text"
)

// Use is a snapshot of the processor time that this process has used.
type Use struct {
	at     time.Time
	cpu    time.Duration
	waited time.Duration
}

// Now returns a snapshot of the processor time used so far.
func Now() *Use {
	u := &Use{at: time.Now()}
	var r unix.Rusage
	// getrusage(2) cannot fail with these arguments.
	if unix.Getrusage(unix.RUSAGE_SELF, &r) == nil {
		u.cpu = time.Duration(r.Utime.Nano() + r.Stime.Nano())
	}
	u.waited = waited()
	return u
}

// waited returns how long threads of this process have waited for a processor. It is the
// second figure of /proc/self/task/TID/schedstat (Documentation/scheduler/sched-stats.rst), in
// ns, or 0 if the kernel does not count it.
func waited() (all time.Duration) {
	const threads = "/proc/self/task"
	dir, err := os.Open(threads)
	if err != nil {
		return 0
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	for _, name := range names {
		text, err := os.ReadFile(threads + "/" + name + "/schedstat") // the thread may have ended
		if fields := bytes.Fields(text); err == nil && len(fields) == 3 {
			if ns, err := strconv.ParseInt(string(fields[1]), 10, 64); err == nil {
				all += time.Duration(ns)
			}
		}
	}
	return all
}

// CPU returns the processor time used up to the snapshot.
func (u *Use) CPU() time.Duration { return u.cpu }

// Share returns two shares of the process's processors since the snapshot or the last call.
// took (0 to 1) is the time used. wanted adds the time waited for a processor: from 1 on, the
// process was short of processor time throughout.
func (u *Use) Share() (took, wanted float64) {
	now := Now()
	all := now.at.Sub(u.at).Seconds() * float64(Processors())
	took = (now.cpu - u.cpu).Seconds() / all
	wanted = took + max(0, now.waited-u.waited).Seconds()/all // an ended thread no longer contributes
	*u = *now
	return took, wanted
}

// Processors returns the number of processors that this process can use.
func Processors() int { return min(runtime.NumCPU(), runtime.GOMAXPROCS(0)) }

// MemoryBytes returns the size of heap and stacks after a garbage collection. It does not
// include the kernel's memory for connections.
func MemoryBytes() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// OwnFiles is the maximum number of files that the program itself needs.
const OwnFiles = 64

// OpenFiles returns the maximum number of open files of this process, including connections.
func OpenFiles() (uint64, error) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 0, os.NewSyscallError("getrlimit", err)
	}
	return limit.Cur, nil
}

// cpuShare is the share of its processors above which a generator counts as the bottleneck.
const cpuShare = 0.9

// ProcessorLimit returns how the processors limited a generator, or "". share is the share of them
// that it used; wanted also includes the time that it waited for one, and is 0 if not measured.
func ProcessorLimit(share, wanted float64, processors int) string {
	of := internaltext.Count(processors, "processor")
	switch {
	case share > cpuShare:
		return fmt.Sprintf("the generator used %.0f %% of its %s", 100*share, of)
	case wanted > cpuShare:
		return fmt.Sprintf("the generator always had work but got only %.0f %% of its %s: other programs used them", 100*share, of)
	}
	return ""
}
