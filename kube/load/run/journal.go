package run

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/text"
)

const (
	version = 1
	name    = "journal"
	// maxObjects equals a plan's maximum.
	maxObjects = 2_000_000
	// flushEvery limits how long a line stays buffered without Sync.
	flushEvery = 50 * time.Millisecond
	// flushAt is the maximum number of buffered bytes.
	flushAt = 64 << 10
)

// ErrBusy means that another process holds the run's lock.
var ErrBusy = errors.New("another process is working on this run")

// JournalDamaged is the error of a missing or unreadable journal: the objects that the run created
// are then unknown.
type JournalDamaged struct{ Err error }

func (d *JournalDamaged) Error() string { return d.Err.Error() }
func (d *JournalDamaged) Unwrap() error { return d.Err }

// open opens the journal in a directory; a missing file is JournalDamaged.
func open(dir string, how int) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, name), how|unix.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &JournalDamaged{err}
	}
	return f, err
}

// Header identifies a run.
type Header struct {
	Version int       `json:"version"`
	Run     string    `json:"run"`
	Began   time.Time `json:"began"`
	// Server is the address of the API server, Cluster the UID of its namespace kube-system, which
	// is unique.
	Server  string `json:"server"`
	Cluster string `json:"cluster"`
	File    string `json:"file"`
	Objects int    `json:"objects"`
	// Plan is the plan's checksum.
	Plan string `json:"plan"`
	// Load is the SHA-256 checksum of the file with the load, in hexadecimal; "" in a run of an
	// earlier version.
	Load string `json:"load_sha256,omitempty"`
}

// Was is the state of an object.
type Was uint8

// States of an object.
const (
	Nothing Was = iota // unknown: not created, unless the index is below State.Reserved
	Created
	Reused
	Failed
	Gone
	JournalKept
)

// Object is an object of the run.
type Object struct {
	Was Was
	UID string
	Why string // for Failed and Kept
	// Refused means that a Failed object was certainly not created, because the server rejected
	// every request for it. It is cleared when the run continues.
	Refused bool
}

// Phase is the last recorded phase of a run.
type Phase string

// Phases of a run.
const (
	Running Phase = "running"
	Ended   Phase = "ended"
	Undoing Phase = "undoing"
	Undone  Phase = "undone"
)

// State is the content of a journal.
type State struct {
	Header   Header
	Reserved int
	Objects  []Object
	Acted    map[int]bool // completed actions of the plan
	Phase    Phase
	PhaseAt  time.Time
	// Held reports whether another process holds the run's lock; only Read sets it.
	Held bool
}

// Unsure reports whether object i may exist in the cluster although the journal does not record
// its creation: its request was reserved, and either has no recorded result or failed without a
// certain rejection.
func (s *State) Unsure(i int) bool {
	o := s.Objects[i]
	return i < s.Reserved && (o.Was == Nothing || o.Was == Failed && !o.Refused)
}

// Count returns the number of objects in a state.
func (s *State) Count(was Was) int {
	n := 0
	for i := range s.Objects {
		if s.Objects[i].Was == was {
			n++
		}
	}
	return n
}

// Journal is an append-only file that records the objects a run created. With it the run can be
// resumed and undone after any crash. Before an object is requested, a line that covers its number
// is on disk (Reserve). Only a few objects can therefore exist without their own line, and Undo
// looks these up.
type Journal struct {
	file *os.File

	mu      sync.Mutex
	pending []byte
	err     error // first error; nothing is written after it
	// flushing is held by the goroutine that writes.
	flushing sync.Mutex
	wake     chan struct{}
	done     chan struct{}
	ended    chan struct{}
}

// Create creates the journal of a run in an existing directory without one.
func Create(dir string, h Header) (*Journal, error) {
	h.Version = version
	if h.Objects > maxObjects {
		return nil, text.Errorf("a run can have at most %d objects", maxObjects)
	}
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_RDWR|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(h)
	if err == nil {
		err = lock(f)
	}
	if err == nil {
		_, err = f.Write(appendLine(nil, letterHeader, string(text)))
	}
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = host.SyncDir(dir)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return start(f), nil
}

// Open opens the journal of a run to append to it. It removes an incomplete last line.
func Open(dir string) (*Journal, *State, error) {
	f, err := open(dir, os.O_RDWR)
	if err != nil {
		return nil, nil, err
	}
	s, whole, err := readFile(f)
	if err == nil {
		err = lock(f)
	}
	if err == nil {
		// The previous holder may have appended to it before the lock was free.
		if s, whole, err = readFile(f); err == nil {
			err = f.Truncate(int64(whole))
		}
	}
	if err == nil {
		_, err = f.Seek(int64(whole), io.SeekStart)
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return start(f), s, nil
}

func lock(f *os.File) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return fmt.Errorf("%w (%s)", ErrBusy, f.Name())
	}
	return err
}

func start(f *os.File) *Journal {
	j := &Journal{file: f, wake: make(chan struct{}, 1), done: make(chan struct{}), ended: make(chan struct{})}
	go j.flusher()
	return j
}

// flusher writes buffered lines every flushEvery.
func (j *Journal) flusher() {
	defer close(j.ended)
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	for {
		select {
		case <-j.done:
			return
		case <-j.wake:
		case <-tick.C:
		}
		_ = j.Sync() // the next caller gets the error
	}
}

func (j *Journal) add(letter byte, rest string) {
	j.mu.Lock()
	j.pending = appendLine(j.pending, letter, rest)
	full := len(j.pending) >= flushAt
	j.mu.Unlock()
	if full {
		select {
		case j.wake <- struct{}{}:
		default:
		}
	}
}

// Sync waits until all added lines are on disk. It returns the error of the first failed write,
// after which nothing is written.
func (j *Journal) Sync() error {
	j.flushing.Lock()
	defer j.flushing.Unlock()
	j.mu.Lock()
	text, err := j.pending, j.err
	j.pending = nil
	j.mu.Unlock()
	if err != nil || len(text) == 0 {
		return err
	}
	_, err = j.file.Write(text)
	if err == nil {
		err = unix.Fdatasync(int(j.file.Fd()))
	}
	if err != nil {
		err = fmt.Errorf("cannot write the journal %s: %w", j.file.Name(), err)
		j.mu.Lock()
		j.err = err
		j.mu.Unlock()
	}
	return err
}

// Err returns the error of the first failed write.
func (j *Journal) Err() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.err
}

// Reserve records that the objects below n may be requested, and waits until that is on disk.
func (j *Journal) Reserve(n int) error {
	j.add(letterReserved, strconv.Itoa(n))
	return j.Sync()
}

// Created records that the run has created an object.
func (j *Journal) Created(i int, uid string) { j.add(letterCreated, strconv.Itoa(i)+" "+uid) }

// Reused records that an object existed already, and is used.
func (j *Journal) Reused(i int, uid string) { j.add(letterReused, strconv.Itoa(i)+" "+uid) }

// Failed records that an object could not be created.
func (j *Journal) Failed(i int, why string) {
	j.add(letterFailed, strconv.Itoa(i)+" "+strconv.Quote(why))
}

// Refused records that an object certainly was not created.
func (j *Journal) Refused(i int, why string) {
	j.add(letterRefused, strconv.Itoa(i)+" "+strconv.Quote(why))
}

// Gone records that an object of the run no longer exists.
func (j *Journal) Gone(i int) { j.add(letterGone, strconv.Itoa(i)) }

// Acted records that an action of the plan is done.
func (j *Journal) Acted(i int) { j.add(letterActed, strconv.Itoa(i)) }

// Kept records that the undo leaves an object, and why.
func (j *Journal) Kept(i int, why string) {
	j.add(letterKept, strconv.Itoa(i)+" "+strconv.Quote(why))
}

// Begin records a phase, and waits until that is on disk.
func (j *Journal) Begin(p Phase) error {
	j.add(letterPhase, string(p)+" "+time.Now().UTC().Format(time.RFC3339Nano))
	return j.Sync()
}

// Close writes buffered records, and releases the run.
func (j *Journal) Close() error {
	close(j.done)
	<-j.ended
	return errors.Join(j.Sync(), j.file.Close())
}
