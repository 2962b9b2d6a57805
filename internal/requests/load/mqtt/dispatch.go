// dispatch decides when the notification of a job is sent, and when again, as the
// smart proxy of Foreman does in the mode pull-mqtt (smart_proxy_remote_execution_ssh,
// lib/smart_proxy_remote_execution_ssh/mqtt/dispatcher.rb at 4dd2773). It sends nothing and
// looks at no clock.
//
// A job whose notification was sent is hot; the first tick of the proxy's clock (each TTL)
// makes it cold, the second gives it up: it is sent again after the resend interval. So a
// host has between one and two TTL to fetch the job. Hot, cold and running jobs take the
// places that the rate limit leaves. What a host has fetched is running until its last
// report has come, however long that takes.

package mqtt

import (
	"fmt"
	"strings"
	"time"
)

// Settings are those of the proxy.
type Settings struct {
	TTL    time.Duration // mqtt_ttl
	Resend time.Duration // mqtt_resend_interval
	// Limit is how many jobs may be under way (mqtt_rate_limit); 0 is no limit.
	Limit int
}

// Defaults are the proxy's own.
var Defaults = Settings{TTL: 5 * time.Second, Resend: 15 * time.Minute}

func (s Settings) String() string {
	limit := "none"
	if s.Limit > 0 {
		limit = fmt.Sprint(s.Limit)
	}
	return fmt.Sprintf("ttl=%s,resend=%s,limit=%s", short(s.TTL), short(s.Resend), limit)
}

// short is a time without what is zero: 15m in place of 15m0s.
func short(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// place is where a job is; it can be running and waiting at a time.
type place struct{ waits, hot, cold, running, done bool }

// Tracker keeps the jobs of a round, by their numbers.
type Tracker struct {
	limit   int
	jobs    []place
	waiting []int // numbers; one that does not wait any more is passed over
	hot     []int // as they became it; the same
	cold    []int

	nWaiting, nHot, nCold, nRunning int
}

// New makes a tracker of so many jobs, none of which is there yet.
func New(jobs, limit int) *Tracker { return &Tracker{limit: limit, jobs: make([]place, jobs)} }

// Add puts a job, or one that is to be sent again, at the end of those that wait. One that
// is done is passed over; one that runs is not: the proxy sends its notification again.
func (t *Tracker) Add(job int) {
	p := &t.jobs[job]
	if p.done || p.waits {
		return
	}
	p.waits = true
	t.nWaiting++
	t.waiting = append(t.waiting, job)
}

// Next is the job whose notification is to be sent now; false where none waits or all
// places are taken.
func (t *Tracker) Next() (job int, ok bool) {
	if t.nWaiting == 0 || t.limit > 0 && t.nRunning+t.nHot+t.nCold >= t.limit {
		return 0, false
	}
	for !t.jobs[t.waiting[0]].waits {
		t.waiting = t.waiting[1:]
	}
	return t.waiting[0], true
}

// Sent says that the notification of the job that Next has named was sent.
func (t *Tracker) Sent(job int) {
	p := &t.jobs[job]
	t.waiting = t.waiting[1:]
	p.waits = false
	t.nWaiting--
	if !p.hot {
		p.hot = true
		t.nHot++
		t.hot = append(t.hot, job)
	}
}

// Fetched says that the host has fetched the job: it runs.
func (t *Tracker) Fetched(job int) {
	p := &t.jobs[job]
	if p.done {
		return // the proxy does not know it any more
	}
	t.leave(p)
	if !p.running {
		p.running = true
		t.nRunning++
	}
}

// leave takes a job out of all places but running.
func (t *Tracker) leave(p *place) {
	for _, x := range []struct {
		in *bool
		n  *int
	}{{&p.waits, &t.nWaiting}, {&p.hot, &t.nHot}, {&p.cold, &t.nCold}} {
		if *x.in {
			*x.in = false
			*x.n--
		}
	}
}

// Done says that the last report of a job has come.
func (t *Tracker) Done(job int) {
	p := &t.jobs[job]
	t.leave(p)
	if p.running {
		p.running = false
		t.nRunning--
	}
	p.done = true
}

// Tick is that of the proxy's clock. It returns the jobs that are given up: they are to be
// added again after the resend interval.
func (t *Tracker) Tick() (given []int) {
	for _, job := range t.cold {
		if p := &t.jobs[job]; p.cold {
			p.cold = false
			t.nCold--
			given = append(given, job)
		}
	}
	t.cold = t.cold[:0]
	for _, job := range t.hot {
		if p := &t.jobs[job]; p.hot {
			p.hot = false
			t.nHot--
			if !p.cold {
				p.cold = true
				t.nCold++
				t.cold = append(t.cold, job)
			}
		}
	}
	t.hot = t.hot[:0]
	return given
}

// Ticks says whether the proxy's clock runs: it stands still where a tick would change
// nothing.
func (t *Tracker) Ticks() bool {
	_, ok := t.Next()
	return ok || t.nHot > 0 || t.nCold > 0
}

// UnderWay is how many jobs take a place.
func (t *Tracker) UnderWay() int { return t.nRunning + t.nHot + t.nCold }
