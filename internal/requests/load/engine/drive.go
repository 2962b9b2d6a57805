// The engine starts each request when it is due, over its own connection. It records when the
// request was due, sent and answered.
//
// Open model: starts follow a schedule, independent of answers. One connection at a time
// leads: it sleeps until the next start, passes the lead to a free or new connection, and
// sends. If all connections up to the limit are busy, there is no leader. A start is then sent
// as soon as a connection is free, and its latency counts from when it was due. So latencies
// include the delay by a stall, and no queue grows.
//
// Closed model: each connection sends its next request after the answer to the previous one. A
// stall shows only in the requests in flight.

package engine

import (
	"context"
	"sync"
	"time"
)

// Plan is a load to generate.
type Plan struct {
	// Schedule holds the starts of the open model. nil selects the closed model, which runs
	// for the duration For.
	Schedule DriveSchedule
	For      time.Duration
	// Connections is the number of connections; in the open model it is the maximum.
	Connections int
	// Each is the number of requests per connection in the closed model, limited by For; 0
	// means no limit.
	Each int64
	// Timeout limits the time from sending a request to the end of its answer.
	Timeout time.Duration
	// Pick returns the index of request n.
	Pick func(n uint64) int
	// Client returns the client of a connection.
	Client func(connection int) Driver
	Meter  *Meter
	// Tick is called each second, if not nil.
	Tick func(at time.Duration)
}

// DriveSchedule holds the times at which requests are due.
type DriveSchedule interface {
	Count() int64
	// At returns when start i, counted from 0, is due, relative to the beginning. Times do not
	// decrease and are below Length.
	At(i int64) time.Duration
	Length() time.Duration
}

// Driver sends requests by index.
type Driver interface {
	Exchange(request int, until time.Time) Answer
	Close()
}

// Outcome describes the end of a run.
type Outcome struct {
	// Until is the end of the period with starts: the length of the plan, or less after an
	// interruption.
	Until time.Duration
	// Ended is the time at which the last answer arrived or was given up.
	Ended time.Duration
	// Connections is the number of clients created.
	Connections int
}

// engine is the state of a run.
type engine struct {
	Plan
	ctx   context.Context // no requests start after its end
	begin time.Time
	alarm *Alarm

	mu       sync.Mutex
	workers  []*worker
	free     []*worker // waiting to lead; the most recently used is last
	leadless bool      // no worker leads: all are sending
	closing  bool      // requests in flight are being cut off
	finished bool      // no start is left
	wait     sync.WaitGroup

	// next and behind belong to the leader. behind is set if starts are late because no connection
	// was free; it stays set until a start is on time.
	next   int64
	behind bool
}

// worker is a connection and its goroutine.
type worker struct {
	*engine
	number int
	client Driver
	lead   chan bool
	batch  []Sample
	since  time.Duration // time of the first sample in the batch
}

func (e *engine) now() time.Duration { return time.Since(e.begin) }

// Run generates the load and waits for the last answers; when ctx ends, it stops at once.
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

// watch calls Tick. It cuts off requests when ctx ends, or a timeout after the plan's end.
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

// close cuts off requests in flight.
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

// worker adds a worker; the caller must not hold the lock.
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

// ended reports whether no further request may start.
func (e *engine) ended() bool { return e.ctx.Err() != nil }

// open is the loop of a worker in the open model.
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

// handOver passes the lead to a free worker, or to a new one if the limit permits.
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
		e.leadless = true
	}
}

// offer makes the worker the leader if none exists; otherwise it queues the worker.
func (w *worker) offer() {
	e := w.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.finished:
		close(w.lead)
	case e.leadless:
		e.leadless, e.behind = false, true
		w.lead <- true
	default:
		e.free = append(e.free, w)
	}
}

// finish releases the waiting workers when no starts remain.
func (e *engine) finish() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.finished = true
	for _, w := range e.free {
		close(w.lead)
	}
	e.free = nil
}

// unsent counts the starts that were due but got no connection, with the time until the end as
// their minimum latency.
func (e *engine) unsent(until time.Duration) {
	// If a leader was on time until the interruption, no start was waiting.
	if e.Schedule == nil || e.ended() && !e.leadless && !e.behind {
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

// closed is the loop of a worker in the closed model.
func (w *worker) closed() {
	defer w.flush()
	// Each connection has its own range of request numbers.
	n, failures := uint64(w.number)<<40, 0
	for made := int64(0); !w.ended() && (w.Each == 0 || made < w.Each); made++ {
		at := w.now()
		if at >= w.For {
			return
		}
		if w.exchange(n, at, false) {
			failures = 0
		} else {
			// Do not flood a server that refuses at once.
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

// exchange sends a request and counts the result.
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
		case w.ended(): // ctx was canceled, which cuts off requests in flight
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

// batchSize is the number of samples counted at once: counting takes a lock.
const batchSize = 64

func (w *worker) flush() {
	w.Meter.Add(w.batch)
	w.batch = w.batch[:0]
}
