// Package resident keeps the memory of programs that run for long, and sleep for most of that
// time, at the size that they need while they sleep.
package resident

import (
	"context"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Rest returns the memory of the last work to the kernel before the program sleeps: the heap,
// and the pages of the program's own file, which are in the page cache anyway and are mapped
// again when needed. The start of a program (package initialization, tables of types) touches
// most of that file once. Rest takes milliseconds, including a garbage collection. The idle
// daemon has 12 to 16 MiB resident with it and 29.6 MiB without (test/peers, Debian 12); the
// goal is half of TuneD's 27.5 MiB.
func Rest() {
	debug.FreeOSMemory()
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	smaps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return
	}
	for _, m := range unchanged(string(smaps), self) {
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, m.start, m.end-m.start, unix.MADV_DONTNEED)
	}
}

// Sleeper calls Rest whenever a program with concurrent work has done nothing for a while.
type Sleeper struct{ work atomic.Int64 }

// Worked records that work was done.
func (s *Sleeper) Worked() { s.work.Add(1) }

// many is the amount of work after which a rest is worthwhile even soon after the last one.
const many = 100

// Run rests each time that nothing was done for the time quiet, until ctx ends. If little was
// done since the last rest, that must also be at least the time seldom ago.
func (s *Sleeper) Run(ctx context.Context, quiet, seldom time.Duration) {
	s.run(ctx, quiet, seldom, Rest)
}

func (s *Sleeper) run(ctx context.Context, quiet, seldom time.Duration, rest func()) {
	tick := time.NewTicker(quiet)
	defer tick.Stop()
	var rested, seen int64 // what had been done
	var last time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			done := s.work.Load()
			if done == seen && done != rested && (done-rested >= many || now.Sub(last) >= seldom) {
				rest()
				rested, last = done, now
			}
			seen = done
		}
	}
}

// mapping is a range of addresses of this process.
type mapping struct{ start, end uintptr }

// unchanged finds, in the text of /proc/PID/smaps (proc_pid_smaps(5)), the mappings of a file
// that are not writable and have no page that differs from the file: its text and its read-only
// data, which in a Go program are about as large. madvise(2) with MADV_DONTNEED loses nothing
// there. A page differs if the loader relocated it before it removed write permission, as in a
// program linked with -buildmode=pie: it would be restored to the content of the file.
func unchanged(smaps, file string) (found []mapping) {
	var m mapping
	ours := false
	for line := range strings.Lines(smaps) {
		f := strings.Fields(line)
		switch {
		case len(f) > 1 && strings.HasSuffix(f[0], ":"):
			if ours && f[0] == "Anonymous:" && f[1] == "0" {
				found = append(found, m)
			}
		case len(f) > 5 && strings.Join(f[5:], " ") == file && (f[1] == "r-xp" || f[1] == "r--p"):
			// address perms offset dev inode path. Both names of a program that was replaced while it
			// runs end with " (deleted)".
			from, to, _ := strings.Cut(f[0], "-")
			start, err1 := strconv.ParseUint(from, 16, 64)
			end, err2 := strconv.ParseUint(to, 16, 64)
			m = mapping{uintptr(start), uintptr(end)}
			ours = err1 == nil && err2 == nil && start < end
		default:
			ours = false
		}
	}
	return found
}
