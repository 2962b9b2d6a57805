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

// RunInProgress is a run that is being recorded line by line. Its first line is the record
// as far as it is known at the beginning.
type RunInProgress struct {
	Run  *Run
	Path string
	file *os.File
}

// Append adds a line; it is durable when Append returns.
func (u *RunInProgress) Append(v any) error { return errors.Join(u.write(v), u.file.Sync()) }

func (u *RunInProgress) write(v any) error {
	text, err := json.Marshal(v)
	if err == nil {
		_, err = u.file.Write(append(text, '\n'))
	}
	return err
}

// replaceSuffix is the ending of a file that is to take the place of another: whoever is
// killed in between leaves it beside that, and it is removed with that.
const replaceSuffix = ".new"

// Replace puts a line in the place of all but the first; it is durable when Replace
// returns, and whenever this process is killed there is the old line or the new one.
func (u *RunInProgress) Replace(v any) (err error) {
	f, err := os.OpenFile(u.Path+replaceSuffix, os.O_RDWR|os.O_CREATE|os.O_TRUNC|os.O_APPEND|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	// Locked before it has the name: nobody sees a run without its process.
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

// Name is how Resume and CutOff call the run.
func (u *RunInProgress) Name() string {
	return strings.TrimSuffix(filepath.Base(u.Path), progressSuffix)
}

// Close leaves the run as one that was cut off; it can be taken up again.
func (u *RunInProgress) Close() error { return u.file.Close() }

func (u *RunInProgress) resume(line func([]byte) error) error {
	if err := unix.Flock(int(u.file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return ErrInProgress
	}
	if !isSameFile(u.file, u.Path) {
		return fs.ErrNotExist // it was finished or dropped meanwhile
	}
	end, err := lines(u.file, u.Run, line)
	if err != nil {
		return err
	}
	return u.file.Truncate(end)
}
