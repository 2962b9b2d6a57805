package evidence

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"fettle.dev/fettle/internal/host"
)

// Remove removes a run that has ended, by its whole ID. One that is gone already is no
// error: somebody else has removed it.
func (s Store) Remove(id string) error {
	err := os.Remove(filepath.Join(s.Dir, filepath.Base(id)+recordSuffix))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return errors.Join(err, host.SyncDir(s.Dir))
}

// Drop removes a run that was cut off, by its name; one that is under way is ErrAtWork.
// It is removed while it is locked, so that nobody can take it up meanwhile.
func (s Store) Drop(name string) error {
	path := filepath.Join(s.Dir, filepath.Base(name)+progressSuffix)
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return ErrInProgress
	}
	if !isSameFile(f, path) {
		return nil // finished or dropped while it was being opened
	}
	return errors.Join(remove(path), host.SyncDir(s.Dir))
}

// isSameFile says whether an open file is still the one of that name.
func isSameFile(f *os.File, path string) bool {
	here, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Lstat(path)
	return err == nil && os.SameFile(here, there)
}
