package scenario

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
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/requests/load/engine"
)

// JournalSchema names the form of a journal.
const JournalSchema = "fettle/scenario-objects/v1"

// Head is the first line of a journal: what undo needs to send requests. It holds no secrets;
// they are read again.
type Head struct {
	Schema string    `json:"schema"`
	Began  time.Time `json:"began"`
	File   string    `json:"file"`
	Text   []byte    `json:"text"`
	Dir    string    `json:"dir"` // of the scenario's files
	Options
	Allow    []string     `json:"allow"`
	Identity engine.Files `json:"identity"` // names of files
	PassFile string       `json:"pass_file,omitempty"`
	PassEnv  string       `json:"pass_env,omitempty"`
}

// object is a line of a journal. Lines with the same number belong to one object.
type object struct {
	N    int64  `json:"n"`
	Step string `json:"step,omitempty"` // in the intent, before the request
	Host int    `json:"host,omitempty"`
	Name string `json:"name,omitempty"`
	// Answered is the status of an answer without an id.
	Answered int    `json:"answered,omitempty"`
	ID       string `json:"id,omitempty"`
	Show     string `json:"show,omitempty"`
	Remove   string `json:"remove,omitempty"`
	// Unchanged is the state of the object; Read reports whether it could be read.
	Unchanged string `json:"unchanged,omitempty"`
	Read      bool   `json:"read,omitempty"`
	Undone    bool   `json:"undone,omitempty"`
	// Named reports that an undo has named the object, whose id is unknown.
	Named bool `json:"named,omitempty"`
}

// Journal records created objects: the intent before the request, the id after it. Each line is on
// disk when append returns; lines that arrive meanwhile share an fsync. If several generators run,
// their journals have no file: the coordinator writes their lines into its own.
type Journal struct {
	Path string

	file     *os.File
	store    func(lines []byte) error
	last     atomic.Int64
	intended atomic.Int64
	created  atomic.Int64

	mu      sync.Mutex
	pending []byte
	next    *batch
	writing bool
	broken  error
}

// batch is a group of lines with one fsync.
type batch struct {
	done chan struct{}
	err  error
}

const journalSuffix = ".jsonl"

// Create creates the journal of a run in a directory, and locks it.
func Create(dir string, h Head) (*Journal, error) {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	path := filepath.Join(dir, h.Run+journalSuffix)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	j := newJournal(path, f)
	if err := j.lock(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	h.Schema = JournalSchema
	if err := j.append(h); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return j, host.SyncDir(dir)
}

func newJournal(path string, f *os.File) *Journal {
	j := &Journal{Path: path, file: f, next: &batch{done: make(chan struct{})}}
	j.store = j.write
	return j
}

// write writes lines into the file, durably.
func (j *Journal) write(lines []byte) error {
	_, err := j.file.Write(lines)
	if err == nil {
		err = unix.Fdatasync(int(j.file.Fd()))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", j.Path, err)
	}
	return nil
}

// BusyError is returned for a journal that another process uses.
type BusyError struct{ Path string }

func (e *BusyError) Error() string { return e.Path + ": the run is still in progress" }

func (j *Journal) lock() error {
	if err := unix.Flock(int(j.file.Fd()), unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		return &BusyError{j.Path}
	} else if err != nil {
		return os.NewSyscallError("flock", err)
	}
	return nil
}

// Close closes the journal. Without an intent, nothing can have been created: it removes it.
func (j *Journal) Close() error {
	if j.intended.Load() == 0 && j.last.Load() == 0 {
		return errors.Join(os.Remove(j.Path), j.file.Close())
	}
	return j.file.Close()
}

func (j *Journal) counts() *Created { return &Created{j.intended.Load(), j.created.Load()} }

// intend records an object before its request, and returns its number.
func (j *Journal) intend(step string, host int, name string) (int64, error) {
	n := j.last.Add(1)
	err := j.append(object{N: n, Step: step, Host: host, Name: name})
	if err == nil {
		j.intended.Add(1)
	}
	return n, err
}

// append writes a line and waits until it is on disk. After an error nothing more is accepted.
func (j *Journal) append(line any) error {
	text, err := json.Marshal(line)
	if err != nil {
		return err
	}
	return j.appendLines(append(text, '\n'))
}

// appendLines is append for encoded lines.
func (j *Journal) appendLines(lines []byte) error {
	j.mu.Lock()
	if j.broken != nil {
		j.mu.Unlock()
		return j.broken
	}
	j.pending = append(j.pending, lines...)
	mine := j.next
	if !j.writing {
		j.writing = true
		go j.flush()
	}
	j.mu.Unlock()
	<-mine.done
	return mine.err
}

// flush writes pending lines until none are left.
func (j *Journal) flush() {
	for {
		j.mu.Lock()
		text, mine := j.pending, j.next
		if len(text) == 0 {
			j.writing = false
			j.mu.Unlock()
			return
		}
		j.pending, j.next = nil, &batch{done: make(chan struct{})}
		j.mu.Unlock()
		if mine.err = j.store(text); mine.err != nil {
			j.mu.Lock()
			j.broken = mine.err
			j.mu.Unlock()
		}
		close(mine.done)
	}
}

// Objects are the objects of a journal, in the order of their intents.
type Objects struct {
	Head
	Path string
	all  []object
}

// Open reads the journal of a run, or of the last one with objects that are not undone or named
// by an undo, and locks it. Without any it returns fs.ErrNotExist.
func Open(dir, run string) (*Journal, *Objects, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*"+journalSuffix))
	if err != nil {
		return nil, nil, err
	}
	slices.Sort(names) // by time
	for _, path := range slices.Backward(names) {
		name := strings.TrimSuffix(filepath.Base(path), journalSuffix)
		if run != "" && name != run {
			continue
		}
		f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|unix.O_NOFOLLOW, 0)
		if err != nil {
			return nil, nil, err
		}
		j := newJournal(path, f)
		x, err := readJournal(path, f)
		if err == nil {
			if run == "" && !slices.ContainsFunc(x.all, func(o object) bool { return o.left() || o.maybe() && !o.Named }) {
				_ = f.Close()
				continue
			}
			err = j.lock()
		}
		if err != nil {
			return nil, nil, errors.Join(err, f.Close())
		}
		j.last.Store(int64(len(x.all)))
		return j, x, nil
	}
	return nil, nil, fs.ErrNotExist
}

// left reports whether an object has an id and is not undone.
func (o *object) left() bool { return o.Remove != "" && !o.Undone }

// maybe reports whether an object may exist although its id is unknown.
func (o *object) maybe() bool { return o.Remove == "" && o.Answered < 400 }

// readJournal reads all lines. A last line that was cut off by a crash was not yet on disk when
// its request could have been sent, so it is ignored.
func readJournal(path string, from io.Reader) (*Objects, error) {
	x := &Objects{Path: path}
	at := map[int64]int{}
	lines := bufio.NewReader(from)
	for n := 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return x, nil
		} else if err != nil {
			return nil, err
		}
		if n == 1 {
			if err := json.Unmarshal(line, &x.Head); err != nil || x.Schema != JournalSchema {
				return nil, fmt.Errorf("%s:1: not a journal of %s", path, JournalSchema)
			}
			continue
		}
		var o object
		if err := json.Unmarshal(bytes.TrimRight(line, "\n"), &o); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, n, err)
		}
		i, known := at[o.N]
		if !known {
			at[o.N] = len(x.all)
			x.all = append(x.all, o)
			continue
		}
		x.all[i].update(&o)
	}
}

// update adds a later line of the same object.
func (o *object) update(later *object) {
	if later.Remove != "" {
		o.ID, o.Show, o.Remove = later.ID, later.Show, later.Remove
	}
	if later.Read {
		o.Unchanged, o.Read = later.Unchanged, true
	}
	o.Answered = max(o.Answered, later.Answered)
	o.Undone, o.Named = o.Undone || later.Undone, o.Named || later.Named
}

// CertFilesOf lists the certificate files of a run's hosts, if the run used a directory of
// certificates.
func (x *Objects) CertFilesOf() (out []string) {
	if x.HostCerts != "" {
		for _, name := range x.HostNames {
			out = append(out, x.HostCerts+"/"+name+".pem")
		}
	}
	return out
}
