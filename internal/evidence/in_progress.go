package evidence

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"fettle.dev/fettle/internal/host"
)

// RunInProgress is an unfinished run, recorded line by line. The first line is the record at the
// start.
type RunInProgress struct {
	Run  *Run
	Path string
	file *os.File
}

// Append adds a line durably.
func (u *RunInProgress) Append(v any) error { return errors.Join(u.write(v), u.file.Sync()) }

func (u *RunInProgress) write(v any) error {
	text, err := json.Marshal(v)
	if err == nil {
		_, err = u.file.Write(append(text, '\n'))
	}
	return err
}

// replaceSuffix is the suffix of Replace's temporary file. A killed process may leave that file;
// it is deleted with the run.
const replaceSuffix = ".new"

// Replace replaces all lines after the first by one line, durably and atomically.
func (u *RunInProgress) Replace(v any) (err error) {
	f, err := os.OpenFile(u.Path+replaceSuffix, os.O_RDWR|os.O_CREATE|os.O_TRUNC|os.O_APPEND|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	// Locked before the rename, so that the run never appears abandoned.
	if err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == nil {
		next := &RunInProgress{Run: u.Run, Path: f.Name(), file: f}
		if err = next.write(u.Run); err == nil {
			err = next.Append(v)
		}
	}
	if err == nil {
		err = os.Rename(f.Name(), u.Path)
	}
	if err != nil {
		return errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	was := u.file
	u.file = f
	return errors.Join(host.SyncDir(filepath.Dir(u.Path)), was.Close())
}

// Name returns the run's name for Resume and Unfinished.
func (u *RunInProgress) Name() string {
	return strings.TrimSuffix(filepath.Base(u.Path), progressSuffix)
}

// Close leaves the run unfinished; it can be resumed.
func (u *RunInProgress) Close() error { return u.file.Close() }

func (u *RunInProgress) resume(line func([]byte) error) error {
	if err := unix.Flock(int(u.file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return ErrInProgress
	}
	if !isSameFile(u.file, u.Path) {
		return fs.ErrNotExist // finished or dropped meanwhile
	}
	end, err := lines(u.file, u.Run, line)
	if err != nil {
		return err
	}
	return u.file.Truncate(end)
}
