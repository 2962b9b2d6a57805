package scale

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/kube/cluster"
	"fettle.dev/fettle/kube/machine"
)

// Cluster provides the access to a cluster that scaling needs; Live implements it.
type Cluster interface {
	// Read reads the named sets and the other input of a plan. It reads pods and disruption budgets
	// only if pods is set, because a cluster has many.
	Read(ctx context.Context, pods bool) (*Input, error)
	// Resize sets a set's replicas, if these are unchanged since the set was read.
	Resize(ctx context.Context, s *machine.Set, replicas int) error
	// Annotate sets an annotation of a set, or removes it if value is "".
	Annotate(ctx context.Context, s *machine.Set, name, value string) error
	// Mark marks a machine for removal first when its set shrinks; if goes is false, it removes the
	// mark. Removing the mark of a deleted machine is not an error.
	Mark(ctx context.Context, m *machine.Machine, goes bool) error
	// Cordon makes a node unschedulable; Uncordon reverts that. A missing node is not an error.
	Cordon(ctx context.Context, node, why string) error
	Uncordon(ctx context.Context, node string) error
	// Drain evicts the pods of a node, within a time limit.
	Drain(ctx context.Context, node string, patience time.Duration) error
}

// Mine is the value by which fettle recognizes its own marks on machines.
const Mine = "fettle"

// CordonReason is the beginning of the reason in a node's cordon annotation.
const CordonReason = "kubectl fettle scale"

// Goal is the target of scaling: a number of machines, or new machines.
type Goal struct {
	// Machines is the total number of machines that the sets should have. With Roll, all machines
	// are replaced instead.
	Machines int
	Roll     bool
	// Afresh restarts a rollout that has begun.
	Afresh bool
}

// Options of a scaling operation.
type Options struct {
	Goal
	// Batch, QPS and Burst are the fields of scale.Input.
	Batch, QPS, Burst int
	// Patience is the extra time for a step's drain beyond its minimum, and the time limit for
	// machines to disappear and sets to settle; 0 means DefaultPatience.
	Patience time.Duration
	// Force also evicts pods that no controller would recreate.
	Force bool
	// JoinTimeout limits the wait for a batch's machines to join; 0 means the nodeStartupTimeout of
	// their check, or ten minutes.
	JoinTimeout time.Duration
	// Interval is the time between two reads of the cluster; 0 means DefaultInterval.
	Interval time.Duration
	// Say receives progress messages.
	Say func(format string, args ...any)
}

// DefaultInterval is the default of Options.Interval.
const DefaultInterval = 5 * time.Second

// Done is a completed step and its duration.
type Done struct {
	Sets   []Resize `json:"sets"`
	Remove []string `json:"removed"`
	TookS  float64  `json:"took_s"`
}

// ShutNode is a node that was cordoned for scaling.
type ShutNode struct {
	Name string
	// Goes reports whether the node stays unschedulable because its machine is being deleted or is
	// gone. The next call uncordons other nodes.
	Goes bool
}

// Run executes a plan step by step: it waits for each step, then plans again from the new state.
// All state is in the cluster: replicas, machines, and for a rollout an annotation of the set. The
// same call therefore continues after one that was killed.
type Run struct {
	Cluster
	Options
	// Steps are the completed steps.
	Steps []Done
	// Changed reports whether the run made a lasting change.
	Changed bool
	// Asked are the requested resizes.
	Asked []Resize

	// Shut are the nodes that earlier calls cordoned, as last read.
	Shut []ShutNode

	// falling means that the sets shrink, so joining machines are not awaited.
	falling bool
	// since is when the run first read the sets.
	since time.Time

	now   func() time.Time
	sleep func(context.Context, time.Duration) error
}

// New returns a run that has not started.
func New(c Cluster, o Options) *Run {
	if o.Patience == 0 {
		o.Patience = DefaultPatience
	}
	if o.Interval == 0 {
		o.Interval = DefaultInterval
	}
	if o.Say == nil {
		o.Say = func(string, ...any) {}
	}
	return &Run{Cluster: c, Options: o, Steps: []Done{}, now: time.Now, sleep: host.Sleep}
}

var (
	// ErrBlocked means that the plan is blocked in the present state.
	ErrBlocked = errors.New("the plan cannot be executed now")
	// ErrBegun means that a rollout has started and is incomplete.
	ErrBegun = errors.New("an earlier replacement of machines (--roll) is not finished")
	// ErrLeft means that the run could not revert a temporary change.
	ErrLeft = errors.New("could not be removed")
)

// Plan returns the remaining steps from the present state.
func (r *Run) Plan(ctx context.Context) (*Plan, error) {
	_, p, err := r.plan(ctx)
	return p, err
}

func (r *Run) plan(ctx context.Context) (*Input, *Plan, error) {
	in, err := r.Read(ctx, true)
	if err != nil {
		return nil, nil, err
	}
	r.fill(in)
	if in.Begun, err = r.begun(in); err != nil {
		return nil, nil, err
	}
	var p *Plan
	if r.Roll {
		p, err = Roll(*in)
	} else {
		p, err = To(*in, r.Machines)
	}
	return in, p, err
}

// fill sets the options of the run in an input.
func (r *Run) fill(in *Input) {
	in.Now, in.Batch, in.QPS, in.Burst = r.now(), r.Batch, r.QPS, r.Burst
	in.JoinTimeout, in.Patience = r.JoinTimeout, r.Patience
}

// Go executes the plan. Changes before a failure or the end of ctx stay, except cordons of nodes
// whose machines stay.
func (r *Run) Go(ctx context.Context) error {
	if err := r.Settle(ctx); err != nil {
		return err
	}
	if err := r.tidy(ctx); err != nil {
		return err
	}
	if r.Roll {
		if err := r.begin(ctx); err != nil {
			return err
		}
	}
	for {
		in, p, err := r.open(ctx)
		if err != nil {
			return err
		}
		if len(p.Steps) == 0 {
			return r.finish(ctx, in)
		}
		began := r.now()
		s := p.Steps[0]
		switch err := r.step(ctx, in, &s); {
		case errors.Is(err, errMoved) && !errors.Is(err, ErrLeft):
			if err := r.Settle(ctx); err != nil {
				return err
			}
			continue
		case err != nil:
			return err
		}
		d := Done{Sets: s.Sets, Remove: s.Remove, TookS: r.now().Sub(began).Seconds()}
		r.Steps = append(r.Steps, d)
		r.Say("done after %s: %s", r.now().Sub(began).Round(time.Second), words(&s))
		if err := r.Settle(ctx); err != nil {
			return err
		}
	}
}

// open plans again until nothing blocks the plan: after a step, a disruption budget may allow no
// eviction until pods are ready elsewhere. Before the first step it does not wait.
func (r *Run) open(ctx context.Context) (*Input, *Plan, error) {
	for w := r.waiting(r.Patience); ; {
		in, p, err := r.plan(ctx)
		if err != nil {
			return nil, nil, err
		}
		if len(p.Blocked) == 0 {
			return in, p, nil
		}
		if len(r.Steps) == 0 || w.over() {
			return nil, nil, fmt.Errorf("%w: %s", ErrBlocked, strings.Join(p.Blocked, "\n"))
		}
		w.say(strings.Join(p.Blocked, "; "))
		if err := r.sleep(ctx, r.Interval); err != nil {
			return nil, nil, err
		}
	}
}

// step executes a step.
func (r *Run) step(ctx context.Context, in *Input, s *Step) error {
	if slices.ContainsFunc(s.Sets, func(x Resize) bool { return x.To > x.From }) {
		return r.grow(ctx, in, s)
	}
	return r.shrink(ctx, in, s)
}

// finish removes a rollout's annotations, and reports every machine that is not Ready, also if it
// was not Ready before the run.
func (r *Run) finish(ctx context.Context, in *Input) error {
	for _, m := range members(in) {
		if !cluster.Ready(nodeOf(in, m)) {
			r.Say("machine %s of machine set %s is not Ready", m.Name, m.Set())
		}
	}
	for i := range in.Sets {
		if _, ok := in.Sets[i].Annotations[machine.RollAnnotation]; ok && r.Roll {
			if err := r.Annotate(ctx, &in.Sets[i], machine.RollAnnotation, ""); err != nil {
				return err
			}
		}
	}
	return nil
}

// tidy reverts the changes that a killed run left: cordons and marks of machines that stay.
func (r *Run) tidy(ctx context.Context) error {
	in, err := r.Read(ctx, false)
	if err != nil {
		return err
	}
	for _, m := range members(in) {
		if m.DeletionTimestamp != nil {
			continue
		}
		if m.Annotations[machine.DeleteAnnotation] == Mine {
			if err := r.Mark(ctx, m, false); err != nil {
				return err
			}
		}
		if n := nodeOf(in, m); n != nil && n.Spec.Unschedulable && strings.HasPrefix(n.Annotations[cluster.Cordoned], CordonReason) {
			if err := r.Uncordon(ctx, n.Name); err != nil {
				return err
			}
			r.Shut = slices.DeleteFunc(r.Shut, func(s ShutNode) bool { return s.Name == n.Name })
		}
	}
	return nil
}

// shut returns the cluster's nodes that any scale cordoned.
func shut(in *Input) (out []ShutNode) {
	for i := range in.Nodes {
		n := &in.Nodes[i]
		if !n.Spec.Unschedulable || !strings.HasPrefix(n.Annotations[cluster.Cordoned], CordonReason) {
			continue
		}
		stays := slices.ContainsFunc(in.Machines, func(m machine.Machine) bool { return m.Node() == n.Name && m.DeletionTimestamp == nil })
		out = append(out, ShutNode{n.Name, !stays})
	}
	return out
}

// words briefly describes a step.
func words(s *Step) string {
	var out []string
	for _, x := range s.Sets {
		out = append(out, text.Sprintf("%s from %d to %d", x.Set, x.From, x.To))
	}
	return strings.Join(out, ", ")
}
