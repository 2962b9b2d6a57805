package host

import (
	"errors"
	"os"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TestPages asks for the node of pages of this process, and moves one to where it is.
func TestPages(t *testing.T) {
	s := Live().Sched
	self, err := s.Task(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	const page = 64 << 10 // at least one page on every architecture
	memory, err := unix.Mmap(-1, 0, 2*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(memory) }()
	if err := unix.Madvise(memory, unix.MADV_NOHUGEPAGE); err != nil && !errors.Is(err, unix.EINVAL) {
		t.Fatal(err)
	}
	memory[0] = 1
	touched := uint64(uintptr(unsafe.Pointer(&memory[0])))
	nodes, err := s.PageNodes(self.TaskID, []uint64{touched, touched + page})
	if err != nil || nodes[0] < 0 || nodes[1] != -int32(unix.ENOENT) {
		t.Fatalf("nodes %v, %v; want a node and -ENOENT", nodes, err)
	}
	if left, err := s.MovePages(self.TaskID, []uint64{touched}, nodes[:1]); left != 0 || err != nil {
		t.Errorf("moved to its own node: %d left, %v", left, err)
	}
	if _, err := s.MovePages(self.TaskID, []uint64{touched}, []int32{1000}); err == nil {
		t.Error("moved to a node that does not exist")
	}
	other := TaskID{self.TID, self.Start + 1}
	if _, err := s.PageNodes(other, []uint64{touched}); !errors.Is(err, ErrEnded) {
		t.Errorf("a process with another start time: %v, want ErrEnded", err)
	}
}
