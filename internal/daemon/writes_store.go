package daemon

import (
	"encoding/json"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/override"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
)

// watchStore keeps the record of writes in the state directory for other processes. It replaces
// the file atomically but does not sync it: a boot makes the record void.
type watchStore struct {
	dir  string
	seen map[setting.Setting]bool // settings that this daemon has watched without a gap

	mu    sync.Mutex
	text  []byte
	saved time.Time
	timer *time.Timer
}

// pause is the minimum time between two saves of the file.
const pause = 250 * time.Millisecond

// began reports whether this daemon has watched a setting since its start.
func (s *watchStore) began(id setting.Setting) bool { return s.seen[id] }

func (s *watchStore) follow(list []override.Watched) {
	s.seen = map[setting.Setting]bool{}
	for _, e := range list {
		s.seen[e.Setting] = true
	}
}

// save writes the record: at once, or when the pause is over.
func (s *watchStore) save(w *override.Watch, fail func(error)) {
	text, err := json.Marshal(w)
	if err != nil {
		fail(err)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.text = text; s.timer != nil {
		return
	}
	if wait := pause - time.Since(s.saved); wait > 0 {
		s.timer = time.AfterFunc(wait, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.timer = nil
			if err := s.write(); err != nil {
				fail(err)
			}
		})
		return
	}
	if err := s.write(); err != nil {
		fail(err)
	}
}

// flush writes the last record immediately.
func (s *watchStore) flush(w *override.Watch) {
	text, err := json.Marshal(w)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer != nil {
		s.timer.Stop()
	}
	if s.text = text; err == nil {
		_ = s.write()
	}
}

func (s *watchStore) write() error {
	s.saved = time.Now()
	f, err := os.OpenFile(filepath.Join(s.dir, "."+override.WatchFile+".new"), os.O_WRONLY|os.O_CREATE|os.O_TRUNC|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(s.text, '\n'))
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(s.dir, override.WatchFile))
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// writeQueue holds writes until the daemon handles them. It looks up the writer at once, because
// that process may end.
type writeQueue struct {
	dir   string // the journal's directory; its transactions are not other programs' writes
	ready chan struct{}

	mu      sync.Mutex
	pending []seenWrite
	failed  error
	armed   bool
	taken   time.Time
}

// seenWrite is a write, with whether fettle made it.
type seenWrite struct {
	host.FileWrite
	own bool
}

// The daemon wakes at most once every breath, at any rate of writes.
const (
	breath     = 100 * time.Millisecond
	maxPending = 4096
)

func newWriteQueue(dir string) *writeQueue {
	return &writeQueue{dir: dir, ready: make(chan struct{}, 1)}
}

// fill reads the watch until it ends.
func (q *writeQueue) fill(w fileWatch) {
	for {
		list, err := w.Next()
		holder := journal.LastHolder(q.dir)
		seen := make([]seenWrite, len(list))
		for i, f := range list {
			seen[i] = seenWrite{f, f.By.PID == os.Getpid() || f.By.PID > 0 && f.By.PID == holder}
		}
		q.put(seen, err)
		if err != nil {
			return
		}
	}
}

func (q *writeQueue) put(list []seenWrite, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.pending = append(q.pending, list...)
	if len(q.pending) > maxPending {
		q.pending = append(q.pending[:0], seenWrite{FileWrite: host.FileWrite{Time: time.Now()}}) // some writes are lost
	}
	q.failed = err
	if (len(q.pending) == 0 && err == nil) || q.armed {
		return
	}
	q.armed = true
	time.AfterFunc(max(0, breath-time.Since(q.taken)), func() {
		select {
		case q.ready <- struct{}{}:
		default:
		}
	})
}

// take returns the pending writes, in order.
func (q *writeQueue) take() ([]seenWrite, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	list, err := q.pending, q.failed
	q.pending, q.failed, q.armed, q.taken = nil, nil, false, time.Now()
	return list, err
}
