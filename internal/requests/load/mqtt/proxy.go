package mqtt

import (
	"sync"
	"time"
)

// event is an input of the proxy, such as a tick of its clock.
type event struct {
	at   time.Duration
	what what
	job  int
}

type what int

// Kinds of event.
const (
	add     what = iota // a job was created
	again               // a notification is to be resent
	fetched             // a host fetched its job
	done                // the last report of a job was accepted
	tick
)

// never is later than any other time.
const never = time.Duration(1<<63 - 1)

// proxy simulates the smart proxy's dispatcher. It processes events one at a time in the order
// of their times, and publishes each notification over its own connection. Events that happen
// while it publishes wait.
type proxy struct {
	*round
	tracker *tracker
	next    int     // first job not yet added
	resends []event // pending resends, by time
	tick    time.Duration
	again   []bool         // by job: publishing failed
	leaving sync.WaitGroup // connections being closed
}

// run runs until all jobs are settled, or nothing has happened for plan.Wait.
func (p *proxy) run() {
	for p.working.Err() == nil {
		e, now, over := p.first(), p.now(), p.over()
		switch {
		case now >= over:
			return
		case e.at > now:
			p.sleep(min(e.at, over))
			continue
		}
		p.take(e)
		p.handle(e)
	}
}

// over returns the time at which the round ends if no further event happens.
func (p *proxy) over() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.settled == len(p.jobs) && len(p.mail) == 0 {
		return 0
	}
	last := p.jobs[len(p.jobs)-1].due
	return max(last, p.news) + p.plan.Wait
}

// first returns the earliest pending event. It may be in the future.
func (p *proxy) first() event {
	e := event{at: p.tick, what: tick}
	if p.next < len(p.jobs) && p.jobs[p.next].due <= e.at {
		e = event{at: p.jobs[p.next].due, what: add, job: p.next}
	}
	if len(p.resends) > 0 && p.resends[0].at < e.at {
		e = p.resends[0]
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.mail) > 0 && p.mail[0].at <= e.at {
		e = p.mail[0]
	}
	return e
}

// take removes an event from its queue.
func (p *proxy) take(e event) {
	switch e.what {
	case add:
		p.next++
	case again:
		p.resends = p.resends[1:]
	case fetched, done:
		p.mu.Lock()
		p.mail = p.mail[1:]
		p.mu.Unlock()
	}
}

// sleep waits until a time or until mail arrives. Mail cannot end the last part of the wait,
// which is exact to the microsecond.
func (p *proxy) sleep(until time.Duration) {
	const near = 2 * time.Millisecond
	left := until - p.now()
	if left <= near {
		p.alarm.Until(p.begin.Add(until))
		return
	}
	timer := time.NewTimer(left - near)
	defer timer.Stop()
	select {
	case <-p.working.Done():
	case <-p.wake:
	case <-timer.C:
	}
}

// handle updates the proxy's state by an event.
func (p *proxy) handle(e event) {
	if p.tick == never {
		p.tick = p.now() + p.settings.TTL
	}
	switch e.what {
	case add, again:
		p.tracker.Add(e.job)
	case fetched:
		p.tracker.Fetched(e.job)
	case done:
		p.tracker.Done(e.job)
	case tick:
		p.tick = e.at + p.settings.TTL
		for _, job := range p.tracker.Tick() {
			p.resends = append(p.resends, event{at: p.now() + p.settings.Resend, what: again, job: job})
		}
	}
	if e.what != fetched && !p.send(e.at) {
		return // the clock keeps running; the next event triggers another attempt
	}
	if !p.tracker.Ticks() {
		p.tick = never
	}
}

// send publishes as many notifications as the limit permits. at is the time from which they
// were due. It returns false if publishing failed.
func (p *proxy) send(at time.Duration) bool {
	for p.working.Err() == nil {
		job, ok := p.tracker.Next()
		if !ok {
			break
		}
		if !p.publish(job, at) {
			return false
		}
		p.tracker.Sent(job)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mostUnderWay = max(p.mostUnderWay, p.tracker.UnderWay())
	return true
}

// publish sends the notification of a job.
func (p *proxy) publish(number int, at time.Duration) bool {
	p.mu.Lock()
	j := &p.jobs[number]
	if !p.again[number] { // else it continues the same attempt
		j.intended = append(j.intended, at)
	}
	attempt := len(j.intended)
	p.mu.Unlock()
	base := ""
	if p.plan.Pull != nil {
		base = p.plan.Pull.Base.URL.String()
	}
	until := p.until()
	s, err := Open(p.proxy, p.proxyID(), keepAlive, until)
	if err == nil {
		now := p.now()
		err = s.Publish(until, jobTopic(p.hosts[number].name), p.id.notify(number, attempt, base, p.begin.Add(now)))
		p.leaving.Go(func() { s.Leave(p.begin.Add(p.now())) })
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.again[number] = err != nil
	if err != nil {
		if p.working.Err() == nil {
			p.notPublished.add(KindOf(err), err)
		}
		return false
	}
	p.published++
	if attempt > 1 {
		p.sentAgain++
	}
	return true
}
