package mqtt

import (
	"context"
	"sync"
	"time"

	"fettle.dev/fettle/internal/requests/load/engine"
	internaltext "fettle.dev/fettle/internal/text"
)

// round is the state of one round: one job for each host, with given settings of the proxy.
type round struct {
	*Prepared
	id       numbering
	settings Settings
	began    time.Duration

	mu   sync.Mutex
	jobs []job
	mail []event // events the proxy has not read yet
	// news is the time of the latest event.
	news time.Duration
	counts
	// notPublished, notFetched and notReported count failures by kind.
	notPublished, notFetched, notReported failures
	fetches, reports                      *engine.Distribution
	// workers are the hosts working on a job. They stop when working ends.
	workers sync.WaitGroup
	working context.Context
	end     context.CancelFunc

	wake chan struct{} // signals new mail
}

// counts holds numbers of jobs and messages.
type counts struct {
	heardOf, fetched, finished, settled int
	published, sentAgain, reported      int // messages
	mostUnderWay                        int
}

// job is the job of the host with the same number.
type job struct {
	due       time.Duration
	connected bool // its host was connected when the round began
	// intended holds the due time of each notification of the job.
	intended []time.Duration
	// heard is the time from when the first received notification was due until it arrived.
	// fetched is the time from when the job was due until the host had it. -1 means never.
	heard, fetched time.Duration
	heardAt        time.Duration
	// over reports whether the job's end was reported, finished whether the proxy accepted it.
	over, finished bool
	starts, lost   int // starts of the job, and reports not accepted
}

// longest is the upper limit of recorded times.
const longest = 24 * time.Hour

func newRound(ctx context.Context, r *Prepared, id numbering, s Settings) *round {
	o := &round{Prepared: r, id: id, settings: s, began: r.now(), jobs: make([]job, len(r.hosts)), wake: make(chan struct{}, 1),
		notPublished: failures{}, notFetched: failures{}, notReported: failures{}, fetches: engine.NewDistribution(longest), reports: engine.NewDistribution(longest)}
	for i := range o.jobs {
		o.jobs[i] = job{due: o.began + perSecond(i, r.plan.JobRate), connected: r.session(i) != nil, heard: -1, fetched: -1}
	}
	o.news = o.began
	o.working, o.end = context.WithCancel(ctx)
	return o
}

// run runs the round to its end, and waits until all hosts and connections have ended.
func (o *round) run() {
	proxy := &proxy{round: o, tracker: newTracker(len(o.jobs), o.settings.Limit), tick: never, again: make([]bool, len(o.jobs))}
	proxy.run()
	o.mu.Lock() // no host may start work after the end
	o.end()
	o.mu.Unlock()
	o.workers.Wait()
	proxy.leaving.Wait()
}

// postLocked sends an event to the proxy. The caller holds the lock.
func (o *round) postLocked(e event) {
	o.mail = append(o.mail, e)
	o.news = e.at
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// arrived processes a notification that reached its host.
func (o *round) arrived(number, attempt int) {
	at := o.now()
	o.mu.Lock()
	defer o.mu.Unlock()
	if number >= len(o.jobs) || attempt < 1 || attempt > len(o.jobs[number].intended) {
		return
	}
	o.news = at
	j := &o.jobs[number]
	if j.heard < 0 {
		j.heard, j.heardAt = at-j.intended[attempt-1], at
		o.heardOf++
	}
	if o.plan.Pull == nil {
		if !j.finished {
			j.over, j.finished = true, true
			o.finished++
			o.settled++
			o.postLocked(event{at: at, what: done, job: number})
		}
		return
	}
	if o.working.Err() == nil { // else the round is over
		o.workers.Go(func() { o.work(o.working, number, at) })
	}
}

// said formats the progress, and returns how many jobs are settled.
func (o *round) said() (text string, settled int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	text = internaltext.Sprintf("%d of %s are notified", o.heardOf, internaltext.Count(len(o.jobs), "job"))
	if o.plan.Pull != nil {
		text += internaltext.Sprintf(", %d fetched, %d done", o.fetched, o.finished)
	}
	if len(o.plan.Settings) > 1 {
		text = o.settings.String() + ": " + text
	}
	return text, o.settled
}
