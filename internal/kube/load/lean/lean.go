// Package lean keeps this process small while it has a lot to do: it collects its garbage
// earlier, and gives back the pages of its own program that only its start has needed.
package lean

import (
	"fmt"
	"os"
	"runtime/debug"
	"strings"

	"golang.org/x/sys/unix"

	"fettle.dev/fettle/internal/host"
)

// percent is how much garbage there may be, of what is in use.
const percent = 15

// Begin begins with it; what is returned ends it.
func Begin(h *host.Host) (end func()) {
	before := debug.SetGCPercent(percent)
	if own, err := os.Executable(); err == nil {
		if maps, err := h.Files.ReadFile("/proc/self/maps"); err == nil {
			for _, m := range unchanging(string(maps), own) {
				// Where that fails they stay.
				_, _, _ = unix.Syscall(unix.SYS_MADVISE, m.from, m.to-m.from, unix.MADV_DONTNEED)
			}
		}
	}
	return func() { debug.SetGCPercent(before) }
}

// part is a part of this process's memory.
type part struct{ from, to uintptr }

// unchanging are the parts that are the program's file and that nobody can write to: what
// is taken from memory there is read from the file again.
func unchanging(maps, program string) []part {
	var all []part
	for line := range strings.Lines(maps) {
		f := strings.Fields(line)
		if len(f) < 6 || strings.Join(f[5:], " ") != program || f[1] != "r-xp" && f[1] != "r--p" {
			continue
		}
		var p part
		if n, err := fmt.Sscanf(f[0], "%x-%x", &p.from, &p.to); n == 2 && err == nil && p.to > p.from {
			all = append(all, p)
		}
	}
	return all
}
