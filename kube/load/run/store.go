package run

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/kube/load/plan"
)

// Store keeps the runs of cluster loads in one directory each: the load with the content of all
// named files, the server's kinds, and the journal.
type Store struct{ Dir string }

// Default returns the directory of this user's runs.
func Default() (string, error) {
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "fettle", "load"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("%w: name a directory for the journal with --state-dir", err)
	}
	return filepath.Join(home, ".local", "state", "fettle", "load"), nil
}

// StoredRun holds the data that a resume needs in addition to the run's journal.
type StoredRun struct {
	ID    string     `json:"-"`
	Load  *plan.Load `json:"load"`
	Kinds plan.Kinds `json:"kinds"`
	// InFlight and Rate are the values from the command line.
	InFlight int     `json:"in_flight,omitempty"`
	Rate     float64 `json:"rate_per_s,omitempty"`
	// Visit marks a phase of an experiment, which removes its objects itself.
	Visit bool `json:"visit,omitempty"`
}

const loadFile = "load.json"

// maxLoad limits a stored load, in bytes. Files named in a load have at most 16 MiB each, and a
// plan at most 2 million objects of few kinds.
const maxLoad = 256 << 20

// NewID returns the ID of a run that starts now.
func NewID(now time.Time) string {
	return strings.ReplaceAll(now.UTC().Format("20060102-150405.000"), ".", "-")
}

// isID reports whether a directory name has the form of NewID and is therefore a run.
func isID(name string) bool {
	at := strings.LastIndexByte(name, '-')
	if at < 0 {
		return false
	}
	_, err := time.Parse("20060102-150405.000", name[:at]+"."+name[at+1:])
	return err == nil
}

// prepare creates the store's directory. It returns an error if other users may write to it.
func (s Store) prepare() error {
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return err
	}
	st, err := os.Stat(s.Dir)
	if err != nil {
		return err
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	switch {
	case !st.IsDir():
		return s.notDirectory()
	case !ok || int(sys.Uid) != os.Geteuid():
		return fmt.Errorf("%s belongs to user %d, not to you (%d); name another one with --state-dir", s.Dir, sys.Uid, os.Geteuid())
	case st.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("%s is writable by other users; run chmod 0700, or name another directory with --state-dir", s.Dir)
	}
	return nil
}

func (s Store) notDirectory() error {
	return fmt.Errorf("%s is not a directory; name another one with --state-dir", s.Dir)
}

// Create stores a run and begins its journal.
func (s Store) Create(r *StoredRun, h Header) (*Journal, error) {
	if err := s.prepare(); err != nil {
		return nil, err
	}
	text, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	if len(text) > maxLoad {
		return nil, fmt.Errorf("the load and its files have %d MiB, at most %d MiB allowed; use smaller files", len(text)>>20, maxLoad>>20)
	}
	dir := filepath.Join(s.Dir, r.ID)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, loadFile), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	if _, err := f.Write(text); err != nil {
		f.Close()
		return nil, err
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return nil, err
	}
	h.Load = sumOf(text)
	return Create(dir, h)
}

// Open reads a run and opens its journal to continue it.
func (s Store) Open(id string) (*StoredRun, *Journal, *State, error) {
	r, err := s.Load(id)
	if err != nil {
		return nil, nil, nil, err
	}
	j, state, err := Open(filepath.Join(s.Dir, id))
	return r, j, state, err
}

// Load reads a run, without its journal.
func (s Store) Load(id string) (*StoredRun, error) {
	if id == "" || id != filepath.Base(id) || id == "." || id == ".." {
		return nil, fmt.Errorf("%q is not a valid run name", id)
	}
	text, err := s.text(id)
	if errors.Is(err, fs.ErrNotExist) {
		if _, there := os.Stat(filepath.Join(s.Dir, id)); there == nil {
			return nil, s.damaged(id, errGone)
		}
		return nil, fmt.Errorf("run %s not found in %s", id, s.Dir)
	}
	if errors.Is(err, syscall.ENOTDIR) {
		return nil, s.notDirectory()
	}
	if errors.Is(err, errTooLarge) {
		return nil, s.damaged(id, err)
	}
	if err != nil {
		return nil, err
	}
	if h, err := Head(filepath.Join(s.Dir, id)); err == nil && h.Load != "" && h.Load != sumOf(text) {
		return nil, s.damaged(id, errors.New("changed since the run wrote it"))
	}
	r := &StoredRun{ID: id}
	if err := json.Unmarshal(text, r); err != nil {
		return nil, s.damaged(id, err)
	}
	if r.Load == nil {
		return nil, s.damaged(id, errors.New("contains no load"))
	}
	return r, nil
}

// sumOf returns the checksum of a load's file.
func sumOf(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

var errGone = errors.New("file missing")

// Damaged is the error of a run whose load is missing, unreadable or changed. Only the UIDs of its
// objects are known.
type Damaged struct {
	Run  string
	file string
	why  error
}

func (d *Damaged) Error() string {
	return fmt.Sprintf("%s is damaged: %v; the run cannot be resumed or undone. Its objects have the label %s=%s", d.file, d.why, plan.RunLabel, d.Run)
}

func (d *Damaged) Unwrap() error { return d.why }

// errTooLarge is the error of a load that is too large to be read.
var errTooLarge = fmt.Errorf("larger than %d MiB", maxLoad>>20)

// text reads the text of a run's load.
func (s Store) text(id string) ([]byte, error) {
	f, err := os.Open(filepath.Join(s.Dir, id, loadFile))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err == nil && st.Size() > maxLoad {
		err = errTooLarge
	}
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, maxLoad+1))
	if err == nil && len(text) > maxLoad {
		err = errTooLarge
	}
	return text, err
}

func (s Store) damaged(id string, why error) error {
	return &Damaged{id, filepath.Join(s.Dir, id, loadFile), why}
}

// Records returns the store of a run's evidence.
func (s Store) Records(id string) evidence.Store {
	return evidence.Store{Dir: filepath.Join(s.Dir, id, "records")}
}

// Remove removes the record of an undone run, and returns an error for any other run.
func (s Store) Remove(id string) error {
	r, j, state, err := s.Open(id)
	if err != nil {
		return err
	}
	if state.Phase != Undone {
		return errors.Join(fmt.Errorf("run %s is not undone", id), j.Close())
	}
	return errors.Join(os.RemoveAll(filepath.Join(s.Dir, r.ID)), j.Close())
}

// StoreKept is a stored run with its journal's state, read without opening it for writing.
type StoreKept struct {
	ID    string
	State *State
	Err   error // why its journal cannot be read
}

// List returns the runs, latest first.
func (s Store) List() ([]StoreKept, error) {
	entries, err := os.ReadDir(s.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if errors.Is(err, syscall.ENOTDIR) {
		return nil, s.notDirectory()
	}
	if err != nil {
		return nil, err
	}
	var all []StoreKept
	for _, e := range slices.Backward(entries) {
		if !e.IsDir() || !isID(e.Name()) {
			continue
		}
		state, err := Read(filepath.Join(s.Dir, e.Name()))
		all = append(all, StoreKept{e.Name(), state, err})
	}
	return all, nil
}

// Last returns the latest run; "" for none.
func (s Store) Last() (string, error) {
	all, err := s.List()
	if err != nil || len(all) == 0 {
		return "", err
	}
	return all[0].ID, nil
}

// Owns returns, for UIDs of objects in a cluster, the runs that created them.
func (s Store) Owns(cluster string, uids map[string]bool) (map[string]string, error) {
	all, err := s.List()
	if err != nil {
		return nil, err
	}
	by := map[string]string{}
	for _, k := range all {
		if k.Err != nil || k.State.Header.Cluster != cluster {
			continue
		}
		for _, o := range k.State.Objects {
			if (o.Was == Created || o.Was == JournalKept) && uids[o.UID] {
				by[o.UID] = k.ID
			}
		}
	}
	return by, nil
}
