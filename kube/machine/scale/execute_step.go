package scale

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"fettle.dev/fettle/kube/cluster"
	"fettle.dev/fettle/kube/machine"
)

// settling limits the time for reverting changes after an interruption.
const settling = 30 * time.Second

// grow gives sets more replicas and waits until their machines have joined.
func (r *Run) grow(ctx context.Context, in *Input, s *Step) error {
	r.Say("%s; then wait until %s", words(s), s.Until)
	known := map[types.UID]bool{}
	for _, m := range members(in) {
		known[m.UID] = true
	}
	if err := r.resize(ctx, in, s, new(bool)); err != nil {
		return err
	}
	var last *NotCome
	err := r.wait(ctx, time.Duration(s.TimeoutS*float64(time.Second)), func(in *Input) (string, error) {
		if last = arrived(in, s, known); last == nil {
			return "", nil
		}
		if failed := last.failed(); failed != nil {
			return "", failed
		}
		return last.Error(), nil
	})
	var end *late
	if errors.As(err, &end) {
		last.Late = end.within
		return last
	}
	return err
}

// shrink drains the machines to remove, reduces their sets' replicas, and waits until the machines
// are gone. If the drain fails, it uncordons the nodes and changes nothing else.
func (r *Run) shrink(ctx context.Context, in *Input, s *Step) (err error) {
	var leave []*machine.Machine
	var nodes, drained []string
	for _, m := range members(in) {
		if !slices.Contains(s.Remove, m.Name) {
			continue
		}
		leave = append(leave, m)
		if n := nodeOf(in, m); n != nil {
			nodes = append(nodes, n.Name)
			if !cluster.Ready(n) {
				continue // without a kubelet, an evicted pod would never end
			}
			if err := r.movable(in, n.Name); err != nil {
				return err
			}
			drained = append(drained, n.Name)
		}
	}
	fewer := 0
	for _, x := range s.Sets {
		fewer += x.From - x.To
	}
	r.Say("%s; pods to move: %d, machines never created: %d", words(s), s.Evictions, fewer-len(leave))
	taken := false
	var marked []*machine.Machine
	var shut []string
	defer func() {
		if err == nil || taken {
			return
		}
		// Also if ctx has ended.
		back, cancel := context.WithTimeout(context.WithoutCancel(ctx), settling)
		defer cancel()
		for _, m := range marked {
			err = left(err, "the deletion mark of machine "+m.Name, r.Mark(back, m, false))
		}
		for _, name := range shut {
			err = left(err, "the cordon of node "+name, r.Uncordon(back, name))
		}
	}()
	for _, name := range nodes {
		shut = append(shut, name) // the node may be cordoned even if the answer was lost
		if err := r.Cordon(ctx, name, CordonReason+": its machine is removed"); err != nil {
			return err
		}
	}
	if err := r.drain(ctx, drained, s.Drained(r.Patience)); err != nil {
		return err
	}
	if fewer > len(leave) {
		if err := r.moved(ctx, in); err != nil {
			return err
		}
	}
	for _, m := range leave {
		marked = append(marked, m)
		if err := r.Mark(ctx, m, true); err != nil {
			return err
		}
	}
	if err := r.resize(ctx, in, s, &taken); err != nil {
		return err
	}
	return r.gone(ctx, in, leave)
}

// left adds a failed reversal to an error.
func left(err error, what string, failed error) error {
	if failed == nil {
		return err
	}
	return errors.Join(err, fmt.Errorf("%s %w: %w", what, ErrLeft, failed))
}

// gone waits until the machines no longer exist.
func (r *Run) gone(ctx context.Context, in *Input, leave []*machine.Machine) error {
	var there []string
	err := r.wait(ctx, r.Patience, func(in *Input) (string, error) {
		there = nil
		for _, m := range members(in) {
			if slices.ContainsFunc(leave, func(l *machine.Machine) bool { return l.UID == m.UID }) {
				there = append(there, m.Name)
			}
		}
		if len(there) == 0 {
			return "", nil
		}
		return "machines not deleted yet: " + some(there), nil
	})
	var end *late
	if errors.As(err, &end) {
		return fmt.Errorf("%w; see kubectl -n %s describe machines.machine.openshift.io %s for the cause", err, in.Sets[0].Namespace, there[0])
	}
	return err
}

// moved returns errMoved if the sets' machines have changed since they were read. A machine that
// does not exist yet cannot be marked: if its set created it in the meantime, the resize would
// remove a different machine.
func (r *Run) moved(ctx context.Context, in *Input) error {
	now, err := r.Read(ctx, false)
	if err != nil {
		return err
	}
	uids := func(in *Input) (out []types.UID) {
		for _, m := range members(in) {
			if m.DeletionTimestamp == nil {
				out = append(out, m.UID)
			}
		}
		slices.Sort(out)
		return out
	}
	if !slices.Equal(uids(in), uids(now)) {
		return errMoved
	}
	return nil
}

// movable returns an error if a drain of a node would lose pods.
func (r *Run) movable(in *Input, node string) error {
	if r.Force {
		return nil
	}
	var lost []string
	for i := range in.Pods {
		p := &in.Pods[i]
		if p.Spec.NodeName != node || cluster.Ended(p) {
			continue
		}
		if len(cluster.Sort([]core.Pod{*p}).Lost) > 0 {
			lost = append(lost, p.Namespace+"/"+p.Name)
		}
	}
	if len(lost) > 0 {
		return fmt.Errorf("%w: no controller would recreate %s; delete it, create it through a Deployment, or use --force", ErrBlocked, strings.Join(lost, ", "))
	}
	return nil
}

// drain drains nodes concurrently, with one client's rate limits.
func (r *Run) drain(ctx context.Context, nodes []string, patience time.Duration) error {
	failed, done := make([]error, len(nodes)), make([]atomic.Bool, len(nodes))
	var all sync.WaitGroup
	for i, name := range nodes {
		all.Go(func() {
			if err := r.Drain(ctx, name, patience); err != nil {
				failed[i] = fmt.Errorf("node %s: %w", name, err)
			}
			done[i].Store(true)
		})
	}
	if len(nodes) == 0 {
		return nil
	}
	ended := make(chan struct{})
	go func() { all.Wait(); close(ended) }()
	for w := r.waiting(patience); ; {
		var under []string
		for i, name := range nodes {
			if !done[i].Load() {
				under = append(under, name)
			}
		}
		if len(under) > 0 {
			w.say("pods move away from " + some(under))
		}
		select {
		case <-ended:
			return errors.Join(failed...)
		case <-time.After(r.Interval):
		}
	}
}

// resize sets the replicas of a step's sets; it sets taken at the first success.
func (r *Run) resize(ctx context.Context, in *Input, s *Step, taken *bool) error {
	for _, x := range s.Sets {
		i := slices.IndexFunc(in.Sets, func(s machine.Set) bool { return s.Name == x.Set })
		if err := r.Resize(ctx, &in.Sets[i], x.To); err != nil {
			return fmt.Errorf("machine set %s: %w", x.Set, err)
		}
		*taken, r.Changed = true, true
		r.Asked = append(r.Asked, x)
	}
	return nil
}

// members returns the machines of the sets.
func members(in *Input) (out []*machine.Machine) {
	for i := range in.Machines {
		m := &in.Machines[i]
		if slices.ContainsFunc(in.Sets, func(s machine.Set) bool { return s.Name == m.Set() && s.Namespace == m.Namespace }) {
			out = append(out, m)
		}
	}
	return out
}

// nodeOf returns the node of a machine, or nil.
func nodeOf(in *Input, m *machine.Machine) *core.Node {
	i := slices.IndexFunc(in.Nodes, func(n core.Node) bool { return n.Name == m.Node() })
	if m.Node() == "" || i < 0 {
		return nil
	}
	return &in.Nodes[i]
}
