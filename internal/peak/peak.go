// Package peak starts a program so that its peak memory, as the kernel reports it, excludes
// the process that started it.
//
// The kernel's figure (ru_maxrss, getrusage(2)) also covers the memory that a process leaves
// at execve(2): exec_mmap (fs/exec.c) adds the high-water mark of the old memory. A child of a
// Go program shares its parent's memory until then (CLONE_VM|CLONE_VFORK), so its figure
// starts at the parent's maximum. With fork(2) it starts at the parent's current size.
// Therefore a starter runs between the two. It is a process of a few pages that forks,
// executes the work in its child, and reports the kernel's figure of that child. Without it,
// work that needs less memory than fettle, about 30 MiB, could not be measured.
package peak

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// Starter starts programs through an executable file in memory.
type Starter struct{ image *os.File }

// New creates a starter and checks that the kernel executes it. It returns an error on an
// unsupported architecture, or if files in memory cannot be executed (vm.memfd_noexec,
// fapolicyd).
func New() (*Starter, error) {
	text, err := image()
	if err != nil {
		return nil, err
	}
	fd, err := unix.MemfdCreate("fettle-starter", unix.MFD_CLOEXEC|unix.MFD_EXEC)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3, which executes all
		fd, err = unix.MemfdCreate("fettle-starter", unix.MFD_CLOEXEC)
	}
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	s := &Starter{os.NewFile(uintptr(fd), "fettle-starter")}
	if _, err = s.image.Write(text); err == nil {
		err = (&exec.Cmd{Path: s.path(), Args: []string{"fettle-starter"}}).Run()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the starter cannot be run: %w", err), s.Close())
	}
	return s, nil
}

// path returns the path of the image for a child, independent of the child's descriptors.
func (s *Starter) path() string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), s.image.Fd()) }

// Close closes the image. Running programs are not affected.
func (s *Starter) Close() error { return s.image.Close() }

// Started is a program that a starter started.
type Started struct{ said, says *os.File }

// Put adds the starter to a command that was not started yet and has no ExtraFiles. The
// starter, not the work, leads the process group. The work is killed when the starter ends,
// and handles the group's signals itself. The caller must always call Close.
func (s *Starter) Put(cmd *exec.Cmd) (*Started, error) {
	if cmd.Err != nil {
		return nil, cmd.Err
	}
	said, says, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Args = append([]string{"fettle-starter", cmd.Path}, cmd.Args...)
	cmd.Path, cmd.ExtraFiles = s.path(), []*os.File{says}
	return &Started{said, says}, nil
}

// Close closes the pipe of the starter's report.
func (s *Started) Close() error {
	err := s.said.Close()
	if s.says != nil {
		err = errors.Join(err, s.says.Close())
	}
	return err
}

// Peak returns the largest resident set of the work, or of a process that it waited for, in
// bytes. Call it after the command has ended without an error; the starter always ends so. The
// error reports a non-zero exit of the work, like os.ProcessState, or why the work could not
// be started.
func (s *Started) Peak() (int64, error) {
	err := s.says.Close() // the starter's end is closed with it
	s.says = nil
	if err != nil {
		return 0, err
	}
	// The work's children do not have the descriptor, so this does not block.
	text, err := io.ReadAll(s.said)
	if err != nil {
		return 0, err
	}
	const word, report = 8, 8 + 144 // 144: struct rusage
	if len(text) == word+report {
		return 0, fmt.Errorf("it cannot be started: %w", syscall.Errno(-int64(binary.NativeEndian.Uint64(text))))
	}
	if len(text) != report {
		return 0, fmt.Errorf("the starter reports %d bytes, want %d", len(text), report)
	}
	status := syscall.WaitStatus(binary.NativeEndian.Uint32(text))
	switch {
	case status.Signaled() && status.CoreDump():
		return 0, fmt.Errorf("signal: %v (core dumped)", status.Signal())
	case status.Signaled():
		return 0, fmt.Errorf("signal: %v", status.Signal())
	case status.ExitStatus() != 0:
		return 0, fmt.Errorf("exit status %d", status.ExitStatus())
	}
	// ru_maxrss, in KiB, follows two times of 16 bytes each.
	return int64(binary.NativeEndian.Uint64(text[word+32:])) * 1024, nil
}
