package evidence

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"fettle.dev/fettle/internal/host"
)

// Store is a directory of runs, one file each, named by their IDs. Writers do not
// disturb each other, and a crash at any moment leaves each record whole or not
// there. A measurement under way is kept line by line beside them.
type Store struct{ Dir string }

// The endings of names in the directory.
const (
	recordSuffix   = ".json"
	progressSuffix = ".jsonl" // a run under way, or one that was cut off
)

// make makes the directory, for its owner alone.
func (s Store) make() error {
	if err := os.Mkdir(s.Dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	st, err := os.Lstat(s.Dir)
	switch {
	case err != nil:
		return err
	case !st.IsDir():
		return fmt.Errorf("%s is not a directory: runs are kept there", s.Dir)
	case st.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("%s can be written by others: chmod 0700 it once you trust its content", s.Dir)
	}
	return nil
}

// Put keeps a record and gives it its ID. One that is there already stays.
func (s Store) Put(r *Run) error {
	if err := s.make(); err != nil {
		return err
	}
	text, err := r.sealed()
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(s.Dir, ".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	// A link, not a renaming: it does not replace what is there.
	to := filepath.Join(s.Dir, r.ID+recordSuffix)
	if err := os.Link(f.Name(), to); errors.Is(err, fs.ErrExist) {
		there, err := os.ReadFile(to)
		if err == nil && !bytes.Equal(there, text) {
			err = fmt.Errorf("run %s is there already, with other content", r.ID)
		}
		return err
	} else if err != nil {
		return err
	}
	return host.SyncDir(s.Dir)
}

// Get reads the one run whose ID begins with the given digits.
func (s Store) Get(id string) (*Run, error) {
	names, err := s.names(recordSuffix)
	if err != nil {
		return nil, err
	}
	var found []string
	for _, n := range names {
		if id != "" && strings.HasPrefix(n, id) {
			found = append(found, n)
		}
	}
	switch len(found) {
	case 0:
		return nil, fmt.Errorf("no run %q: %w", id, fs.ErrNotExist)
	case 1:
		return s.read(found[0])
	}
	return nil, fmt.Errorf("%d runs begin with %q: %s", len(found), id, strings.Join(found, ", "))
}

func (s Store) read(id string) (*Run, error) {
	path := filepath.Join(s.Dir, id+recordSuffix)
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	r, err := Read(text)
	if err == nil && r.ID != id {
		err = fmt.Errorf("it holds run %s, and the store names a record by its ID", r.ID)
	}
	if err != nil {
		return nil, &DamagedError{path, err}
	}
	return r, nil
}

// names are the files with an ending, without it, sorted.
func (s Store) names(ending string) ([]string, error) {
	entries, err := os.ReadDir(s.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		if name, is := strings.CutSuffix(e.Name(), ending); is && e.Type().IsRegular() && !strings.HasPrefix(name, ".") {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out, nil
}

// All are the runs, oldest first; those that cannot be read are told as errors (*Damaged)
// beside the others, which are nil only where the store cannot be read.
func (s Store) All() ([]*Run, error) {
	names, err := s.names(recordSuffix)
	if err != nil {
		return nil, err
	}
	out := []*Run{} // nil where the store cannot be read
	var errs []error
	for _, n := range names {
		r, err := s.read(n)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		out = append(out, r)
	}
	slices.SortStableFunc(out, func(a, b *Run) int { return a.Began.Compare(b.Began) })
	return out, errors.Join(errs...)
}

// Begin begins to record a run; the file is locked until Close or the end of the
// process.
func (s Store) Begin(r *Run) (*RunInProgress, error) {
	if err := s.make(); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(s.Dir, r.Began.UTC().Format("20060102T150405.000000000")+progressSuffix), os.O_RDWR|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	r.Schema = Schema
	r.escapeInvalidUTF8()
	u := &RunInProgress{r, f.Name(), f}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		err = u.Append(r)
	}
	if err == nil {
		err = host.SyncDir(s.Dir)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	return u, nil
}

// remove removes the lines of a run, and what Replace may have left.
func remove(path string) error {
	if err := os.Remove(path + replaceSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Remove(path)
}

// Finish puts the whole record into the store, in place of the lines.
func (s Store) Finish(u *RunInProgress) error {
	if err := s.Put(u.Run); err != nil {
		return errors.Join(err, u.file.Close())
	}
	return errors.Join(remove(u.Path), u.file.Close())
}

// Discard removes the lines of a run in which nothing counts.
func (s Store) Discard(u *RunInProgress) error {
	return errors.Join(remove(u.Path), u.file.Close(), host.SyncDir(s.Dir))
}

// ErrInProgress is that the process which records a run still lives.
var ErrInProgress = errors.New("it is still under way")

// Unfinished are the names of runs that are under way or were cut off, oldest first. One
// that was cut off before its first line is none.
func (s Store) Unfinished() ([]string, error) {
	names, err := s.names(progressSuffix)
	return slices.DeleteFunc(names, func(name string) bool {
		st, err := os.Lstat(filepath.Join(s.Dir, name+progressSuffix))
		return err == nil && st.Size() == 0
	}), err
}

// Resume takes up a run that was cut off, and calls line with each of its lines but
// the first. A last line that is not whole was never recorded, and is removed.
func (s Store) Resume(name string, line func([]byte) error) (*RunInProgress, error) {
	path := filepath.Join(s.Dir, filepath.Base(name)+progressSuffix)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	u := &RunInProgress{&Run{}, path, f}
	if err := u.resume(line); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), f.Close())
	}
	return u, nil
}

// lines reads the record of a run under way, and says where its last whole line ends.
func lines(from io.Reader, r *Run, line func([]byte) error) (end int64, err error) {
	in := bufio.NewReader(from)
	for n := 1; ; n++ {
		text, err := in.ReadBytes('\n')
		switch {
		case errors.Is(err, io.EOF) && n == 1:
			return 0, errors.New("nothing was recorded")
		case errors.Is(err, io.EOF):
			return end, nil
		case err != nil:
			return end, err
		}
		end += int64(len(text))
		if n == 1 {
			err = json.Unmarshal(text, r)
			if err == nil && r.Schema != Schema {
				err = fmt.Errorf("its schema is %q, not %q", r.Schema, Schema)
			}
		} else {
			err = line(text)
		}
		if err != nil {
			return end, fmt.Errorf("line %d: %w", n, err)
		}
	}
}

// locked says whether the process that records a run lives.
func locked(f *os.File) bool { return unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB) != nil }

// Peek reads a run that is under way or was cut off, and says whether the process
// that records it lives.
func (s Store) Peek(name string, line func([]byte) error) (r *Run, alive bool, err error) {
	path := filepath.Join(s.Dir, filepath.Base(name)+progressSuffix)
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, false, err
	}
	defer func() { f.Close() }()
	for alive = locked(f); !alive && !isSameFile(f, path); alive = locked(f) {
		// Another has taken its place meanwhile, or it has ended.
		next, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW, 0)
		if err != nil {
			return nil, false, err
		}
		f.Close()
		f = next
	}
	r = &Run{}
	if _, err := lines(f, r, line); err != nil {
		return nil, alive, fmt.Errorf("%s: %w", f.Name(), err)
	}
	return r, alive, nil
}
