// Package run carries out a plan on a cluster: it creates the objects, measures them, watches the
// control plane, keeps a journal, and undoes the run. Package load uses it.
package run

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/kube/cluster"
	"fettle.dev/fettle/kube/load/plan"
)

// DefaultInFlight is the default of DriveOptions.InFlight.
const DefaultInFlight = 64

// DriveOptions of a run.
type DriveOptions struct {
	// InFlight is the maximum number of concurrent requests.
	InFlight int
	// Rate is the maximum number of objects started per second; 0 for no limit.
	Rate float64
	// Patience limits the retries for one object while the server does not answer or throttles; 0
	// means one minute.
	Patience time.Duration
	// On is called with each answer, Throttle each time the server throttles; both from many
	// goroutines.
	On       func(Answer)
	Throttle func()
	// OnAct is called with each completed action, from many goroutines; it may be nil.
	OnAct func(Acted)
	// Pause is called before each object; its error ends the run (the brake). It may be nil.
	Pause func() error
}

// Answer is the result of creating one object.
type Answer struct {
	Object int
	// Due is when the request was due, Sent when it was last sent, End when the answer arrived.
	Due, Sent, End time.Time
	Was            Was
	// Asked is when the first request was sent, for an object whose creating request is unknown
	// because an answer was lost; zero for others.
	Asked time.Time
	// Found reports whether an earlier process created the object.
	Found bool
}

// Run creates the objects of a plan in order, with the load's concurrency and rate, and keeps
// the journal.
type Run struct {
	Plan    *plan.Plan
	Server  *cluster.Server
	Journal *Journal
	// State is the journal's state when the run began.
	State *State
	// Follower watches the objects; it may be nil if the plan does not wait for any.
	Follower *Follower
	DriveOptions
}

// DriveOutcome is the result of a run.
type DriveOutcome struct {
	Created, Reused, Failed int
	// Adopted counts the objects in Created whose creation the server did not confirm. Found counts
	// the objects in Adopted that an earlier process created without a journal line.
	Adopted, Found int
	// Before counts the objects that earlier processes created.
	Before int
	// Throttled is how often the server throttled a request (429), Retried how often a request was
	// sent again for any reason.
	Throttled, Retried int64
	// Late counts objects that started more than 1 ms late because the maximum number of requests
	// was running.
	Late int64
	// First and Last are when the first and the last object were started.
	First, Last time.Time
	// Started counts the objects started from First to Last.
	Started int
	// Widest is the maximum number of concurrent requests reached.
	Widest int
	// NotReady counts objects that were not ready in time. Example is the first of them, with the
	// reason.
	NotReady int
	Example  string
	// Errors counts failed creations and actions by reason. After twenty reasons, further ones
	// count as OtherReasons.
	Errors map[string]int
	// Acted counts completed actions by operation (plan.Patch etc.), ActedBefore those of earlier
	// processes. Skipped counts actions whose object does not exist, because its creation failed or
	// it was deleted.
	Acted                           map[string]int
	ActFailed, ActedBefore, Skipped int
	// Others names actions whose labels also match other clients' objects. These objects stay
	// untouched.
	Others []string
}

// OtherReasons is the key in DriveOutcome.Errors for further reasons.
const OtherReasons = "others"

// Rate returns the started objects per second, without existing ones; 0 if unknown.
func (o *DriveOutcome) Rate() float64 {
	started := o.Started - o.Found
	if d := o.Last.Sub(o.First).Seconds(); started > 1 && d > 0 {
		return float64(started-1) / d
	}
	return 0
}

// ErrTooMany means that the run ended because too many objects could not be created.
var ErrTooMany = errors.New("too many objects could not be created")

// running is the state of one call of Do.
type running struct {
	*Run
	out      DriveOutcome
	reserved reserver
	jobs     chan job
	workers  int
	underWay sync.WaitGroup
	mu       sync.Mutex // protects out where workers write to it
	// quit ends with the caller's context, a journal error, or too many failures.
	quit  context.Context
	end   context.CancelCauseFunc
	total clock
	pace  clock
	fresh bool // this process has created something
	// opened are the servers for later synchronizations; several may be open at once.
	opened map[*plan.SyncPoint]*Server
	// looked are the actions for which others has run.
	looked map[*plan.Action]bool

	throttled, retried, late atomic.Int64
}

// job is the index of an object to create, or of an action if act is set.
type job struct {
	number int
	due    time.Time
	act    bool
}

// Do carries out the plan and returns the outcome, also with an error. When ctx ends, it starts
// nothing new, and returns once the answers to pending requests are in the journal.
func (r *Run) Do(ctx context.Context) (*DriveOutcome, error) {
	if r.InFlight <= 0 {
		r.InFlight = DefaultInFlight
	}
	if r.Patience <= 0 {
		r.Patience = time.Minute
	}
	x := &running{Run: r, jobs: make(chan job), opened: map[*plan.SyncPoint]*Server{}, looked: map[*plan.Action]bool{}}
	x.out.Errors, x.out.Acted = map[string]int{}, map[string]int{}
	x.reserved = reserver{journal: r.Journal, upTo: r.State.Reserved, most: r.Plan.Len()}
	x.quit, x.end = context.WithCancelCause(ctx)
	defer x.end(nil)
	err := r.Journal.Begin(Running)
	for i := 0; i < len(r.Plan.Ops) && err == nil; i++ {
		err = x.do(i)
	}
	close(x.jobs)
	x.underWay.Wait()
	x.reserved.wait()
	for _, s := range x.opened {
		err = errors.Join(err, s.Close())
	}
	if cause := context.Cause(x.quit); cause != nil && (err == nil || errors.Is(err, context.Canceled)) {
		err = cause
	}
	x.out.Widest = x.workers
	x.out.Throttled, x.out.Retried, x.out.Late = x.throttled.Load(), x.retried.Load(), x.late.Load()
	if err == nil {
		return &x.out, r.Journal.Begin(Ended)
	}
	return &x.out, errors.Join(err, r.Journal.Sync())
}

// do carries out one operation.
func (x *running) do(i int) error {
	op := &x.Plan.Ops[i]
	switch op.Do {
	case plan.Create:
		return x.create(op)
	case plan.Drain:
		return x.drain()
	case plan.Settle:
		if err := x.drain(); err != nil {
			return err
		}
		if op.Must && !x.fresh {
			return nil // the error of an earlier wait
		}
		return x.settle(op)
	case plan.Pause:
		x.pace = clock{}
		if !x.fresh {
			return nil
		}
		return host.Sleep(x.quit, op.Timeout)
	case plan.Listen:
		s, err := Listen(op.Sync.Address, op.Sync.Port)
		if err != nil {
			return fmt.Errorf("%s: %w", op.At, err)
		}
		x.opened[op.Sync] = s
		return nil
	case plan.Sync:
		return x.sync(op)
	case plan.Act:
		return x.act(op)
	case plan.Gone:
		return x.gone(op)
	}
	return fmt.Errorf("unknown operation %d", op.Do)
}

// create starts the objects of an operation.
func (x *running) create(op *plan.Op) error {
	last := -1
	for i := op.From; i < op.To; i++ {
		switch was := x.was(i); {
		case was == Created, was == Reused, was == Gone && x.Plan.Removes(i):
			x.out.Before++
			continue
		case was == Gone:
			return fmt.Errorf("undo has deleted %s; this run cannot continue", x.Plan.Describe(i))
		}
		unit := x.Plan.Unit(i)
		if err := x.start(job{number: i}, op, op.Each || unit != last); err != nil {
			return err
		}
		last = unit
	}
	return nil
}

// was returns the state of an object.
func (x *running) was(i int) Was {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.State.Objects[i].Was
}

// start gives a job to a worker when it is due. paced is true if the operation's pace applies.
func (x *running) start(j job, op *plan.Op, paced bool) error {
	if x.Pause != nil {
		if err := x.Pause(); err != nil {
			return err
		}
	}
	j.due = time.Now()
	if op.Every > 0 && paced {
		j.due = x.pace.due(op.Every)
	}
	if x.Rate > 0 {
		if d := x.total.due(time.Duration(float64(time.Second) / x.Rate)); d.After(j.due) {
			j.due = d
		}
	}
	if wait := time.Until(j.due); wait > 0 {
		if err := host.Sleep(x.quit, wait); err != nil {
			return err
		}
	}
	if !j.act {
		if err := x.reserved.cover(j.number); err != nil {
			return err
		}
	}
	if err := x.hand(j); err != nil {
		return err
	}
	x.fresh = true
	if j.act {
		return nil
	}
	now := time.Now()
	if now.Sub(j.due) > time.Millisecond {
		x.late.Add(1)
	}
	if x.out.Started == 0 {
		x.out.First = now
	}
	x.out.Last = now
	x.out.Started++
	return nil
}

// hand gives a job to a free worker. If all are busy it starts another one, or waits if the limit
// is reached.
func (x *running) hand(j job) error {
	if err := x.quit.Err(); err != nil {
		return context.Cause(x.quit)
	}
	x.underWay.Add(1)
	select {
	case x.jobs <- j:
		return nil
	default:
	}
	if x.workers < x.InFlight {
		w := &worker{running: x, lane: x.workers}
		x.workers++
		go w.work(j)
		return nil
	}
	select {
	case x.jobs <- j:
		return nil
	case <-x.quit.Done():
		x.underWay.Done()
		return context.Cause(x.quit)
	}
}

// drain waits for the answers to all started requests.
func (x *running) drain() error {
	x.underWay.Wait()
	if x.quit.Err() != nil {
		return context.Cause(x.quit)
	}
	return nil
}
