package daemon

import (
	"os"
	"runtime/debug"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// rest gives back the memory that the last work took: from here on the daemon
// sleeps, for days perhaps. The heap goes to the kernel, and so do the pages of
// the program's own text, which are in the page cache anyway and are mapped again
// as they are needed (madvise(2), MADV_DONTNEED on a file mapping that nobody
// can write).
func rest() {
	debug.SetGCPercent(25)
	debug.FreeOSMemory()
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return
	}
	for line := range strings.Lines(string(maps)) {
		// address perms offset dev inode path (proc_pid_maps(5))
		f := strings.Fields(line)
		if len(f) != 6 || f[5] != self || f[1] != "r-xp" {
			continue
		}
		from, to, _ := strings.Cut(f[0], "-")
		start, err1 := strconv.ParseUint(from, 16, 64)
		end, err2 := strconv.ParseUint(to, 16, 64)
		if err1 == nil && err2 == nil && start < end {
			_, _, _ = unix.Syscall(unix.SYS_MADVISE, uintptr(start), uintptr(end-start), unix.MADV_DONTNEED)
		}
	}
}
