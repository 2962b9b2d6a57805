package fleet

import (
	"fmt"
	"sync"
	"time"
)

// Lost is why a client that was driving its share is not heard of any longer. What it has
// counted nobody knows.
type Lost struct {
	Client string
	// Heard is when it was last heard of, and At how far its load was then.
	Heard time.Time
	At    time.Duration
	// Silent is how long nothing had come from it when it was given up; 0: it has ended, or
	// has said why.
	Silent time.Duration
	Err    error
}

func (l *Lost) Error() string {
	return fmt.Sprintf("client %s: %s", l.Client, l.Why())
}

func (l *Lost) Unwrap() error { return l.Err }

// Why says it without the name.
func (l *Lost) Why() string {
	when := fmt.Sprintf("%s, %.0f s into the load", l.Heard.Format(time.TimeOnly), l.At.Seconds())
	if l.Silent > 0 {
		return fmt.Sprintf("it has said nothing since %s, and was given up after %.0f s", when, l.Silent.Seconds())
	}
	return fmt.Sprintf("%v (it was last heard of at %s)", l.Err, when)
}

// A client says each second how it goes.
const (
	// quiet is after how long somebody is told of one that says nothing.
	quiet = 5 * time.Second
	// patience is how long it may say nothing, and how long it may take for its last words,
	// beyond what its load takes.
	patience = 30 * time.Second
)

// hearing is what is heard of a client that drives its share.
type hearing struct {
	client   *Client
	patience time.Duration
	over     time.Time // when its load is, at the latest
	told     func(since time.Time)
	tell     *time.Timer
	give     *time.Timer // gives it up

	mu      sync.Mutex
	last    time.Time
	at      time.Duration
	silent  time.Duration // that it was given up after
	stopped bool          // it was told to stop, and has patience from then on
	ended   bool
}

// listen begins to wait for a client whose load begins at a moment and takes so long at the
// most.
func (c *Client) listen(begin time.Time, length, patience time.Duration, told func(since time.Time)) *hearing {
	h := &hearing{client: c, patience: patience, over: begin.Add(length), told: told, last: begin}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tell = time.AfterFunc(time.Until(begin)+min(quiet, patience), h.quiet)
	h.give = time.AfterFunc(time.Until(begin)+h.wait(begin), h.giveUp)
	return h
}

// wait is for how long nothing may come after a moment. What a client says in the end is one
// long line, which takes as long as the way there makes it: a silence of the end of its load
// is none.
func (h *hearing) wait(since time.Time) time.Duration {
	if left := h.over.Sub(since); left <= h.patience {
		return max(0, left) + h.patience
	}
	return h.patience
}

// heard takes that something came.
func (h *hearing) heard(n Now) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last, h.at = time.Now(), n.At
	if !h.stopped && !h.ended {
		h.tell.Reset(min(quiet, h.patience))
		h.give.Reset(h.wait(h.last))
	}
}

// stop is that the client is told to.
func (h *hearing) stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stopped = true
	h.tell.Stop()
	if !h.ended {
		h.give.Reset(h.patience)
	}
}

// end stops waiting.
func (h *hearing) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ended = true
	h.tell.Stop()
	h.give.Stop()
}

func (h *hearing) quiet() {
	h.mu.Lock()
	since, over := h.last, h.stopped || time.Until(h.over) < 0
	h.mu.Unlock()
	if !over {
		h.told(since)
	}
}

func (h *hearing) giveUp() {
	h.mu.Lock()
	h.silent = time.Since(h.last)
	h.mu.Unlock()
	h.client.session.Kill()
	h.client.session.Close() // what it has started elsewhere may hold its output open
}

// lost is the end of one of which no more comes.
func (h *hearing) lost(err error) *Lost {
	h.mu.Lock()
	defer h.mu.Unlock()
	return &Lost{Client: h.client.Name, Heard: h.last, At: h.at, Silent: h.silent, Err: err}
}
