package setting

import (
	"fmt"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/unit"
)

// DefaultHugePage returns the size of the huge pages counted by vm.nr_hugepages, in the
// spelling of the kernel's directories: "2048kB" (Hugepagesize in /proc/meminfo), or "none".
func DefaultHugePage(h *host.Host) string {
	if s := meminfo(h, "Hugepagesize:"); s != "" {
		return s
	}
	return "none"
}

// meminfo returns a size in /proc/meminfo without its space, "2048kB", or "".
func meminfo(h *host.Host, name string) string {
	b, err := h.Files.ReadFile("/proc/meminfo")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == name {
			return f[1] + f[2]
		}
	}
	return ""
}

// tooManyHugePages reports whether a pool of pages of size, "524288kB", would take all memory. The
// kernel refuses no number: it takes pages until none is left for programs (mm/hugetlb.c,
// set_max_huge_pages). A number of pages of 2 MiB is 256 times as much on an arm64 kernel with
// pages of 64 KiB, whose default is 512 MiB.
func tooManyHugePages(h *host.Host, size string, want Value) (why string, refused bool) {
	kib := func(s string) uint64 {
		n, _ := strconv.ParseUint(strings.TrimSuffix(s, "kB"), 10, 32)
		return n
	}
	n, err := strconv.ParseUint(strings.TrimSpace(want.Text), 0, 32)
	page, total := kib(size), kib(meminfo(h, "MemTotal:"))
	if err != nil || page == 0 || total == 0 || n*page < total {
		return "", false
	}
	human := func(kib uint64) string { return unit.Size(kib << 10).Human() }
	return fmt.Sprintf("%d huge pages of %s are %s, and the machine has %s", n, human(page), human(n*page), human(total)), true
}
