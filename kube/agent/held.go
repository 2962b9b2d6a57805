package agent

import (
	"context"
	"errors"
	"fmt"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/setting"
)

// holding is a value that an open descriptor of this process keeps, such as a limit of
// the CPUs' latency. The journal does not know it: nothing is left of it when the
// process ends, and a new agent holds it again.
type holding struct{ before, want setting.Value }

// hold holds what a profile wants held, and lets go of the rest. e is an engine of a
// process that lives on.
func (m *agentMachine) hold(ctx context.Context, e *tune.Engine, p *profile.Profile, s *journal.State) error {
	plan, err := e.PlanProfile(ctx, p, s)
	if err != nil {
		return err
	}
	wanted := map[setting.Setting]tune.Step{}
	for _, st := range plan.Steps {
		if st.Lifetime == setting.Held && (st.Action == tune.Write || st.Action == tune.Same) {
			wanted[st.Setting] = st
		}
	}
	errs := []error{m.letGo(ctx, wanted)}
	for s, st := range wanted {
		old, ours := m.held[s]
		if ours && m.kinds.Equal(s, old.want, st.Want) {
			continue
		}
		if !ours {
			old.before = st.Before
		}
		if err := m.kinds.Write(ctx, s, st.Want); err != nil {
			errs = append(errs, fmt.Errorf("%s = %s cannot be held: %w", s, st.Want, err))
			continue
		}
		if m.held == nil {
			m.held = map[setting.Setting]holding{}
		}
		m.held[s] = holding{old.before, st.Want}
	}
	return errors.Join(errs...)
}

// letGo lets go of every held value that is not wanted any more.
func (m *agentMachine) letGo(ctx context.Context, wanted map[setting.Setting]tune.Step) error {
	var errs []error
	for s, h := range m.held {
		if _, ok := wanted[s]; ok {
			continue
		}
		if err := m.kinds.Write(ctx, s, h.before); err != nil {
			errs = append(errs, fmt.Errorf("%s cannot be let go: %w", s, err))
			continue
		}
		delete(m.held, s)
	}
	return errors.Join(errs...)
}
