// Package load runs cluster loads: it reads a load, plans it for the cluster, creates its objects,
// resumes it after a crash, and undoes it. kubectl fettle load uses it.
package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"fettle.dev/fettle/kube/cluster"
	"fettle.dev/fettle/kube/load/plan"
	loadrun "fettle.dev/fettle/kube/load/run"
)

// Refused is the error of a request that failed a check, before any change.
type Refused struct {
	Err  error
	Hint string
}

func (r *Refused) Error() string { return r.Err.Error() }
func (r *Refused) Unwrap() error { return r.Err }

func refuse(hint, format string, args ...any) error {
	return &Refused{fmt.Errorf(format, args...), hint}
}

// Cluster is a cluster for loads, and the local store of its runs.
type Cluster struct {
	Server *cluster.Server
	Store  loadrun.Store
	// Now returns the time for names of runs; nil means the clock.
	Now func() time.Time
}

// Options override the load's own options; zero values keep them.
type Options struct {
	InFlight int
	Rate     float64
	// Visit reports whether the run is a phase of an experiment.
	Visit bool
	// On receives each answer; it may be nil.
	On func(loadrun.Answer)
	// NoBrake lets a run continue even if it overloads the cluster. QuotaBytes is etcd's quota; 0
	// means unknown, below 0 means no quota. The brake keeps a part of the quota free.
	NoBrake    bool
	QuotaBytes int64
	// Etcd are the members whose metrics the brake watches; nil means all reachable members that
	// run as pods.
	Etcd []*loadrun.Member
	// Begun receives the run's ID, its plan and its previous state, before anything is created.
	Begun func(id string, p *plan.Plan, before *loadrun.State)
	// Pod receives a pod's first scheduled and first ready event, OnAct each completed action.
	Pod   func(loadrun.Seen)
	OnAct func(loadrun.Acted)
}

// Result is the result of a run.
type Result struct {
	*loadrun.DriveOutcome
	// Servers are the API server's metrics of the run; nil if unreadable.
	Servers *loadrun.Servers
	// Blind describes the data that could not be observed, with the reason, or is "".
	Blind string
}

// Plan compiles a load for a run with the cluster's kinds.
func (c *Cluster) Plan(ctx context.Context, l *plan.Load, run string) (*plan.Plan, plan.Kinds, error) {
	versions, err := plan.Versions(ctx, l)
	if err != nil {
		return nil, nil, err
	}
	kinds, err := loadrun.Kinds(ctx, c.Server, versions)
	if err != nil {
		return nil, nil, err
	}
	p, err := plan.Compile(ctx, l, run, kinds)
	return p, kinds, err
}

// ErrNothing means that a load has no objects.
var ErrNothing = errors.New("the load creates nothing: all counts are 0")

// Run creates the objects of a load. If an error occurs after objects may have been created, it
// still returns the result; before that, id is "".
func (c *Cluster) Run(ctx context.Context, l *plan.Load, o Options) (id string, out *Result, err error) {
	now := time.Now
	if c.Now != nil {
		now = c.Now
	}
	name := loadrun.NewID(now())
	p, kinds, err := c.Plan(ctx, l, name)
	if err != nil {
		return "", nil, err
	}
	switch {
	case p.Len() > 0:
	case slices.ContainsFunc(l.Stages, func(s plan.Stage) bool { return len(s.Actions) > 0 }):
		return "", nil, refuse("add a create job for them to the same file", "the load creates no objects, and its patch, delete and read jobs apply only to its own objects; nothing done")
	default:
		return "", nil, ErrNothing
	}
	if len(p.Missing) > 0 {
		return "", nil, refuse("see kubectl fettle load plan for the needs of the load", "the cluster has no %s; nothing created", Lacks(p.Missing))
	}
	cluster, err := c.Server.Cluster(ctx)
	if err != nil {
		return "", nil, fmt.Errorf("cannot identify the cluster by namespace kube-system: %w", err)
	}
	if err := c.preflight(ctx, p, cluster); err != nil {
		return "", nil, err
	}
	r := &loadrun.StoredRun{ID: name, Load: l, Kinds: kinds, InFlight: o.InFlight, Rate: o.Rate, Visit: o.Visit}
	j, err := c.Store.Create(r, loadrun.Header{Run: name, Began: now().UTC(), Server: c.Server.Base(), Cluster: cluster, File: l.File, Objects: p.Len(), Plan: p.Sum()})
	if err != nil {
		return "", nil, err
	}
	out, err = c.drive(ctx, r, p, j, &loadrun.State{Objects: make([]loadrun.Object, p.Len())}, o)
	return name, out, errors.Join(err, j.Close())
}

// Resume continues a run and creates the missing objects.
func (c *Cluster) Resume(ctx context.Context, id string, o Options) (*Result, error) {
	r, p, j, state, err := c.open(ctx, id)
	if err != nil {
		return nil, err
	}
	if state.Phase == loadrun.Undoing || state.Phase == loadrun.Undone {
		return nil, errors.Join(refuse("start a new run of the load file", "run %s has been undone, or its undo has started", id), j.Close())
	}
	o.InFlight, o.Rate = cmp.Or(o.InFlight, r.InFlight), cmp.Or(o.Rate, r.Rate)
	out, err := c.drive(ctx, r, p, j, state, o)
	return out, errors.Join(err, j.Close())
}

// open opens a run, and returns an error if it belongs to another cluster.
func (c *Cluster) open(ctx context.Context, id string) (*loadrun.StoredRun, *plan.Plan, *loadrun.Journal, *loadrun.State, error) {
	r, j, state, err := c.Store.Open(id)
	var damaged *loadrun.JournalDamaged
	if errors.As(err, &damaged) {
		err = c.unread(ctx, r, damaged)
	}
	if err != nil {
		return nil, nil, nil, nil, err
	}
	fail := func(err error) (*loadrun.StoredRun, *plan.Plan, *loadrun.Journal, *loadrun.State, error) {
		return nil, nil, nil, nil, errors.Join(err, j.Close())
	}
	cluster, err := c.Server.Cluster(ctx)
	if err != nil {
		return fail(err)
	}
	if cluster != state.Header.Cluster {
		return fail(refuse("select that cluster with --kubeconfig or --context", "run %s was made on another cluster (%s), not on %s", id, state.Header.Server, c.Server.Base()))
	}
	p, err := plan.Compile(ctx, r.Load, id, r.Kinds)
	if err != nil {
		return fail(err)
	}
	if p.Len() != state.Header.Objects || p.Sum() != state.Header.Plan {
		return fail(c.Unloaded(ctx, id, unplanned(state.Header)))
	}
	return r, p, j, state, nil
}

func (c *Cluster) drive(ctx context.Context, r *loadrun.StoredRun, p *plan.Plan, j *loadrun.Journal, state *loadrun.State, o Options) (*Result, error) {
	if o.Begun != nil {
		o.Begun(r.ID, p, state)
	}
	follower, end, err := c.follow(ctx, p, o)
	if err != nil {
		return &Result{DriveOutcome: &loadrun.DriveOutcome{}}, err
	}
	defer end()
	d := &loadrun.Run{
		Plan: p, Server: c.Server, Journal: j, State: state, Follower: follower,
		DriveOptions: loadrun.DriveOptions{InFlight: o.InFlight, Rate: o.Rate, On: o.On, OnAct: o.OnAct},
	}
	d.InFlight, d.Rate = cmp.Or(d.InFlight, r.Load.InFlight), cmp.Or(d.Rate, r.Load.Rate)
	var before *loadrun.Sample
	blind := errors.New("not recorded with --for-prove")
	if !r.Visit {
		before, blind = loadrun.Scrape(ctx, c.Server)
	}
	brake := &loadrun.Brake{Server: c.Server, QuotaBytes: o.QuotaBytes, Members: o.Etcd}
	watching, stop := context.WithCancel(ctx)
	var watch sync.WaitGroup
	if !o.NoBrake {
		if len(o.Etcd) == 0 {
			brake.Members = loadrun.Members(ctx, c.Server)
		}
		d.Pause = brake.Check
		d.Throttle = func() { brake.Throttled.Add(1) }
		d.On = func(a loadrun.Answer) {
			brake.Answered.Add(1)
			if o.On != nil {
				o.On(a)
			}
		}
		watch.Go(func() { brake.Watch(watching, before) })
	}
	out, err := d.Do(ctx)
	if err == nil && controllers(p) {
		err = follower.CatchUp(ctx)
	}
	stop()
	watch.Wait()
	x := &Result{DriveOutcome: out, Blind: brake.Blind()}
	if blind == nil && ctx.Err() == nil {
		var after *loadrun.Sample
		if after, blind = loadrun.Scrape(ctx, c.Server); blind == nil {
			x.Servers = loadrun.Compare(before, after)
			x.Servers.Members = brake.Etcd()
		}
	}
	if blind != nil && x.Blind == "" {
		x.Blind = "the API server's metrics: " + blind.Error()
	}
	return x, err
}

// controllers reports whether a plan has objects for which controllers create pods.
func controllers(p *plan.Plan) bool {
	return slices.ContainsFunc(p.Kinds, func(k plan.Kind) bool { return k.Kind != "Pod" && loadrun.Takes(k.Kind) })
}

// follow starts watching the plan's objects that take time to become ready.
func (c *Cluster) follow(ctx context.Context, p *plan.Plan, o Options) (*loadrun.Follower, func(), error) {
	kinds := slices.DeleteFunc(slices.Clone(p.Kinds), func(k plan.Kind) bool { return !loadrun.Takes(k.Kind) })
	pod := plan.Kind{APIVersion: "v1", Kind: "Pod", Resource: "pods", Namespaced: true}
	if len(kinds) > 0 && !slices.Contains(kinds, pod) {
		kinds = append(kinds, pod)
	}
	labels := slices.ContainsFunc(p.Ops, func(op plan.Op) bool { return op.Sync != nil })
	ctx, cancel := context.WithCancel(ctx)
	f := loadrun.New(c.Server, p.Run, loadrun.FollowOptions{Labels: labels, On: o.Pod})
	if err := f.Start(ctx, kinds); err != nil {
		cancel()
		f.Wait()
		return nil, nil, fmt.Errorf("cannot watch the created objects: %w", err)
	}
	return f, func() { cancel(); f.Wait() }, nil
}

// Undo removes the objects of a run. on receives the progress; it may be nil.
func (c *Cluster) Undo(ctx context.Context, id string, on func(done, all int)) (*loadrun.UndoOutcome, error) {
	_, p, j, state, err := c.open(ctx, id)
	if err != nil {
		return nil, err
	}
	if state.Phase == loadrun.Undone {
		return &loadrun.UndoOutcome{}, j.Close()
	}
	var mu sync.Mutex
	u := &loadrun.Undo{Plan: p, Server: c.Server, Journal: j, State: state, On: func(done, all int) {
		if mu.Lock(); on != nil {
			on(done, all)
		}
		mu.Unlock()
	}}
	out, err := u.Do(ctx)
	return out, errors.Join(err, j.Close())
}

// UndoVisits removes the objects and records of interrupted runs that are phases of an experiment,
// and returns their number.
func (c *Cluster) UndoVisits(ctx context.Context) (int, error) {
	all, err := c.Store.List()
	if err != nil {
		return 0, err
	}
	cluster, err := c.Server.Cluster(ctx)
	if err != nil {
		return 0, err
	}
	n := 0
	for _, k := range all {
		if k.Err != nil || k.State.Header.Cluster != cluster {
			continue
		}
		if r, err := c.Store.Load(k.ID); err != nil || !r.Visit {
			continue
		}
		if _, err := c.Undo(ctx, k.ID, nil); err != nil {
			return n, fmt.Errorf("cannot undo the interrupted run %s: %w", k.ID, err)
		}
		if err := c.Store.Remove(k.ID); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}
