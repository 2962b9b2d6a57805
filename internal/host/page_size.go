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

// KnownPageSize returns the machine's page size in bytes and where it is from, or 0. The kernel
// gives it to each program (AT_PAGESZ of the auxiliary vector, getauxval(3)). A copied machine
// has it by the size of a transparent huge page, a page of 8-byte entries: 512 MiB with pages of
// 64 KiB and 32 MiB with pages of 16 KiB (Documentation/arch/arm64/hugetlbpage.rst). 2 MiB may be
// either of 4 KiB or, on ppc64, of 64 KiB.
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
