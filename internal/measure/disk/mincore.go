package disk

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mincore says of each page of a mapped area whether it is in memory (mincore(2)).
func mincore(area []byte) ([]byte, error) {
	page := os.Getpagesize()
	out := make([]byte, (len(area)+page-1)/page)
	if _, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&area[0])), uintptr(len(area)), uintptr(unsafe.Pointer(&out[0]))); errno != 0 {
		return nil, os.NewSyscallError("mincore", errno)
	}
	return out, nil
}
