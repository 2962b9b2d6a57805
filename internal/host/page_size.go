package host

import (
	"encoding/binary"
	"os"
	"strings"
)

// PageSize returns the machine's page size in bytes, or 4096 if it is unknown.
func (h *Host) PageSize() int64 {
	if n, _ := h.KnownPageSize(); n != 0 {
		return n
	}
	return 4096
}

// KnownPageSize returns the machine's page size in bytes and its source, or 0 if it is unknown. On
// a live machine the source is the auxiliary vector (AT_PAGESZ, getauxval(3)). On a copy the page
// size follows from the size of a transparent huge page: 512 MiB means 64 KiB pages, 32 MiB means
// 16 KiB pages (Documentation/arch/arm64/hugetlbpage.rst). 2 MiB is ambiguous: 4 KiB pages, or on
// ppc64 64 KiB pages.
func (h *Host) KnownPageSize() (bytes int64, source string) {
	const auxv, huge, atPageSize = "/proc/self/auxv", "/sys/kernel/mm/transparent_hugepage/hpage_pmd_size", 6
	if _, live := h.Files.(liveFiles); live {
		return int64(os.Getpagesize()), auxv
	}
	b, err := h.Files.ReadFile(auxv)
	for ; err == nil && len(b) >= 16; b = b[16:] {
		if binary.NativeEndian.Uint64(b) == atPageSize {
			if n := int64(binary.NativeEndian.Uint64(b[8:])); n >= 4096 && n&(n-1) == 0 {
				return n, auxv
			}
		}
	}
	b, _ = h.Files.ReadFile(huge)
	switch strings.TrimSpace(string(b)) {
	case "536870912":
		return 64 << 10, huge
	case "33554432":
		return 16 << 10, huge
	}
	return 0, ""
}
