package host

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// MostPages is the maximum number of pages of one call of PageNodes or MovePages: 16 MiB of small
// pages.
const MostPages = 4096

func (liveSched) PageNodes(id TaskID, pages []uint64) ([]int32, error) {
	status := make([]int32, len(pages))
	_, err := pagesCall(id, pages, nil, status)
	return status, err
}

func (liveSched) MovePages(id TaskID, pages []uint64, nodes []int32) (left int, err error) {
	if len(nodes) != len(pages) {
		return 0, fmt.Errorf("move_pages: want one node for each page, got %d nodes for %d pages", len(nodes), len(pages))
	}
	if len(pages) == 0 {
		return 0, nil
	}
	// The kernel fills the status only as far as it came, so the nodes must be read again.
	return pagesCall(id, pages, &nodes[0], make([]int32, len(pages)))
}

// pagesCall calls move_pages(2) if the process is still the same one.
func pagesCall(id TaskID, pages []uint64, nodes *int32, status []int32) (left int, err error) {
	if len(pages) == 0 {
		return 0, nil
	}
	if len(pages) > MostPages {
		return 0, fmt.Errorf("%d pages in one call, want at most %d", len(pages), MostPages)
	}
	if err := same(id); err != nil {
		return 0, err
	}
	const onlyOwn = 2 // MPOL_MF_MOVE (linux/mempolicy.h): only pages that no other process maps
	n, _, errno := unix.Syscall6(unix.SYS_MOVE_PAGES, uintptr(id.TID), uintptr(len(pages)),
		uintptr(unsafe.Pointer(&pages[0])), uintptr(unsafe.Pointer(nodes)), uintptr(unsafe.Pointer(&status[0])), onlyOwn)
	if errno != 0 {
		return 0, ended(errno)
	}
	return int(n), nil
}

// BindMemory binds memory of this process to a node (mbind(2)), with flags as the kernel has them.
func BindMemory(memory []byte, node, flags int) error {
	const bind = 2 // MPOL_BIND (linux/mempolicy.h)
	if node < 0 {
		return unix.EINVAL
	}
	mask := make([]uint64, node/64+1)
	mask[node/64] = 1 << (node % 64)
	_, _, errno := unix.Syscall6(unix.SYS_MBIND, uintptr(unsafe.Pointer(&memory[0])), uintptr(len(memory)), bind,
		uintptr(unsafe.Pointer(&mask[0])), uintptr(64*len(mask)+1), uintptr(flags))
	if errno != 0 {
		return errno
	}
	return nil
}
