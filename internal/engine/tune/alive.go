package tune

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/ui"
)

// aliveFile is locked by the daemon of a machine as long as it lives, so that
// others know of it also after a kill -9.
const aliveFile = "daemon"

func openAlive(stateDir, name string, flags int) (*os.File, error) {
	path := filepath.Join(stateDir, name)
	fd, err := unix.Open(path, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// ErrAlive says that a state directory has its daemon already.
var ErrAlive = &ui.Sentinel{Text: "a fettle daemon runs already", Exits: ui.Refused, Hint: "fettle status shows what it has set"}

// Alive says that this process is the daemon of the machine, until the file is
// closed. There is one at a time: ErrAlive names the process that has it.
func Alive(stateDir string) (*os.File, error) { return hold(stateDir, aliveFile, ErrAlive) }

// hold locks a file of the state directory; taken is the error when another process
// has it.
func hold(stateDir, name string, taken error) (*os.File, error) {
	if err := journal.Prepare(stateDir); err != nil {
		return nil, err
	}
	f, err := openAlive(stateDir, name, unix.O_RDWR|unix.O_CREAT)
	if err != nil {
		return nil, err
	}
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK}); err != nil {
		defer f.Close()
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
			return nil, fmt.Errorf("%w here: %s holds %s", taken, noted(f), f.Name())
		}
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	// The process is only for the messages: the lock alone decides.
	if err := (notice{PID: os.Getpid(), Undo: noted(f).Undo}).write(f); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", f.Name(), err), f.Close())
	}
	return f, nil
}

// Followed is true while a daemon lives. It only asks, and takes no lock that
// could be in the daemon's way.
func Followed(stateDir string) bool { return held(stateDir, aliveFile) }

func held(stateDir, name string) bool {
	f, err := openAlive(stateDir, name, unix.O_RDONLY)
	if err != nil {
		return false
	}
	defer f.Close()
	// A write lock needs a descriptor for writing, a question about a read lock
	// does not; the daemon's write lock is in the way of both.
	lock := unix.Flock_t{Type: unix.F_RDLCK}
	return unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &lock) == nil && lock.Type != unix.F_UNLCK
}
