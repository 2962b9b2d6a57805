package mqtt

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"fettle.dev/fettle/internal/requests/load/engine"
)

// work fetches a job for its host and posts its reports, like yggdrasil and
// foreman_ygg_worker: over one kept-alive connection, without retries. It uses this run's own
// URL and ignores the URL in the notification.
func (o *round) work(ctx context.Context, number int, at time.Duration) {
	client := &engine.HTTP1Client{Dialer: o.hosts[number].http}
	defer context.AfterFunc(ctx, client.Close)()
	defer client.Close()
	id := o.id.uuid(number, 0)
	answer := client.Exchange(o.request("GET", nil, id), o.until())
	begin := o.now()
	if ctx.Err() != nil || !o.hasFetched(number, at, begin, answer) {
		return
	}
	p := o.plan.Pull
	for n := time.Duration(1); ; n++ {
		due := min(begin+n*p.Every, begin+p.JobTime)
		if engine.Pause(ctx, due-o.now()) != nil {
			return
		}
		end := due == begin+p.JobTime
		answer := client.Exchange(o.request("POST", reportOf(o.begin.Add(o.now()), end), id, "update"), o.until())
		if ctx.Err() != nil {
			return
		}
		o.hasReported(number, due, end, answer)
		if end {
			return
		}
	}
}

// request returns a request for a path below the base URL. Reports are marked idempotent, so
// they are resent if the server closed the idle connection.
func (o *round) request(method string, body []byte, path ...string) *engine.Request {
	r := *o.plan.Pull.Base
	r.URL = r.URL.JoinPath(path...)
	r.Method, r.Body, r.Idempotent = method, body, true
	if body != nil {
		r.Header = append(slices.Clip(r.Header), engine.Field{Name: "Content-Type", Value: "application/json"})
	}
	r.Wire = engine.Wire(&r, false)
	return &r
}

// wrong returns the kind and the error of a failed answer, or "" and nil.
func wrong(a engine.Answer) (kind string, err error) {
	switch {
	case a.Failure != engine.None:
		return string(a.Failure), a.Err
	case a.Status < 200 || a.Status > 299:
		return fmt.Sprintf("status-%d", a.Status), fmt.Errorf("%d %s", a.Status, http.StatusText(a.Status))
	}
	return "", nil
}

// hasFetched records the answer to a job request. It reports whether the host has the job.
func (o *round) hasFetched(number int, at, end time.Duration, a engine.Answer) bool {
	kind, err := wrong(a)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.news = end
	if kind != "" {
		o.notFetched.add(kind, err)
		return false
	}
	o.fetches.Add(end - at)
	j := &o.jobs[number]
	if j.starts++; j.starts == 1 {
		j.fetched = end - j.due
		o.fetched++
	}
	o.postLocked(event{at: end, what: fetched, job: number})
	return true
}

// hasReported records the answer to a report.
func (o *round) hasReported(number int, due time.Duration, end bool, a engine.Answer) {
	kind, err := wrong(a)
	now := o.now()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.news = now
	j := &o.jobs[number]
	if kind != "" {
		o.notReported.add(kind, err)
		j.lost++
	} else {
		o.reports.Add(now - due)
		o.reported++
	}
	if !end || j.finished {
		return
	}
	// The proxy counts a job as running until it receives the final report.
	if !j.over {
		j.over = true
		o.settled++
	}
	if kind == "" {
		j.finished = true
		o.finished++
		o.postLocked(event{at: now, what: done, job: number})
	}
}
