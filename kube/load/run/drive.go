// Package run carries out a cluster load: it makes the objects, follows and measures them,
// observes the control plane, keeps a journal, and takes back what the run made.
package run

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"fettle.dev/fettle/kube/cluster"
	"fettle.dev/fettle/kube/load/plan"
)

// DefaultInFlight is the default of DriveOptions.InFlight.
const DefaultInFlight = 64

// DriveOptions of a run.
type DriveOptions struct {
	// InFlight is how many requests are under way at most.
	InFlight int
	// Rate is how many objects are started in a second at most; 0 for no limit.
	Rate float64
	// Patience is how long an object is tried while the server does not answer, or asks
	// to be left alone; 0 for a minute.
	Patience time.Duration
	// On is called with each answer, Throttle whenever the server asks to be left alone;
	// both from many goroutines.
	On       func(Answer)
	Throttle func()
	// OnAct is called with each action that was done, from many goroutines; it may be nil.
	OnAct func(Acted)
	// Pause, if not nil, is asked before each object; its error ends the run (a brake).
	Pause func() error
}

// Answer is the result of creating one object.
type Answer struct {
	Object int
	// Due is when it was to be asked for, Sent when it was asked for last, End when the
	// answer was there.
	Due, Sent, End time.Time
	Was            Was
	// Asked is the time of the first request for an object that was made though no answer
	// came, so that it is unknown which request made it; zero of others.
	Asked time.Time
	// Found reports whether a process before this one had made it.
	Found bool
}

// Run makes the objects of a plan in their order, as many at a time and as fast as the load
// says, and keeps the journal.
type Run struct {
	Plan    *plan.Plan
	Server  *cluster.Server
	Journal *Journal
	// State is what the journal said when the run began.
	State *State
	// Follower knows how the objects are; it may be nil where nothing is waited for.
	Follower *Follower
	DriveOptions
}

// DriveOutcome is the result of a run.
type DriveOutcome struct {
	Created, Reused, Failed int
	// Adopted are those of Created that were made though no answer came, Found those of them
	// that a process before this one had made, and not noted.
	Adopted, Found int
	// Before are those that were made before this process went on.
	Before int
	// Throttled is how often the server asked to be left alone (429), Retried how often a
	// request was sent again for any reason.
	Throttled, Retried int64
	// Late are objects that were started more than a millisecond after they were due,
	// because all requests that may be under way were.
	Late int64
	// First and Last are when the first and the last object were started.
	First, Last time.Time
	// Started is how many were started in between, both included.
	Started int
	// Widest is how many requests were under way at most.
	Widest int
	// NotReady are objects that were not ready at the end, the first of them with why.
	NotReady int
	Example  string
	// Errors are the reasons why objects could not be made, and actions not done, and how
	// many for each; of more than twenty the rest is under OtherReasons.
	Errors map[string]int
	// Acted are how many actions were done, by what they do (spec.Patch and the like),
	// ActedBefore those of a process before this one. Skipped are those whose object was not
	// there: it could not be made, or was deleted.
	Acted                           map[string]int
	ActFailed, ActedBefore, Skipped int
	// Others name the actions whose labels objects have too that are not of the run; these
	// were left alone.
	Others []string
}

// OtherReasons are those of Outcome.Errors that are not told apart.
const OtherReasons = "others"

// Rate is how many objects a second were started, without those that were there; 0 where it
// cannot be told.
func (o *DriveOutcome) Rate() float64 {
	started := o.Started - o.Found
	if d := o.Last.Sub(o.First).Seconds(); started > 1 && d > 0 {
		return float64(started-1) / d
	}
	return 0
}

// ErrTooMany means that so many objects could not be made that the run was ended.
var ErrTooMany = errors.New("too many objects could not be made")

// running is one call of Do.
type running struct {
	*Run
	out      DriveOutcome
	reserved reserver
	jobs     chan job
	workers  int
	underWay sync.WaitGroup
	mu       sync.Mutex // of out, where workers write to it
	// quit ends with what must not go on: the context, the journal, too many failures.
	quit  context.Context
	end   context.CancelCauseFunc
	total clock
	pace  clock
	fresh bool // something has been made by this process
	// opened are the servers of the synchronisations that come: one of the whole load may
	// be open at the same time as that of some pods.
	opened map[*plan.SyncPoint]*Server
	// looked are the actions that others has checked.
	looked map[*plan.Action]bool

	throttled, retried, late atomic.Int64
}

// job is an object to make, or with act an action to do, by its number.
type job struct {
	number int
	due    time.Time
	act    bool
}

// Do carries the plan out. When ctx ends nothing new is begun, and it returns once the
// answers to what was begun are in the journal. The outcome is there with an error too.
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

// do does one operation.
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
			return nil // what was waited for before
		}
		return x.settle(op)
	case plan.Pause:
		x.pace = clock{}
		if !x.fresh {
			return nil
		}
		return x.sleep(op.Timeout)
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

func (x *running) sleep(d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-x.quit.Done():
		return context.Cause(x.quit)
	}
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
			return fmt.Errorf("%s was deleted by an undo: this run cannot go on", x.Plan.Describe(i))
		}
		unit := x.Plan.Unit(i)
		if err := x.start(job{number: i}, op, op.Each || unit != last); err != nil {
			return err
		}
		last = unit
	}
	return nil
}

// was is what is known of an object.
func (x *running) was(i int) Was {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.State.Objects[i].Was
}

// start gives a job to a worker when it is due. paced reports whether it counts for the pace
// of the operation.
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
		if err := x.sleep(wait); err != nil {
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

// hand gives a job to a worker, a new one if all are busy and more are allowed.
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

// drain waits for the answers to all that was started.
func (x *running) drain() error {
	x.underWay.Wait()
	if x.quit.Err() != nil {
		return context.Cause(x.quit)
	}
	return nil
}
