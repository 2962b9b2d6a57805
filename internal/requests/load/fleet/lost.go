package fleet

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// Lost describes a client that stopped reporting before its load ended. Its counts are unknown.
type Lost struct {
	Client string
	// Heard is the time of the last report. At is the position in the client's load at that time.
	Heard time.Time
	At    time.Duration
	// Silent is the time without a report after which the client was given up. It is 0 if the
	// client ended or reported an error.
	Silent time.Duration
	Err    error
}

func (l *Lost) Error() string {
	return fmt.Sprintf("client %s: %s", l.Client, l.Why())
}

func (l *Lost) Unwrap() error { return l.Err }

// Why returns why the client was given up, without its name.
func (l *Lost) Why() string {
	when := fmt.Sprintf("%s, %.0f s into the load", l.Heard.Format(time.TimeOnly), l.At.Seconds())
	if l.Silent > 0 {
		text := fmt.Sprintf("last report at %s; given up %.0f s later", when, l.Silent.Seconds())
		if gone := (*Gone)(nil); errors.As(l.Err, &gone) {
			text += ": " + gone.Why
		}
		return text
	}
	return fmt.Sprintf("%v (last report at %s)", l.Err, when)
}

// Gone is the error of a session that knows why its worker ended.
type Gone struct{ Why string }

func (g *Gone) Error() string { return g.Why }

// Limits for the reports of a client, which sends one each second.
const (
	// quiet is the time without a report after which Fleet.Quiet is called.
	quiet = 5 * time.Second
	// patience is the time without a report after which a client is given up, and the limit for
	// its final report after the load.
	patience = 30 * time.Second
)

// hearing watches the reports of a client.
type hearing struct {
	client   *Client
	patience time.Duration
	over     time.Time // latest possible end of the client's load
	told     func(since time.Time)
	tell     *time.Timer
	give     *time.Timer // calls giveUp

	mu      sync.Mutex
	last    time.Time
	at      time.Duration
	silent  time.Duration // time without a report when given up
	stopped bool          // the client was asked to stop
	ended   bool
}

// listen starts watching a client whose load begins at begin and takes at most length.
func (c *Client) listen(begin time.Time, length, patience time.Duration, told func(since time.Time)) *hearing {
	h := &hearing{client: c, patience: patience, over: begin.Add(length), told: told, last: begin}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tell = time.AfterFunc(time.Until(begin)+min(quiet, patience), h.quiet)
	h.give = time.AfterFunc(time.Until(begin)+h.wait(begin), h.giveUp)
	return h
}

// wait returns the maximum silence of a client after since. Around the end of the load it is
// longer: the final report is one long line, which a slow network delays.
func (h *hearing) wait(since time.Time) time.Duration {
	if left := h.over.Sub(since); left <= h.patience {
		return max(0, left) + h.patience
	}
	return h.patience
}

// heard records a report and restarts the timer.
func (h *hearing) heard(n Now) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last, h.at = time.Now(), n.At
	if !h.stopped && !h.ended {
		h.tell.Reset(min(quiet, h.patience))
		h.give.Reset(h.wait(h.last))
	}
}

// stop restarts the timer after the client was asked to stop.
func (h *hearing) stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stopped = true
	h.tell.Stop()
	if !h.ended {
		h.give.Reset(h.patience)
	}
}

// end stops watching.
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
	h.client.session.Close() // a remote process may hold its output open
}

// lost returns the description of the client's loss.
func (h *hearing) lost(err error) *Lost {
	h.mu.Lock()
	defer h.mu.Unlock()
	return &Lost{Client: h.client.Name, Heard: h.last, At: h.at, Silent: h.silent, Err: err}
}
