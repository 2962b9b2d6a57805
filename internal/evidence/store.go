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

// Store is a directory of runs, one file per run, named by ID. Concurrent writers are safe. After
// a crash each record is complete or absent. Unfinished runs are stored line by line in the same
// directory.
type Store struct{ Dir string }

// The suffixes of file names.
const (
	recordSuffix   = ".json"
	progressSuffix = ".jsonl" // an unfinished run
)

// make creates the directory with access for its owner only.
func (s Store) make() error {
	if err := os.Mkdir(s.Dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	st, err := os.Lstat(s.Dir)
	switch {
	case err != nil:
		return err
	case !st.IsDir():
		return fmt.Errorf("%s must be a directory; runs are stored there", s.Dir)
	case st.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("%s is writable by other users; if you trust its content, run chmod 0700 on it", s.Dir)
	}
	return nil
}

// Put stores a record and sets its ID. An existing equal record is kept.
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
	// A link, unlike a rename, does not replace an existing file.
	to := filepath.Join(s.Dir, r.ID+recordSuffix)
	if err := os.Link(f.Name(), to); errors.Is(err, fs.ErrExist) {
		there, err := os.ReadFile(to)
		if err == nil && !bytes.Equal(there, text) {
			err = fmt.Errorf("run %s already exists with other content", r.ID)
		}
		return err
	} else if err != nil {
		return err
	}
	return host.SyncDir(s.Dir)
}

// Get returns the run whose ID begins with id. It returns an error if none or several do.
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
		err = fmt.Errorf("file name does not match the run in it (%s)", r.ID)
	}
	if err != nil {
		return nil, &DamagedError{path, err}
	}
	return r, nil
}

// names returns the sorted names of the files with a suffix, with the suffix removed.
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

// All returns the runs, oldest first. Unreadable records are returned as errors (*DamagedError) in
// addition to the readable runs. The runs are nil only if the store cannot be read.
func (s Store) All() ([]*Run, error) {
	names, err := s.names(recordSuffix)
	if err != nil {
		return nil, err
	}
	out := []*Run{} // not nil: the store could be read
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

// Begin starts recording a run. The file is locked until Close or the end of
// the process.
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

// remove deletes the file of an unfinished run, and Replace's temporary file.
func remove(path string) error {
	if err := os.Remove(path + replaceSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Remove(path)
}

// Finish stores the complete record and deletes the unfinished one.
func (s Store) Finish(u *RunInProgress) error {
	if err := s.Put(u.Run); err != nil {
		return errors.Join(err, u.file.Close())
	}
	return errors.Join(remove(u.Path), u.file.Close())
}

// Discard deletes an unfinished run without a result.
func (s Store) Discard(u *RunInProgress) error {
	return errors.Join(remove(u.Path), u.file.Close(), host.SyncDir(s.Dir))
}

// ErrInProgress is returned if the process that records a run is still running.
var ErrInProgress = errors.New("the run is still in progress")

// Unfinished returns the names of unfinished runs, oldest first, except those
// without a first line.
func (s Store) Unfinished() ([]string, error) {
	names, err := s.names(progressSuffix)
	return slices.DeleteFunc(names, func(name string) bool {
		st, err := os.Lstat(filepath.Join(s.Dir, name+progressSuffix))
		return err == nil && st.Size() == 0
	}), err
}

// Resume continues an unfinished run. It calls line for each recorded line
// after the first, and removes an incomplete last line.
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

// lines reads the record of an unfinished run and returns the offset after its
// last complete line.
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
				err = fmt.Errorf("schema is %q, not %q", r.Schema, Schema)
			}
		} else {
			err = line(text)
		}
		if err != nil {
			return end, fmt.Errorf("line %d: %w", n, err)
		}
	}
}

// locked reports whether the process that records a run is still running. It takes the lock if
// not.
func locked(f *os.File) bool { return unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB) != nil }

// Peek reads an unfinished run. alive reports whether the process that records it is still
// running.
func (s Store) Peek(name string, line func([]byte) error) (r *Run, alive bool, err error) {
	path := filepath.Join(s.Dir, filepath.Base(name)+progressSuffix)
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, false, err
	}
	defer func() { f.Close() }()
	for alive = locked(f); !alive && !isSameFile(f, path); alive = locked(f) {
		// Finished, or replaced by another file meanwhile.
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
