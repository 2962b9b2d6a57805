package prove

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/text"
)

// Tuning is a change of settings through the journal. Each Apply is a transaction on trial, which
// Undo reverts.
type Tuning struct {
	Engine  *tune.Engine
	Planner tune.Planner
	Options tune.ApplyOptions
	// Applied is the result of the last Apply; nil if it could not begin.
	Applied *tune.Applied
	// Undone is the result of the last Undo; nil if it restored nothing.
	Undone *tune.Undone

	tx     int
	places []place
}

// place is a setting under test with the values of its first plan.
type place struct {
	setting      setting.Setting
	before, want setting.Value
}

// ErrNoChange is returned if the machine already has the values of the change.
var ErrNoChange = errors.New("the change has no effect: this machine already has these values")

// ErrTakenBack is returned if another program reverted the change.
var ErrTakenBack = errors.New("another program reverted the change")

// Look plans the change without writing. It returns the values that will be under test, and those
// that cannot be, with reasons.
func (t *Tuning) Look(ctx context.Context) (tested, left []tune.Step, err error) {
	s, err := t.Engine.State()
	if err != nil {
		return nil, nil, err
	}
	p, err := t.Planner(ctx, s)
	if err != nil {
		return nil, nil, err
	}
	for _, st := range p.Steps {
		switch {
		case st.Action == tune.Write || st.Action == tune.Release:
			tested = append(tested, st)
			if !st.Before.Unknown && !st.Want.Unknown {
				t.places = append(t.places, place{st.Setting, st.Before, st.Want})
			}
		case st.Action == tune.None && st.Verdict != plugin.OK:
			left = append(left, st)
		}
	}
	if len(tested) == 0 {
		return nil, left, ErrNoChange
	}
	return tested, left, nil
}

// Apply applies the change as a trial.
func (t *Tuning) Apply(ctx context.Context) error { return t.apply(ctx, t.Planner) }

func (t *Tuning) apply(ctx context.Context, plan tune.Planner) error {
	a, err := t.Engine.Apply(ctx, plan, t.Options)
	t.Applied = a
	if a != nil && a.Tx > 0 && a.Result != journal.ResultRolledBack {
		t.tx = a.Tx
	}
	switch {
	case err != nil:
		return err
	case a.Result == tune.ResultNothing:
		return ErrNoChange
	case a.Result != journal.ResultDone:
		var why []string
		for _, s := range a.Plan.Steps {
			if s.Verdict == plugin.Rejected || s.Failing() {
				why = append(why, fmt.Sprintf("%s = %s: %s: %s", s.Setting, s.Want, s.Verdict, s.Why))
			}
		}
		return fmt.Errorf("cannot set %d of %s: %s", a.Failed()+a.Failing(), text.Count(len(a.Plan.Steps), "value"), strings.Join(why, "; "))
	}
	return nil
}

// Undo reverts the change.
func (t *Tuning) Undo(ctx context.Context) error {
	if t.tx == 0 {
		return nil // never applied
	}
	u, err := t.Engine.Undo(ctx, t.tx)
	t.Undone = u
	switch {
	case errors.Is(err, tune.ErrTakenBack):
		err = fmt.Errorf("%w (transaction %d)", ErrTakenBack, t.tx)
		t.tx = 0
		return err
	case err != nil && !errors.Is(err, tune.ErrNothing):
		return err
	}
	t.tx = 0
	return nil
}

// Holds returns an error unless each setting has the value of the arm.
func (t *Tuning) Holds(ctx context.Context, a Arm) error {
	var errs []error
	for _, p := range t.places {
		kind, known := t.Engine.Kinds[p.setting.Kind]
		if !known {
			continue
		}
		v, err := kind.Read(ctx, p.setting)
		if err != nil {
			continue // unreadable: the effect of a script
		}
		want := p.before
		if a == With {
			want = p.want
		}
		if t.Engine.Kinds.Compare(p.setting, want, v) == setting.Different {
			errs = append(errs, fmt.Errorf("%s is %s, not %s", p.setting, v, want))
		}
	}
	return errors.Join(errs...)
}
