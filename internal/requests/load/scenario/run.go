package scenario

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"fettle.dev/fettle/internal/requests/load/engine"
)

// run is the state of a run.
type run struct {
	plan  *Plan
	ctx   context.Context
	begin time.Time
	targets
	connections engine.Counts
	tallies     []*tally // of the steps, setup included
	hosts       *tally
	delay       *engine.Distribution // of starts after their intended time
	standIn     atomic.Pointer[string]
	shared      []value // values that setup has taken
	meetings    *meetings
	sleeper     *engine.Sleeper
	// going ends earlier than ctx if the run has failed already and StopWhenFailed is set. Then
	// requests in flight are answered, and no further ones are sent.
	going context.Context

	handshakes chan struct{} // limits the TLS handshakes at a time

	mu      sync.Mutex
	dialers map[*target]*engine.Dialer
	left    []*virtual // hosts that left objects whose state is to be read
	open    map[closer]struct{}
	closing bool

	ended atomic.Int64 // passes
}

// closer is an open connection, which an interruption closes.
type closer interface{ Close() }

// Now is the state of a run in progress.
type Now struct {
	At     time.Duration
	Ended  int64 // passes of hosts
	Passes int64 // in all
	Failed int64
}

// now returns the time since the beginning.
func (r *run) now() time.Duration { return time.Since(r.begin) }

func newRun(ctx context.Context, p *Plan) *run {
	r := &run{plan: p, ctx: ctx, going: ctx, begin: time.Now(), handshakes: make(chan struct{}, maxHandshakes), hosts: newTally(), delay: engine.NewDistribution(longestTime), dialers: map[*target]*engine.Dialer{}, open: map[closer]struct{}{}}
	r.targets = targets{allowed: p.Allowed, resolver: p.Resolver}
	for range len(p.setup) + len(p.steps) {
		r.tallies = append(r.tallies, newTally())
	}
	return r
}

// Run runs the scenario. When ctx ends, it returns the counts so far. It calls tell each second.
func Run(ctx context.Context, p *Plan, tell func(Now)) (*Result, error) {
	part, err := Drive(ctx, p, tell)
	if err != nil {
		return nil, err
	}
	return Judge(p, []*Part{part})
}

// With many hosts, garbage is collected earlier, and no buffers are held while answers are awaited:
// their memory is what limits their number. So do TLS handshakes, each of which needs 20 KiB while
// it lasts.
const (
	manyHosts     = 1000
	gcPercent     = 10
	maxHandshakes = 250
)

// Drive runs the hosts of this process and returns their counts.
func Drive(ctx context.Context, p *Plan, tell func(Now)) (*Part, error) {
	return drive(ctx, p, false, tell)
}

// drive runs the setup, unless another process has run it, and then the hosts of this process.
// With setup it runs the setup only.
func drive(ctx context.Context, p *Plan, setup bool, tell func(Now)) (*Part, error) {
	running, end := context.WithCancel(ctx)
	defer end()
	r := newRun(running, p)
	defer r.settleLeft(ctx)
	var halt context.CancelFunc
	r.going, halt = context.WithCancel(running)
	defer halt()
	use, began := engine.Now(), engine.Now()
	stop := context.AfterFunc(ctx, r.interrupt)
	defer stop()
	var err error
	if r.sleeper, err = engine.NewSleeper(); err != nil {
		return nil, err
	}
	defer r.sleeper.Close()
	if err := r.setUp(); err != nil {
		return nil, err
	}
	if setup {
		part, err := r.part(0, 0, false, busiest{}, 0)
		if err == nil {
			part.Shared = r.taken()
		}
		return part, err
	}
	r.begin = time.Now()
	own := p.own()
	if len(own) >= manyHosts {
		defer debug.SetGCPercent(debug.SetGCPercent(gcPercent))
	}
	passes := int64(len(own) * max(1, p.Options.Load.Repeat))
	r.meetings = newMeetings(p.steps, len(own))
	var busy busiest
	ticking := make(chan struct{})
	go func() {
		defer close(ticking)
		tick(running, func() {
			took, wanted := use.Share()
			busy.add(took, wanted)
			if p.StopWhenFailed && r.lost(p.passes()) {
				halt()
			}
			if tell != nil {
				tell(Now{At: r.now(), Ended: r.ended.Load(), Passes: passes, Failed: r.hosts.copied().Failed})
			}
		})
	}()
	err = r.all(own)
	took := r.now()
	stopped := r.going.Err() != nil && ctx.Err() == nil
	end()
	<-ticking
	if err != nil {
		return nil, err
	}
	part, err := r.part(took, passes, ctx.Err() != nil, busy, engine.Now().CPU()-began.CPU())
	if err == nil {
		part.Stopped = stopped
	}
	return part, err
}

// tick calls each once a second.
func tick(ctx context.Context, each func()) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			each()
		}
	}
}

// busiest adds up the CPU share of this process each second.
type busiest struct{ sum, wanted, n float64 }

func (b *busiest) add(took, wanted float64) {
	b.sum, b.wanted, b.n = b.sum+took, b.wanted+wanted, b.n+1
}

// all runs the hosts to their end.
func (r *run) all(own []int) error {
	var wait sync.WaitGroup
	defer wait.Wait()
	l := r.plan.Options.Load
	if l.Rate == 0 {
		for _, n := range own {
			wait.Go(func() { r.live(n, max(1, l.Repeat), 0) })
		}
		return nil
	}
	schedule, err := engine.NewRate(engine.Stage{From: l.Rate, To: l.Rate, For: l.For})
	if err != nil {
		return err
	}
	alarm, err := engine.NewAlarm()
	if err != nil {
		return err
	}
	defer alarm.Close()
	defer context.AfterFunc(r.ctx, alarm.Close)()
	for i, n := range own {
		at := schedule.At(int64(n - 1))
		if !alarm.Until(r.begin.Add(at)) || r.going.Err() != nil {
			r.meetings.leave(len(own) - i)
			break
		}
		wait.Go(func() { r.live(n, 1, at) })
	}
	return nil
}

// live runs the passes of a host.
func (r *run) live(n, passes int, due time.Duration) {
	h := r.host(n)
	defer r.meetings.leave(1)
	defer h.leaveObjects()
	defer h.close()
	failures := 0
	for pass := range passes {
		if r.going.Err() != nil {
			return
		}
		if pass > 0 {
			due = r.now()
		}
		if h.pass(due) {
			failures = 0
			continue
		}
		failures++
		// Do not flood a server that refuses at once.
		if pass+1 < passes && engine.Pause(r.going, min(time.Second, 5*time.Millisecond<<min(failures, 8))) != nil {
			return
		}
	}
}

// setUp runs the setup steps once, as host 0, or takes the values of another process.
func (r *run) setUp() error {
	switch {
	case len(r.plan.setup) == 0:
		return nil
	case r.plan.shared != nil:
		r.shared = make([]value, len(r.plan.names.slots))
		at := r.plan.takenBySetup()
		if len(at) != len(r.plan.shared) {
			return errors.New("the values of the setup are not those of this scenario")
		}
		for i, v := range r.plan.shared {
			r.shared[at[i]] = value{text: v.Text, list: v.List, isSet: v.Set}
		}
		return nil
	}
	h := r.host(0)
	defer h.leaveObjects()
	defer h.close()
	for _, s := range r.plan.setup {
		if o := h.step(s, r.now()); o.cause != "" {
			if r.ctx.Err() != nil {
				return r.ctx.Err()
			}
			return fmt.Errorf("setup: step %q failed: %w", s.name, o.reason())
		}
	}
	r.shared = h.values
	return nil
}

// sharedValue is a value that a setup has taken, for other processes.
type sharedValue struct {
	Text string   `json:"text,omitempty"`
	List []string `json:"list,omitempty"`
	Set  bool     `json:"set"`
}

// taken returns the values that the setup has taken.
func (r *run) taken() []sharedValue {
	all := []sharedValue{}
	for _, at := range r.plan.takenBySetup() {
		v := r.shared[at]
		all = append(all, sharedValue{v.text, v.list, v.isSet})
	}
	return all
}

// takenBySetup returns the slots that the setup sets, in the order of the file.
func (s *Scenario) takenBySetup() (all []slot) {
	for _, one := range s.setup {
		for i := range one.takes {
			all = append(all, one.takes[i].slot)
		}
	}
	return all
}

// reason returns the error of a failed step.
func (o *outcome) reason() error {
	if o.err != nil {
		return o.err
	}
	return errors.New(o.cause)
}

// interrupt closes all connections.
func (r *run) interrupt() {
	r.mu.Lock()
	r.closing = true
	all := r.open
	r.open = map[closer]struct{}{}
	r.mu.Unlock()
	for c := range all {
		c.Close()
	}
}

// keep registers a connection until drop.
func (r *run) keep(c closer) {
	r.mu.Lock()
	r.open[c] = struct{}{}
	closing := r.closing
	r.mu.Unlock()
	if closing {
		c.Close()
	}
}

func (r *run) drop(c closer) {
	r.mu.Lock()
	delete(r.open, c)
	r.mu.Unlock()
	c.Close()
}

// builtins sets the built-in values of a host.
func (p *Plan) builtins(values []value, n int) {
	set := func(s slot, text string) { values[s] = value{text: text, isSet: true} }
	set(hostSlot, strconv.Itoa(n))
	set(nameSlot, p.hostName(n))
	set(prefixSlot, p.Prefix)
	set(organizationSlot, p.Organization)
	set(runSlot, p.Run)
	set(seedSlot, strconv.FormatUint(p.Seed, 10))
	for _, s := range p.Scenario.Servers {
		set(s.slot, p.serverURL(s))
	}
}
