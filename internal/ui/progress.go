package ui

import (
	"fmt"
	"sync"
	"time"

	"fettle.dev/fettle/internal/unit"
)

// Progress is how far long work is.
type Progress struct {
	Text string // the current step and its progress
	// Done of All is complete, in any unit; All is 0 if it is unknown.
	Done, All float64
	Takes     time.Duration // all of the work; used until something is done; 0 if unknown
	Until     time.Time     // when the work ends at the latest; zero if it has no limit
}

// Progress is first shown after progressAfter. A terminal shows it again every progressEvery.
// Elsewhere the lines are linesEvery apart, or a tenth of the work if that is longer.
const (
	progressAfter = time.Second
	progressEvery = time.Second / 2
	linesEvery    = 10 * time.Second
)

// Track shows the progress that at returns, with the time left, until stop is called. On a terminal
// each display replaces the last one, elsewhere each is a new line. It calls at from another
// goroutine.
func (s *Screen) Track(at func() Progress) (stop func()) {
	ended, closed := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(closed)
		t := tracker{began: time.Now()}
		wait := time.NewTimer(progressAfter)
		defer wait.Stop()
		for {
			select {
			case <-ended:
				return
			case <-wait.C:
			}
			t.see(at())
			if line := t.line(); s.live() {
				s.Status("%s", line)
			} else if t.due() {
				s.talk(Line(line))
			}
			wait.Reset(progressEvery)
		}
	}()
	return sync.OnceFunc(func() {
		close(ended)
		<-closed
		s.Status("")
	})
}

// Steps is like Track, but for work that reports its steps. takes is the planned time of the work,
// or 0.
func (s *Screen) Steps(takes time.Duration) (step func(text string, done, all int), stop func()) {
	return s.steps(Progress{Text: "starting", Takes: takes})
}

// StepsUntil is like Steps, but for work of unknown length that ends at a given time at the latest.
func (s *Screen) StepsUntil(end time.Time) (step func(text string, done, all int), stop func()) {
	return s.steps(Progress{Text: "starting", Until: end})
}

func (s *Screen) steps(now Progress) (step func(text string, done, all int), stop func()) {
	var mu sync.Mutex
	stop = s.Track(func() Progress {
		mu.Lock()
		defer mu.Unlock()
		return now
	})
	return func(text string, done, all int) {
		mu.Lock()
		defer mu.Unlock()
		now.Text, now.Done, now.All = text, float64(done), float64(all)
	}, stop
}

// Percent is like Track, but for work with countable progress, such as bytes or files. all may be 0
// if it is unknown.
func (s *Screen) Percent(what string, at func() (done, all int64)) (stop func()) {
	return s.Track(func() Progress {
		done, all := at()
		if all <= 0 {
			return Progress{Text: what}
		}
		return Progress{Text: fmt.Sprintf("%s: %d %%", what, 100*done/all), Done: float64(done), All: float64(all)}
	})
}

// tracker estimates the time left.
type tracker struct {
	began, said time.Time
	now         Progress
	changed     time.Time     // when now.Done changed
	left        time.Duration // at that time; negative if unknown
}

func (t *tracker) see(p Progress) {
	if t.changed.IsZero() {
		t.changed, t.left = t.began, -1
		if p.Takes > 0 {
			t.left = p.Takes
		}
	}
	if p.All > 0 && p.Done > 0 && (p.Done != t.now.Done || p.All != t.now.All) {
		t.changed = time.Now()
		t.left = time.Duration(float64(t.changed.Sub(t.began)) * max(p.All-p.Done, 0) / p.Done)
		if !p.Until.IsZero() {
			t.left = min(t.left, time.Until(p.Until))
		}
	}
	t.now = p
}

// line returns the share done and the estimated time left, assuming a constant rate.
func (t *tracker) line() string {
	left := t.left - time.Since(t.changed)
	switch {
	case t.left < 0:
		return fmt.Sprintf("%s, for %s so far", t.now.Text, Roughly(time.Since(t.began).Seconds()))
	case left <= 0: // it takes longer than estimated, or is being completed
		return t.now.Text
	}
	return fmt.Sprintf("%s, about %s left", t.now.Text, Roughly(left.Seconds()))
}

// due reports whether the next line without a terminal is due.
func (t *tracker) due() bool {
	every := linesEvery
	if t.left > 0 {
		every = max(every, (t.changed.Sub(t.began)+t.left)/10)
	}
	last := t.said
	if last.IsZero() {
		last = t.began
		every = linesEvery // that it works at all is said early
	}
	if time.Since(last) < every {
		return false
	}
	t.said = time.Now()
	return true
}

// Roughly formats the estimate of a time in seconds: whole seconds, later minutes or tenths of
// an hour.
func Roughly(s float64) string {
	d := time.Duration(s * float64(time.Second))
	to := time.Second
	switch {
	case d >= 2*time.Hour:
		to = time.Hour / 10
	case d >= 2*time.Minute:
		to = time.Minute
	}
	return unit.FormatSeconds(max(d.Round(to), time.Second).Seconds())
}
