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
)

const (
	version = 1
	name    = "journal"
	// maxObjects is as a plan's.
	maxObjects = 2_000_000
	// flushEvery is the longest time for which a line is buffered unless Sync is called.
	flushEvery = 50 * time.Millisecond
	// flushAt is how many bytes are kept back at most.
	flushAt = 64 << 10
)

// ErrBusy means that another process has the run.
var ErrBusy = errors.New("another process is at this run")

// JournalDamaged is the error of a journal that cannot be read, or is gone: what the run has made
// is not known from it.
type JournalDamaged struct{ Err error }

func (d *JournalDamaged) Error() string { return d.Err.Error() }
func (d *JournalDamaged) Unwrap() error { return d.Err }

// open opens a file of the journal in a directory; one that is not there is Damaged.
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
	// Server is the address of the API server, Cluster the uid of its namespace
	// kube-system, which no other cluster has.
	Server  string `json:"server"`
	Cluster string `json:"cluster"`
	File    string `json:"file"`
	Objects int    `json:"objects"`
	// Plan is the plan's checksum.
	Plan string `json:"plan"`
	// Load is the checksum of the file that keeps the load, SHA-256 in hexadecimal digits; ""
	// in a run of an earlier version.
	Load string `json:"load_sha256,omitempty"`
}

// Was is what has become of an object.
type Was uint8

// The states of an object.
const (
	Nothing Was = iota // not known: not made, unless it is before State.Reserved
	Created
	Reused
	Failed
	Gone
	JournalKept
)

// Object is one of the run.
type Object struct {
	Was Was
	UID string
	Why string // of Failed and Kept
	// Refused says of Failed that it was certainly not made: each request for it was
	// answered, and the answers were refusals. It holds until the run goes on.
	Refused bool
}

// Phase is the last recorded phase of a run.
type Phase string

// The phases.
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
	Acted    map[int]bool // the actions of the plan that are done
	Phase    Phase
	PhaseAt  time.Time
	// Held reports whether another process is at the run; it is of Read alone.
	Held bool
}

// Unsure says of an object that the journal covers that it may have been made without a line
// of its own.
func (s *State) Unsure(i int) bool {
	o := s.Objects[i]
	return i < s.Reserved && (o.Was == Nothing || o.Was == Failed && !o.Refused)
}

// Count is how many objects are in a state.
func (s *State) Count(was Was) int {
	n := 0
	for i := range s.Objects {
		if s.Objects[i].Was == was {
			n++
		}
	}
	return n
}

// Journal records what a run has made, so that the run can be resumed and undone after any
// crash: a file of lines that is only appended to. Before an object is requested, a line that
// covers its number is on the disk (Reserve), so that an object without a line of its own is
// one of few, which can be looked up.
type Journal struct {
	file *os.File

	mu      sync.Mutex
	pending []byte
	err     error // the first one: nothing is written after it
	// flushing is one goroutine's turn to write.
	flushing sync.Mutex
	wake     chan struct{}
	done     chan struct{}
	ended    chan struct{}
}

// Create makes the journal of a run in its directory, which is there and has none.
func Create(dir string, h Header) (*Journal, error) {
	h.Version = version
	if h.Objects > maxObjects {
		return nil, fmt.Errorf("a run has %d objects at most", maxObjects)
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

// Open opens the journal of a run to add to it. What a crash has cut off at its end is
// removed.
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
		// Who had it may have added to it before the lock was free.
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

// flusher writes what was buffered for flushEvery.
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
		_ = j.Sync() // who asks next is told
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

// Sync returns when all that was added before is on the disk. Its error is that of the
// first write that failed: nothing is written after that.
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
		err = fmt.Errorf("the journal %s cannot be written: %w", j.file.Name(), err)
		j.mu.Lock()
		j.err = err
		j.mu.Unlock()
	}
	return err
}

// Err is the error of the first write that failed.
func (j *Journal) Err() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.err
}

// Reserve returns when it is on the disk that the objects before n may be asked for.
func (j *Journal) Reserve(n int) error {
	j.add(letterReserved, strconv.Itoa(n))
	return j.Sync()
}

// Created notes that the run has made an object.
func (j *Journal) Created(i int, uid string) { j.add(letterCreated, strconv.Itoa(i)+" "+uid) }

// Reused notes that an object was there already, and is used.
func (j *Journal) Reused(i int, uid string) { j.add(letterReused, strconv.Itoa(i)+" "+uid) }

// Failed notes that an object could not be made.
func (j *Journal) Failed(i int, why string) {
	j.add(letterFailed, strconv.Itoa(i)+" "+strconv.Quote(why))
}

// Refused notes that an object could not be made, and that it was certainly not.
func (j *Journal) Refused(i int, why string) {
	j.add(letterRefused, strconv.Itoa(i)+" "+strconv.Quote(why))
}

// Gone notes that an object that the run has made is there no longer.
func (j *Journal) Gone(i int) { j.add(letterGone, strconv.Itoa(i)) }

// Acted notes that an action of the plan is done.
func (j *Journal) Acted(i int) { j.add(letterActed, strconv.Itoa(i)) }

// Kept notes that the undo leaves an object where it is.
func (j *Journal) Kept(i int, why string) {
	j.add(letterKept, strconv.Itoa(i)+" "+strconv.Quote(why))
}

// Begin notes a phase; it is on the disk when Begin returns.
func (j *Journal) Begin(p Phase) error {
	j.add(letterPhase, string(p)+" "+time.Now().UTC().Format(time.RFC3339Nano))
	return j.Sync()
}

// Close writes what is buffered, and releases the run.
func (j *Journal) Close() error {
	close(j.done)
	<-j.ended
	return errors.Join(j.Sync(), j.file.Close())
}
