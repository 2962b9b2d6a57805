package run

import (
	"context"
	"errors"
	"fmt"

	"fettle.dev/fettle/kube/load/plan"
)

// settle waits until objects are ready.
func (x *running) settle(op *plan.Op) error {
	x.pace = clock{}
	keys := x.keys(op)
	if len(keys) == 0 {
		return nil
	}
	if x.Follower == nil {
		return errors.New("no watch of the objects is running")
	}
	left := x.Follower.Until(x.quit, keys, op.Timeout)
	if x.quit.Err() != nil {
		return context.Cause(x.quit)
	}
	if len(left) == 0 {
		return nil
	}
	example := left[0].String()
	if why := x.Follower.Why(left[0]); why != "" {
		example += " (" + why + ")"
	}
	if op.Must {
		return fmt.Errorf("%s: after %s %d of %d are not ready, %s among them", op.At, op.Timeout, len(left), len(keys), example)
	}
	x.out.NotReady, x.out.Example = len(left), example
	return nil
}

// keys are the objects of an operation that take a while, but those that could not be made,
// or were deleted.
func (x *running) keys(op *plan.Op) []Key {
	x.mu.Lock()
	defer x.mu.Unlock()
	var keys []Key
	add := func(i int) {
		was := x.State.Objects[i].Was
		if kind := x.Plan.Kind(i).Kind; Takes(kind) && was != Failed && was != Gone {
			keys = append(keys, Key{Kind: kind, Namespace: x.Plan.Namespace(i), Name: x.Plan.Name(i)})
		}
	}
	if !op.Acted {
		for i := op.From; i < op.To; i++ {
			if x.Plan.Waits(i) {
				add(i)
			}
		}
		return keys
	}
	seen := map[int]bool{}
	for i := op.From; i < op.To; i++ {
		if a, object := x.Plan.Action(i); !a.NoWait && !seen[object] {
			seen[object] = true
			add(object)
		}
	}
	return keys
}

// sync is a synchronisation.
func (x *running) sync(op *plan.Op) error {
	if err := x.drain(); err != nil {
		return err
	}
	s := op.Sync
	b := x.opened[s]
	delete(x.opened, s)
	if !x.fresh {
		if b != nil { // its port may be wanted again
			return b.Close()
		}
		return nil
	}
	spaces, pods := map[string]bool{}, 0
	for i := op.From; i < op.To; i++ {
		if space := x.Plan.Namespace(i); space != "" {
			spaces[space] = true
		}
		n, _ := x.Plan.Pods(i)
		pods += n
	}
	fail := func(err error) error {
		if err != nil {
			err = fmt.Errorf("%s: sync: %w", op.At, err)
		}
		return err
	}
	if b != nil {
		b.Expect(pods)
		err := b.Wait(x.quit, s.Timeout)
		if err = errors.Join(err, b.Close()); err != nil {
			return fail(err)
		}
	}
	if s.Running {
		// A pod that has ended well has run.
		if err := x.Follower.Phase(x.quit, spaces, pods, s.Selectors, s.Timeout, "Running", "Succeeded"); err != nil {
			return fail(err)
		}
	}
	if s.Succeeded {
		return fail(x.Follower.Phase(x.quit, spaces, pods, s.Selectors, s.Timeout, "Succeeded"))
	}
	return nil
}
