package carry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"fettle.dev/fettle/internal/kube/corestate"
	"fettle.dev/fettle/internal/kube/kubelet/drain"
	"fettle.dev/fettle/internal/kube/machine"
	"fettle.dev/fettle/internal/kube/scale"
)

// cordoned is the annotation that a cordon of fettle's leaves.
const cordoned = drain.Cordoned

// settling is how long is waited for what goes on in any case, to give back what was
// taken, though the run has been interrupted.
const settling = 30 * time.Second

// grow gives sets more replicas and waits until their machines have joined.
func (r *Run) grow(ctx context.Context, in *scale.Input, s *scale.Step) error {
	r.Say("%s; then wait until %s", words(s), s.Until)
	known := map[types.UID]bool{}
	for _, m := range members(in) {
		known[m.UID] = true
	}
	if err := r.resize(ctx, in, s); err != nil {
		return err
	}
	return r.wait(ctx, time.Duration(s.TimeoutS*float64(time.Second)), func(in *scale.Input) (string, error) {
		var missing []string
		for _, x := range s.Sets {
			joined := 0
			for _, m := range members(in) {
				switch {
				case m.Set() != x.Set || known[m.UID] || m.DeletionTimestamp != nil:
				case m.Phase() == machine.PhaseFailed:
					return "", fmt.Errorf("machine %s of machine set %s is Failed", m.Name, x.Set)
				case corestate.Ready(nodeOf(in, m)):
					joined++
				}
			}
			if want := x.To - x.From; joined < want {
				missing = append(missing, fmt.Sprintf("of machine set %s %d of %d new machines have joined and are Ready", x.Set, joined, want))
			}
		}
		return strings.Join(missing, ", "), nil
	})
}

// shrink drains the machines that go, lets their sets have fewer replicas, and waits
// until they are gone. If the drain fails, nothing else is done, and the nodes take pods
// again.
func (r *Run) shrink(ctx context.Context, in *scale.Input, s *scale.Step) (err error) {
	var leave []*machine.Machine
	var nodes, drained []string
	for _, m := range members(in) {
		if !slices.Contains(s.Remove, m.Name) {
			continue
		}
		leave = append(leave, m)
		if n := nodeOf(in, m); n != nil {
			nodes = append(nodes, n.Name)
			if !corestate.Ready(n) {
				continue // nobody there would end a pod that is evicted
			}
			if err := r.movable(in, n.Name); err != nil {
				return err
			}
			drained = append(drained, n.Name)
		}
	}
	r.Say("%s; pods that have to move: %d", words(s), s.Evictions)
	taken := false
	defer func() {
		if err == nil || taken {
			return
		}
		// Also where ctx has ended.
		back, cancel := context.WithTimeout(context.WithoutCancel(ctx), settling)
		defer cancel()
		for _, m := range leave {
			err = errors.Join(err, r.Mark(back, m, false))
		}
		for _, name := range nodes {
			err = errors.Join(err, r.Uncordon(back, name))
		}
	}()
	for _, name := range nodes {
		if err := r.Cordon(ctx, name, CordonReason+": its machine goes"); err != nil {
			return err
		}
	}
	if err := r.drain(ctx, drained, r.Patience+2*time.Duration(s.AtLeastS*float64(time.Second))); err != nil {
		return err
	}
	for _, m := range leave {
		if err := r.Mark(ctx, m, true); err != nil {
			return err
		}
	}
	if err := r.resizeNoting(ctx, in, s, &taken); err != nil {
		return err
	}
	return r.wait(ctx, r.Patience, func(in *scale.Input) (string, error) {
		var there []string
		for _, m := range members(in) {
			if slices.ContainsFunc(leave, func(l *machine.Machine) bool { return l.UID == m.UID }) {
				there = append(there, m.Name)
			}
		}
		if len(there) == 0 {
			return "", nil
		}
		return "still there: " + strings.Join(there, ", "), nil
	})
}

// movable is an error where pods of a node would be lost.
func (r *Run) movable(in *scale.Input, node string) error {
	if r.Force {
		return nil
	}
	var lost []string
	for i := range in.Pods {
		p := &in.Pods[i]
		if p.Spec.NodeName != node || corestate.Ended(p) {
			continue
		}
		if len(drain.Sort([]core.Pod{*p}).Lost) > 0 {
			lost = append(lost, p.Namespace+"/"+p.Name)
		}
	}
	if len(lost) > 0 {
		return fmt.Errorf("%w: nothing would make %s again elsewhere; delete it, let a Deployment or the like make it, or --force", ErrBlocked, strings.Join(lost, ", "))
	}
	return nil
}

// drain drains nodes together. Their requests are those of one client.
func (r *Run) drain(ctx context.Context, nodes []string, patience time.Duration) error {
	failed := make([]error, len(nodes))
	var all sync.WaitGroup
	for i, name := range nodes {
		all.Go(func() {
			if err := r.Drain(ctx, name, patience); err != nil {
				failed[i] = fmt.Errorf("node %s: %w", name, err)
			}
		})
	}
	all.Wait()
	return errors.Join(failed...)
}

// resize sets the replicas of the sets of a step.
func (r *Run) resize(ctx context.Context, in *scale.Input, s *scale.Step) error {
	return r.resizeNoting(ctx, in, s, new(bool))
}

// resizeNoting is resize, and notes when the first is set.
func (r *Run) resizeNoting(ctx context.Context, in *scale.Input, s *scale.Step, taken *bool) error {
	for _, x := range s.Sets {
		i := slices.IndexFunc(in.Sets, func(s machine.Set) bool { return s.Name == x.Set })
		if err := r.Resize(ctx, &in.Sets[i], x.To); err != nil {
			return fmt.Errorf("machine set %s: %w", x.Set, err)
		}
		*taken, r.Changed = true, true
	}
	return nil
}

// wait looks until there is nothing missing any more.
func (r *Run) wait(ctx context.Context, within time.Duration, missing func(*scale.Input) (string, error)) error {
	for end := r.now().Add(within); ; {
		in, err := r.Read(ctx, false)
		if err != nil {
			return err
		}
		what, err := missing(in)
		if err != nil || what == "" {
			return err
		}
		if r.now().After(end) {
			return fmt.Errorf("after %s: %s", within, what)
		}
		if err := r.sleep(ctx, r.Interval); err != nil {
			return err
		}
	}
}

// Settle waits until the sets have the machines that they are to have, and none is on
// its way: out, and for what adds machines also in.
func (r *Run) Settle(ctx context.Context) error {
	in, err := r.Read(ctx, false)
	if err != nil {
		return err
	}
	patience := r.Patience
	for i := range in.Checks {
		// For this long a machine may take to join.
		if t := in.Checks[i].Spec.NodeStartupTimeout; t != nil {
			patience = max(patience, t.Duration)
		}
	}
	first := true
	return r.wait(ctx, patience, func(in *scale.Input) (string, error) {
		what := strings.Join(r.unsettled(in), ", ")
		if what != "" && first {
			r.Say("wait until what is on its way has come about: %s", what)
			first = false
		}
		return what, nil
	})
}

// unsettled says what of the sets is on its way.
func (r *Run) unsettled(in *scale.Input) (out []string) {
	all := 0
	for i := range in.Sets {
		s := &in.Sets[i]
		want, has, starting, leaving := 1, 0, 0, 0
		if s.Spec.Replicas != nil {
			want = int(*s.Spec.Replicas)
		}
		all += want
		for _, m := range members(in) {
			switch {
			case m.Set() != s.Name:
			case m.DeletionTimestamp != nil:
				leaving++
			default:
				has++
				if m.Node() == "" && m.Phase() != machine.PhaseFailed {
					starting++
				}
			}
		}
		if has != want || leaving > 0 {
			out = append(out, fmt.Sprintf("machine set %s is to have %d machines and has %d, and %d are being deleted", s.Name, want, has, leaving))
		} else if starting > 0 {
			out = append(out, fmt.Sprintf("%d machines of machine set %s have not joined", starting, s.Name))
		}
	}
	if !r.Roll && r.Machines < all {
		// Those that do not come up are the first to go.
		out = slices.DeleteFunc(out, func(s string) bool { return strings.HasSuffix(s, "have not joined") })
	}
	return out
}

// members are the machines of the sets.
func members(in *scale.Input) (out []*machine.Machine) {
	for i := range in.Machines {
		m := &in.Machines[i]
		if slices.ContainsFunc(in.Sets, func(s machine.Set) bool { return s.Name == m.Set() && s.Namespace == m.Namespace }) {
			out = append(out, m)
		}
	}
	return out
}

// nodeOf is the node of a machine; nil if there is none.
func nodeOf(in *scale.Input, m *machine.Machine) *core.Node {
	if m.Node() == "" {
		return nil
	}
	for i := range in.Nodes {
		if in.Nodes[i].Name == m.Node() {
			return &in.Nodes[i]
		}
	}
	return nil
}
