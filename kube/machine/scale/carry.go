package scale

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"fettle.dev/fettle/kube/cluster"
	"fettle.dev/fettle/kube/corestate"
	"fettle.dev/fettle/kube/machine"
)

// Cluster is the access of a scale to a cluster.
type Cluster interface {
	// Read reads the named sets and the other input of a plan; pods and disruption budgets only on
	// request, since a cluster has many.
	Read(ctx context.Context, pods bool) (*Input, error)
	// Resize sets the replicas of a set, if they are unchanged since it was read.
	Resize(ctx context.Context, s *machine.Set, replicas int) error
	// Annotate sets an annotation of a set; "" removes it.
	Annotate(ctx context.Context, s *machine.Set, name, value string) error
	// Mark marks a machine to be removed first when its set shrinks, or removes that mark.
	// Removing the mark of a machine that is gone is not an error.
	Mark(ctx context.Context, m *machine.Machine, goes bool) error
	// Cordon makes a node unschedulable, and Uncordon reverts a cordon by Cordon. A node that is
	// gone is not an error.
	Cordon(ctx context.Context, node, why string) error
	Uncordon(ctx context.Context, node string) error
	// Drain moves the pods off a node, within a time limit.
	Drain(ctx context.Context, node string, patience time.Duration) error
}

// Mine is the value of the annotations that mark a machine here.
const Mine = "fettle"

// CordonReason begins the reason in the cordon annotation of a node.
const CordonReason = "kubectl fettle scale"

// Goal is the target of a scale.
type Goal struct {
	// Machines is the number of machines that the sets are to have together; with Roll all
	// machines are replaced instead.
	Machines int
	Roll     bool
	// Afresh restarts a roll that has begun.
	Afresh bool
}

// Options of a scale.
type Options struct {
	Goal
	// Batch, QPS and Burst are the fields of scale.Input.
	Batch, QPS, Burst int
	// Patience is the extra time for the drain of a step beyond its minimum, and the time for
	// machines to go and for sets to settle; 0 means DefaultPatience.
	Patience time.Duration
	// Force also evicts pods that no controller would create again.
	Force bool
	// JoinTimeout is the time limit for the machines of a batch to join; 0 means the
	// nodeStartupTimeout of their check, or ten minutes.
	JoinTimeout time.Duration
	// Interval is the time between two looks; 0 means DefaultInterval.
	Interval time.Duration
	// Say is called with progress messages.
	Say func(format string, args ...any)
}

// DefaultInterval is the default of Options.Interval.
const DefaultInterval = 5 * time.Second

// Done is an executed step.
type Done struct {
	Sets   []Resize `json:"sets"`
	Remove []string `json:"removed"`
	TookS  float64  `json:"took_s"`
}

// ShutNode is a node that a scale has cordoned.
type ShutNode struct {
	Name string
	// Goes reports whether it stays unschedulable: its machine is being deleted, or is gone.
	// Otherwise the next call uncordons it.
	Goes bool
}

// Run executes a plan of machine sets: a step, a wait until it is done, and the next step,
// planned again from the state then. All state is in the objects: the replicas of the sets, the
// machines, and for a roll an annotation of the set. So the same call continues after one that
// was killed.
type Run struct {
	Cluster
	Options
	// Steps are the completed steps.
	Steps []Done
	// Changed reports whether a lasting change has been made.
	Changed bool
	// Asked are the resizes that were requested.
	Asked []Resize

	// Shut are the nodes that earlier calls have cordoned, as last seen.
	Shut []ShutNode

	// falling reports whether the sets shrink: then no machine is waited for.
	falling bool
	// since is when it first read the sets.
	since time.Time

	now   func() time.Time
	sleep func(context.Context, time.Duration) error
}

// New returns a scale of a cluster that has not begun.
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
	return &Run{Cluster: c, Options: o, Steps: []Done{}, now: time.Now, sleep: func(ctx context.Context, d time.Duration) error {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(d):
			return nil
		}
	}}
}

var (
	// ErrBlocked means that the plan is blocked in the present state.
	ErrBlocked = errors.New("the plan cannot be executed now")
	// ErrBegun means that a roll has begun and is not complete.
	ErrBegun = errors.New("a roll is not finished")
	// ErrLeft means that something could not be restored.
	ErrLeft = errors.New("it could not be restored")
)

// Plan returns what is to be done from the present state.
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

// Go executes the plan. Changes made before it fails, or ctx ends, stay, except for cordons
// of nodes whose machines do not go.
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

// open plans until nothing blocks the plan: after a step a disruption budget may allow nothing
// until pods are ready elsewhere. Before the first step it does not wait.
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

// finish removes the annotations of a roll, and reports the machines that are not Ready:
// those of a batch that failed in another run, or that were so before.
func (r *Run) finish(ctx context.Context, in *Input) error {
	for _, m := range members(in) {
		if !corestate.Ready(nodeOf(in, m)) {
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

// tidy reverts what a killed run has left: cordons of nodes, and marks of machines, that do
// not go.
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

// shut returns the nodes of the cluster that a scale has cordoned, for any sets.
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

// words describes a step briefly.
func words(s *Step) string {
	var out []string
	for _, x := range s.Sets {
		out = append(out, fmt.Sprintf("%s from %d to %d", x.Set, x.From, x.To))
	}
	return strings.Join(out, ", ")
}
