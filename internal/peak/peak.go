// Package peak starts a program so that the kernel's figure of its largest resident set
// is its own.
//
// The figure of a process (ru_maxrss, getrusage(2)) begins with the largest resident set
// of the memory that it leaves at execve(2): exec_mmap (fs/exec.c) takes the mark of the
// old memory over into the figure of the process. A child of a Go program shares its
// parent's memory until then (CLONE_VM|CLONE_VFORK), and so begins with all that its
// parent has ever had; a child by fork(2) begins with what its parent has at that moment.
// Between the two therefore stands a starter: a process of a few pages, which forks,
// becomes the work in its child, and says what the kernel counted of that alone. Without it
// nothing is known of work that takes less than fettle has had, about 30 MiB.
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

// Starter starts programs.
type Starter struct{ image *os.File }

// New makes a starter and looks whether the kernel runs it. It cannot be had on every
// processor, nor where files in memory are not executed (vm.memfd_noexec, fapolicyd).
func New() (*Starter, error) {
	text, err := image()
	if err != nil {
		return nil, err
	}
	fd, err := unix.MemfdCreate("fettle-starter", unix.MFD_CLOEXEC|unix.MFD_EXEC)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3, where each could be executed
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

// path is where a child finds the image, whatever descriptors it has itself.
func (s *Starter) path() string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), s.image.Fd()) }

// Close gives the image up; what runs goes on.
func (s *Starter) Close() error { return s.image.Close() }

// Started is a program behind a starter.
type Started struct{ said, says *os.File }

// Put puts the starter before a command that has not been started and has no ExtraFiles.
// The starter's process takes the work's place as the leader of the process group, the
// work is killed when it ends, and what is said to the group's signals is the work's
// affair. Close is to be called in any case.
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

// Close gives up what the starter says.
func (s *Started) Close() error {
	err := s.said.Close()
	if s.says != nil {
		err = errors.Join(err, s.says.Close())
	}
	return err
}

// Peak is the largest resident set of the work, or of one process that it has waited
// for, in bytes. It is asked once the command has ended well, which the starter does
// whatever the work does: an error is how the work has ended otherwise than with 0, in
// the words of os.ProcessState, or why it could not be started.
func (s *Started) Peak() (int64, error) {
	err := s.says.Close() // the starter's own is closed with it
	s.says = nil
	if err != nil {
		return 0, err
	}
	// What the work has started has not got the descriptor: this does not wait.
	text, err := io.ReadAll(s.said)
	if err != nil {
		return 0, err
	}
	const word, report = 8, 8 + 144 // 144: struct rusage
	if len(text) == word+report {
		return 0, fmt.Errorf("it cannot be started: %w", syscall.Errno(-int64(binary.NativeEndian.Uint64(text))))
	}
	if len(text) != report {
		return 0, fmt.Errorf("the starter says %d bytes, and not %d", len(text), report)
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
	// ru_maxrss is behind two times of 16 bytes each, in KiB.
	return int64(binary.NativeEndian.Uint64(text[word+32:])) * 1024, nil
}
