// The dispatcher decides when a job's notification is sent and resent. It follows Foreman's
// smart proxy in pull-mqtt mode (smart_proxy_remote_execution_ssh,
// lib/smart_proxy_remote_execution_ssh/mqtt/dispatcher.rb at 4dd2773). It sends nothing and
// reads no clock.
//
// A job is hot once its notification was sent. The next tick of the proxy's clock (every TTL)
// makes it cold, and the tick after that gives it up. After the resend interval it is sent
// again. So a host has one to two TTL to fetch the job. Hot, cold and running jobs count against
// the rate limit. A fetched job is running until its last report, regardless of the time.

package mqtt

import (
	"fmt"
	"strings"
	"time"
)

// Settings are the settings of the proxy.
type Settings struct {
	TTL    time.Duration // mqtt_ttl
	Resend time.Duration // mqtt_resend_interval
	// Limit is the maximum number of jobs in progress (mqtt_rate_limit); 0 means unlimited.
	Limit int
}

// Defaults are the smart proxy's default settings.
var Defaults = Settings{TTL: 5 * time.Second, Resend: 15 * time.Minute}

func (s Settings) String() string {
	limit := "none"
	if s.Limit > 0 {
		limit = fmt.Sprint(s.Limit)
	}
	return fmt.Sprintf("ttl=%s,resend=%s,limit=%s", short(s.TTL), short(s.Resend), limit)
}

// short formats a time without zero units: 15m instead of 15m0s.
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

// place is the state of a job. A job can be running and waiting at the same time.
type place struct{ waits, hot, cold, running, done bool }

// tracker holds the states of the jobs of a round. Jobs are numbered from 0.
type tracker struct {
	limit   int
	jobs    []place
	waiting []int // may contain jobs that no longer wait
	hot     []int // oldest first; may contain jobs that are no longer hot
	cold    []int

	nWaiting, nHot, nCold, nRunning int
}

// newTracker returns a tracker for a number of jobs. None of them is queued yet.
func newTracker(jobs, limit int) *tracker { return &tracker{limit: limit, jobs: make([]place, jobs)} }

// Add queues a job for sending, for the first time or again. It ignores finished jobs. Running
// jobs are queued, because the proxy resends their notification.
func (t *tracker) Add(job int) {
	p := &t.jobs[job]
	if p.done || p.waits {
		return
	}
	p.waits = true
	t.nWaiting++
	t.waiting = append(t.waiting, job)
}

// Next returns the job to notify now. ok is false if no job waits or the limit is reached.
func (t *tracker) Next() (job int, ok bool) {
	if t.nWaiting == 0 || t.limit > 0 && t.nRunning+t.nHot+t.nCold >= t.limit {
		return 0, false
	}
	for !t.jobs[t.waiting[0]].waits {
		t.waiting = t.waiting[1:]
	}
	return t.waiting[0], true
}

// Sent records that the notification was sent for the job that Next returned.
func (t *tracker) Sent(job int) {
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

// Fetched records that the host fetched the job. The job is then running.
func (t *tracker) Fetched(job int) {
	p := &t.jobs[job]
	if p.done {
		return // the proxy no longer tracks the job
	}
	t.leave(p)
	if !p.running {
		p.running = true
		t.nRunning++
	}
}

// leave ends all states of a job except running.
func (t *tracker) leave(p *place) {
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

// Done records the last report of a job.
func (t *tracker) Done(job int) {
	p := &t.jobs[job]
	t.leave(p)
	if p.running {
		p.running = false
		t.nRunning--
	}
	p.done = true
}

// Tick advances the proxy's clock. It returns the jobs that are given up; the caller adds them
// again after the resend interval.
func (t *tracker) Tick() (given []int) {
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

// Ticks reports whether the proxy's clock runs. It stops while a tick would change nothing.
func (t *tracker) Ticks() bool {
	_, ok := t.Next()
	return ok || t.nHot > 0 || t.nCold > 0
}

// UnderWay returns the number of jobs that count against the limit.
func (t *tracker) UnderWay() int { return t.nRunning + t.nHot + t.nCold }
