package evidence

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"fettle.dev/fettle/internal/host"
)

// Remove deletes a finished run by its full ID. A run that no longer exists is
// not an error.
func (s Store) Remove(id string) error {
	err := os.Remove(filepath.Join(s.Dir, filepath.Base(id)+recordSuffix))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return errors.Join(err, host.SyncDir(s.Dir))
}

// Drop deletes an unfinished run by name. It returns ErrInProgress if the run's process is still
// running. It holds the lock meanwhile, so no process can resume the run.
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
		return nil // finished or dropped meanwhile
	}
	return errors.Join(remove(path), host.SyncDir(s.Dir))
}

// isSameFile reports whether path still refers to the open file.
func isSameFile(f *os.File, path string) bool {
	here, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Lstat(path)
	return err == nil && os.SameFile(here, there)
}
