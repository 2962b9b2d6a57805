package daemon

import (
	"os"
	"sync"
	"time"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/host"
)

// writeQueue holds writes until the daemon has time for them. Who wrote is asked
// at once: the process may be about to end.
type writeQueue struct {
	dir   string // of the journal, whose transactions are not others
	ready chan struct{}

	mu      sync.Mutex
	pending []seenWrite
	failed  error
	armed   bool
	taken   time.Time
}

// seenWrite is a write, and whether it was fettle's own.
type seenWrite struct {
	host.FileWrite
	own bool
}

// The daemon is woken at most every breath, however often somebody writes.
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
		q.pending = append(q.pending[:0], seenWrite{FileWrite: host.FileWrite{Time: time.Now()}}) // some are lost
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

// take returns what is there, in order.
func (q *writeQueue) take() ([]seenWrite, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	list, err := q.pending, q.failed
	q.pending, q.failed, q.armed, q.taken = nil, nil, false, time.Now()
	return list, err
}
