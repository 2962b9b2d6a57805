package tune

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"fettle.dev/fettle/internal/journal"
)

// aliveFile is locked by the daemon of a machine as long as it lives, so that
// others know of it also after a kill -9. leaseFile likewise by an experiment.
const (
	aliveFile = "daemon"
	leaseFile = "experiment"
)

func openAlive(stateDir, name string, flags int) (*os.File, error) {
	path := filepath.Join(stateDir, name)
	fd, err := unix.Open(path, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// ErrAlive says that a state directory has its daemon already.
var ErrAlive = errors.New("a fettle daemon runs already")

// Alive says that this process is the daemon of the machine, until the file is
// closed. There is one at a time: ErrAlive names the process that has it.
func Alive(stateDir string) (*os.File, error) { return hold(stateDir, aliveFile, ErrAlive) }

// ErrLeased says that an experiment is under way already.
var ErrLeased = errors.New("an experiment is under way already")

// Lease says that this process switches the machine's values to and fro to measure
// them, until the file is closed: the daemon keeps its hands off meanwhile. There is
// one at a time: ErrLeased names the process that has it.
func Lease(stateDir string) (*os.File, error) { return hold(stateDir, leaseFile, ErrLeased) }

// Arm notes in the lease how a person can undo what the experiment does, should both
// it and its watchdog be killed; Unarm removes that. The note stays when the next one
// takes the lease.
func Arm(lease *os.File, how string) error { return errors.Join(note(lease, how), lease.Sync()) }

// note writes the content of a locked file: the process, and what it notes.
func note(f *os.File, how string) error {
	text := strconv.Itoa(os.Getpid()) + "\n"
	if how != "" {
		text += armed + how
	}
	// First the whole text, then its end: there is a note at every moment.
	_, err := f.WriteAt([]byte(text), 0)
	return errors.Join(err, f.Truncate(int64(len(text))))
}

// Unarm notes that nothing of an experiment is left to be undone.
func Unarm(stateDir string) error {
	err := os.Truncate(filepath.Join(stateDir, leaseFile), 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Armed is how what an experiment has left can be undone; empty where nothing is left.
// It is asked before the lease is taken.
func Armed(stateDir string) string {
	f, err := openAlive(stateDir, leaseFile, unix.O_RDONLY)
	if err != nil {
		return ""
	}
	defer f.Close()
	return noted(f)
}

// LeftBehind is how the change can be undone that an experiment has left which is not
// under way any more: it was killed, and so was its watchdog.
func LeftBehind(stateDir string) string {
	if Leased(stateDir) {
		return ""
	}
	return Armed(stateDir)
}

func noted(f *os.File) string {
	text, err := io.ReadAll(io.NewSectionReader(f, 0, 64<<10))
	if err != nil {
		return ""
	}
	_, how, _ := strings.Cut(string(text), armed)
	return how
}

// armed is how the note begins.
const armed = "undo with: "

// Leased is true while an experiment is under way. It only asks.
func Leased(stateDir string) bool { return held(stateDir, leaseFile) }

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
			who := "another process"
			b, err := io.ReadAll(io.LimitReader(f, 32))
			if pid, _, _ := strings.Cut(string(b), "\n"); err == nil && pid != "" {
				who = "process " + pid
			}
			return nil, fmt.Errorf("%w here: %s holds %s", taken, who, f.Name())
		}
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	// The process is only for the message above: the lock alone decides.
	if err := note(f, noted(f)); err != nil {
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
