package host

import (
	"encoding/binary"
	"os"
)

// PageSize returns the machine's page size in bytes (AT_PAGESZ of the auxiliary
// vector, getauxval(3)), or 4096 if it is unknown.
func (h *Host) PageSize() int64 {
	if _, live := h.Files.(liveFiles); live {
		return int64(os.Getpagesize())
	}
	const atPageSize = 6
	b, err := h.Files.ReadFile("/proc/self/auxv")
	for ; err == nil && len(b) >= 16; b = b[16:] {
		if binary.NativeEndian.Uint64(b) == atPageSize {
			if n := int64(binary.NativeEndian.Uint64(b[8:])); n >= 4096 && n&(n-1) == 0 {
				return n
			}
		}
	}
	return 4096
}
