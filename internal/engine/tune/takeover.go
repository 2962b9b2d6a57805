package tune

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/override"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/ui"
)

// OneTuner handles other tuners in force that conflict with the planned writes. It returns an
// error, or with takeOver it stops them and returns the transactions that did. command is the
// command that would take over. writes returns the planned writes; it is called only if needed.
func (m *Machine) OneTuner(ctx context.Context, takeOver bool, command string, writes func() []setting.Setting) (taken []int, err error) {
	tuners, err := m.OtherTuners(ctx, writes)
	if err != nil {
		return nil, err
	}
	if len(tuners) > 0 && !takeOver {
		return nil, OtherTunerInForce(tuners[0], command)
	}
	// tuned-ppd before TuneD, which it requires: undo then starts TuneD with its profile first.
	for _, t := range slices.Backward(tuners) {
		tx, err := m.takeOver(ctx, t)
		if err != nil {
			return taken, err
		}
		taken = append(taken, tx)
	}
	return taken, nil
}

// OtherTuners returns the tuners in force that conflict with the planned writes. If a tuner sets
// only a few settings (numad), and no planned write changes them, it only warns.
func (m *Machine) OtherTuners(ctx context.Context, writes func() []setting.Setting) ([]override.Tuner, error) {
	all, err := override.Tuners(ctx, m.Host)
	var files []string
	var out []override.Tuner
	for _, t := range all {
		if !t.Exclusive || !t.InForce() {
			continue
		}
		if files == nil && !t.Conflicts(nil) {
			files = []string{}
			for _, s := range writes() {
				files = append(files, m.Kinds.KernelFiles(s)...)
			}
		}
		if t.Conflicts(files) {
			out = append(out, t)
		} else {
			m.say("%s %s; it sets %s, which this transaction does not write", t.Name, t.Phase(err == nil), t.Sets)
		}
	}
	return out, err
}

// WritesOf returns a function that lists the current writes of a planner. If the planner fails,
// the list is empty; applying the plan reports the error.
func (m *Machine) WritesOf(ctx context.Context, planner Planner) func() []setting.Setting {
	return func() []setting.Setting {
		s, err := m.State()
		if err != nil {
			return nil
		}
		p, err := planner(ctx, s)
		if err != nil {
			return nil
		}
		return p.Writing()
	}
}

// Writing lists the settings that a plan writes or takes over.
func (p *Plan) Writing() []setting.Setting {
	var out []setting.Setting
	for _, st := range p.Steps {
		if st.Action != None {
			out = append(out, st.Setting)
		}
	}
	return out
}

// WritesOfSelection returns a function that lists the settings of the selection in force.
func (m *Machine) WritesOfSelection(ctx context.Context) func() []setting.Setting {
	return m.WritesOf(ctx, func(ctx context.Context, s *journal.State) (*Plan, error) {
		p, _, err := m.InForce(ctx, s)
		if err != nil || p == nil {
			return &Plan{}, err
		}
		return m.PlanProfile(ctx, p, s)
	})
}

// OtherTunerInForce returns the error for a write while another tuner is in force. command would
// take over from it.
func OtherTunerInForce(t override.Tuner, command string) error {
	what := "is in force (running)"
	if !t.Running {
		what = "is in force from the next boot (enabled, not running)"
		if !t.Stays {
			what = "is in force (enabled)"
		}
	}
	if t.Operator != nil {
		return ui.Hinted(ui.Refused, fmt.Errorf("%s of %s %s: two tuners would overwrite each other", t.Name, t.Operator.Name, what), "fettle recommend prints the command that shows each node's profile; to use another profile, "+t.HandOver)
	}
	return ui.Hinted(ui.Refused, fmt.Errorf("%s %s and sets %s: two tuners would overwrite each other", t.Name, what, t.Sets),
		"hand over: "+command+" (fettle undo restores it), or by hand: "+t.HandOver)
}

// RestoreTuners undoes takeovers if the tuning after them failed.
func (m *Machine) RestoreTuners(ctx context.Context, taken []int, err error) error {
	if len(taken) == 0 || err == nil || ui.Code(err) == ui.Partial {
		return err
	}
	if _, uerr := m.Undo(context.WithoutCancel(ctx), taken...); uerr != nil {
		return errors.Join(err, uerr)
	}
	m.say("the other tuner is restored")
	return err
}

// takeOver stops another tuner in a transaction of its own, so that undo restores the tuner.
func (m *Machine) takeOver(ctx context.Context, t override.Tuner) (int, error) {
	s := setting.Setting{Kind: TunerKind, Name: t.Unit}
	now, err := m.Kinds.Read(ctx, s)
	if err != nil {
		return 0, fmt.Errorf("cannot stop and record %s: %w", t.Name, err)
	}
	state, err := parseTuner(now.Text)
	if now.Absent || err != nil || t.Running && state.active != "active" {
		return 0, ui.Hinted(ui.Refused, fmt.Errorf("%s runs, but not as %s, so undo could not start it again", t.Name, t.Unit), fmt.Sprintf("stop it yourself: sudo kill %d", t.PID))
	}
	want := state
	want.active = "inactive"
	switch {
	case len(t.BusNames) > 0: // a client of the bus would start it again
		want.enabled = "masked"
	case want.enabled == "enabled":
		want.enabled = "disabled"
	}
	e := *m.Engine
	e.Reason += " (take over from " + t.Name + ")"
	res, err := e.Apply(ctx, func(ctx context.Context, js *journal.State) (*Plan, error) {
		return e.PlanChanges(ctx, []setting.Change{{Setting: s, Want: setting.Text(want.String()), Reason: setting.Reason{Text: "--take-over"}}}, js)
	}, ApplyOptions{Kind: journal.Apply, Atomic: true})
	if err != nil {
		return 0, err
	}
	if err := res.Err(nil); err != nil {
		return 0, err
	}
	had := ""
	if state.profiles != "" {
		had = " (" + state.profiles + ")"
	}
	m.say("%s%s is stopped: transaction %d, reverted by fettle undo", t.Name, had, res.Tx)
	return res.Tx, nil
}
