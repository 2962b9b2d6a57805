// drive is the engine: it starts requests when they are meant to start, each over
// a connection of its own, and says when each was meant to start, was sent and was
// answered.
//
// In the open model starts come from a schedule and wait for nobody. One connection at a
// time leads: it sleeps until the next start, hands the lead to another that is free (or
// to a new one, up to the limit) and sends. Where none is free nobody leads; the starts
// that are due meanwhile are kept by the schedule itself, as a number, and each is sent as
// soon as a connection is free, with its latency counted from when it was meant to start.
// So a stall is seen by every request that it delayed, and no queue grows.
//
// In the closed model each connection sends the next request when it has the answer to
// the one before: a stall is seen only by those that were under way.

package engine

import (
	"context"
	"sync"
	"time"
)

// Plan is what is to be driven.
type Plan struct {
	// Schedule has the starts of the open model; nil for the closed one, which goes on
	// for For.
	Schedule DriveSchedule
	For      time.Duration
	// Connections are how many there are in the closed model, and the most in the open one.
	Connections int
	// Each is how many requests each connection of the closed model makes, within For; 0
	// for as many as it can.
	Each int64
	// Timeout is how long an answer may take from when its request is sent.
	Timeout time.Duration
	// Pick gives the request of a number; Send sends one over a connection.
	Pick func(n uint64) int
	// Client makes the client of a connection.
	Client func(connection int) Driver
	Meter  *Meter
	// Tick is called about each second, if not nil.
	Tick func(at time.Duration)
}

// DriveSchedule says when requests are meant to start.
type DriveSchedule interface {
	Count() int64
	// At is when the i-th start is, from 0, since the beginning; never before the one
	// before it, and before Length.
	At(i int64) time.Duration
	Length() time.Duration
}

// Driver sends the request of a number.
type Driver interface {
	Exchange(request int, until time.Time) Answer
	Close()
}

// Outcome is how a run has ended.
type Outcome struct {
	// Until is the moment up to which starts were made: the length of the plan, or less
	// where it was cut short.
	Until time.Duration
	// Ended is when the last answer was there, or was given up.
	Ended time.Duration
	// Connections are how many clients were made.
	Connections int
}

// engine is a run.
type engine struct {
	Plan
	ctx   context.Context // ends when no more is to be started
	begin time.Time
	alarm *Alarm

	mu       sync.Mutex
	workers  []*worker
	free     []*worker // that wait to lead, the last used one on top
	nobody   bool      // no worker leads: all are sending
	closing  bool      // what is under way is being ended
	finished bool      // there is no further start
	wait     sync.WaitGroup

	// next and behind are the leader's. behind says that starts are late because no
	// connection was free, until one is in time again.
	next   int64
	behind bool
}

// worker is a connection and who uses it.
type worker struct {
	*engine
	number int
	client Driver
	lead   chan bool
	batch  []Sample
	since  time.Duration // of the first sample in the batch
}

func (e *engine) now() time.Duration { return time.Since(e.begin) }

// Run drives until the plan is done, and then waits for the answers; when ctx ends it ends
// at once.
func Run(ctx context.Context, p Plan) (Outcome, error) {
	if p.Schedule != nil {
		p.For = p.Schedule.Length()
	}
	clock, err := NewAlarm()
	if err != nil {
		return Outcome{}, err
	}
	starts, stop := context.WithCancel(ctx)
	defer stop()
	e := &engine{Plan: p, ctx: starts, begin: time.Now(), alarm: clock}
	interrupted := make(chan time.Duration, 1)
	defer context.AfterFunc(ctx, func() { interrupted <- e.now() })()
	watched := e.watch()
	if p.Schedule == nil {
		for range p.Connections {
			w := e.worker()
			e.wait.Go(w.closed)
		}
	} else {
		w := e.worker()
		w.lead <- true
		e.wait.Go(w.open)
	}
	e.wait.Wait()
	out := Outcome{Until: p.For, Ended: e.now(), Connections: len(e.workers)}
	if p.Schedule == nil && p.Each > 0 {
		out.Until = min(p.For, out.Ended)
	}
	if ctx.Err() != nil {
		out.Until = min(out.Until, <-interrupted)
	}
	e.unsent(out.Until)
	stop()
	<-watched
	e.close()
	return out, nil
}

// watch calls Tick, and ends what is under way once nothing more is to come of it: when
// ctx ends, and a timeout after the end of the plan.
func (e *engine) watch() (done chan struct{}) {
	done = make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		end := time.NewTimer(e.For + e.Timeout)
		defer end.Stop()
		for {
			select {
			case <-e.ctx.Done():
				e.close()
				return
			case <-end.C:
				e.close()
				return
			case <-tick.C:
				if e.Tick != nil {
					e.Tick(e.now())
				}
			}
		}
	}()
	return done
}

// close ends what is under way.
func (e *engine) close() {
	e.mu.Lock()
	e.closing, e.finished = true, true
	workers := e.workers
	free := e.free
	e.free = nil
	e.mu.Unlock()
	e.alarm.Close()
	for _, w := range free {
		close(w.lead)
	}
	for _, w := range workers {
		w.client.Close()
	}
}

// worker makes one more; the caller holds no lock.
func (e *engine) worker() *worker {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.workerLocked()
}

func (e *engine) workerLocked() *worker {
	n := len(e.workers)
	w := &worker{engine: e, number: n, client: e.Client(n), lead: make(chan bool, 1)}
	e.workers = append(e.workers, w)
	return w
}

// ended says that nothing more is to be started.
func (e *engine) ended() bool { return e.ctx.Err() != nil }

// open is the life of a worker in the open model.
func (w *worker) open() {
	defer w.flush()
	for <-w.lead {
		at, waited, more := w.take()
		if !more {
			w.finish()
			return
		}
		n := uint64(w.next - 1)
		w.handOver()
		w.exchange(n, at, waited)
		w.flush()
		w.offer()
	}
}

// take waits for the next start. Only the leader calls it.
func (w *worker) take() (at time.Duration, waited, more bool) {
	e := w.engine
	if e.next == e.Schedule.Count() || e.ended() {
		return 0, false, false
	}
	at = e.Schedule.At(e.next)
	if e.now() <= at {
		e.behind = false
		if !e.alarm.Until(e.begin.Add(at)) {
			return 0, false, false
		}
	}
	if e.ended() || e.now() >= e.For+e.Timeout {
		return 0, false, false
	}
	e.next++
	return at, e.behind, true
}

// handOver gives the lead to a worker that is free, or to a new one, or to nobody.
func (w *worker) handOver() {
	e := w.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	switch n := len(e.free); {
	case n > 0:
		e.free[n-1].lead <- true
		e.free = e.free[:n-1]
	case e.finished:
	case len(e.workers) < e.Connections:
		next := e.workerLocked()
		next.lead <- true
		e.wait.Go(next.open)
	default:
		e.nobody = true
	}
}

// offer takes the lead where nobody has it, and waits for it otherwise.
func (w *worker) offer() {
	e := w.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.finished:
		close(w.lead)
	case e.nobody:
		e.nobody, e.behind = false, true
		w.lead <- true
	default:
		e.free = append(e.free, w)
	}
}

// finish lets the others go: there is nothing more to start.
func (e *engine) finish() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.finished = true
	for _, w := range e.free {
		close(w.lead)
	}
	e.free = nil
}

// unsent counts the starts that were due until a moment and for which no connection
// became free: they have waited until the end at least.
func (e *engine) unsent(until time.Duration) {
	// Where somebody was in time until the run was interrupted nothing was kept waiting.
	if e.Schedule == nil || e.ended() && !e.nobody && !e.behind {
		return
	}
	end, batch := e.now(), make([]Sample, 0, batchSize)
	for ; e.next < e.Schedule.Count(); e.next++ {
		at := e.Schedule.At(e.next)
		if at >= until {
			break
		}
		batch = append(batch, Sample{Begin: at, Sent: end, End: end, Request: e.Pick(uint64(e.next)), Answer: Answer{Failure: Unsent}, Waited: true})
		if len(batch) == batchSize {
			e.Meter.Add(batch)
			batch = batch[:0]
		}
	}
	e.Meter.Add(batch)
}

// closed is the life of a worker in the closed model.
func (w *worker) closed() {
	defer w.flush()
	// Numbers of requests do not meet those of other connections.
	n, failures := uint64(w.number)<<40, 0
	for made := int64(0); !w.ended() && (w.Each == 0 || made < w.Each); made++ {
		at := w.now()
		if at >= w.For {
			return
		}
		if w.exchange(n, at, false) {
			failures = 0
		} else {
			// A server that refuses at once would be asked as fast as this machine can.
			failures++
			w.pause(min(time.Second, 5*time.Millisecond<<min(failures, 8)))
		}
		n++
	}
}

func (w *worker) pause(d time.Duration) {
	select {
	case <-w.ctx.Done():
	case <-time.After(min(d, max(0, w.For-w.now()))):
	}
}

// exchange sends a request, and counts what came of it.
func (w *worker) exchange(n uint64, at time.Duration, waited bool) (answered bool) {
	request := w.Pick(n)
	sent := w.now()
	answer := w.client.Exchange(request, w.begin.Add(sent+w.Timeout))
	if answer.Failure != None {
		w.mu.Lock()
		closing := w.closing
		w.mu.Unlock()
		switch {
		case answer.Failure == Timeout:
		case w.ended(): // nothing else ends that while a request is under way
			answer.Failure, answer.Err = Interrupted, nil
		case closing:
			answer.Failure, answer.Err = Unfinished, nil
		}
	}
	end := w.now()
	if len(w.batch) == 0 {
		w.since = end
	}
	w.batch = append(w.batch, Sample{Begin: at, Sent: sent, End: end, Request: request, Answer: answer, Waited: waited})
	if len(w.batch) == batchSize || end-w.since > 100*time.Millisecond {
		w.flush()
	}
	return answer.Failure == None
}

// batchSize is how many samples are counted at a time: counting takes a lock.
const batchSize = 64

func (w *worker) flush() {
	w.Meter.Add(w.batch)
	w.batch = w.batch[:0]
}
