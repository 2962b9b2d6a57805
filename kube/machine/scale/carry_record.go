package scale

import (
	"context"
	"encoding/json"
	"fmt"

	"fettle.dev/fettle/kube/machine"
)

// begun are the rolls that have begun on the sets, for who goes on with them.
func (r *Run) begun(in *Input) (map[string]Begun, error) {
	all := map[string]Begun{}
	for i := range in.Sets {
		s := &in.Sets[i]
		b, ok, err := BegunOn(s)
		switch {
		case r.Roll && r.Afresh:
			if ok {
				all[s.Name] = Again(*in, s, b)
			}
		case err != nil:
			return nil, err
		case ok && !r.Roll:
			return nil, fmt.Errorf("%w: of machine set %s; finish it with --roll, or forget it: kubectl annotate machinesets.machine.openshift.io %s -n %s %s-", ErrBegun, s.Name, s.Name, s.Namespace, machine.RollAnnotation)
		case ok:
			all[s.Name] = b
		}
	}
	return all, nil
}

// begin notes on the sets which of their machines are to be made anew.
func (r *Run) begin(ctx context.Context) error {
	in, err := r.Read(ctx, false)
	if err != nil {
		return err
	}
	for i := range in.Sets {
		s := &in.Sets[i]
		b, ok, err := BegunOn(s)
		switch {
		case ok && r.Afresh:
			b = Again(*in, s, b)
		case ok:
			continue
		case err != nil && !r.Afresh:
			return err
		default:
			b = Begin(*in, s)
		}
		text, err := json.Marshal(b)
		if err != nil {
			return err
		}
		if err := r.Annotate(ctx, s, machine.RollAnnotation, string(text)); err != nil {
			return err
		}
		r.Changed = true
	}
	r.Afresh = false // it has begun now
	return nil
}
