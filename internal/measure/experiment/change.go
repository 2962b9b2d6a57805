package experiment

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/measure/prove"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
)

// applying is called with true before the command that makes the change, and with false after it
// has ended.
func (p *Experiment) applying(begins bool) error {
	if !begins {
		return p.watchdog.send(applied)
	}
	if err := tune.Arm(p.lease, undoByHand(p.o.Dir, p.o.UndoCmd)); err != nil {
		return err
	}
	return p.watchdog.send(applying)
}

// undoByHand returns the shell command that undoes a pair of commands in the same directory as
// fettle does. The command fails if the directory is missing.
func undoByHand(dir, command string) string {
	return "(" + text.CommandLine([]string{"cd", "--", dir}) + " && " + text.CommandLine([]string{"sh", "-c", command}) + ")"
}

// settings prepares a change through the journal.
func (p *Experiment) settings(ctx context.Context, deadline *journal.Try) error {
	if p.o.Plan != "" && p.o.Resume == "" {
		if err := p.settingsOfPlan(ctx); err != nil {
			return err
		}
	}
	recorded := p.body.Change.Settings
	apply := tune.ApplyOptions{Kind: journal.Apply, Atomic: true}
	planner := func(ctx context.Context, s *journal.State) (*tune.Plan, error) {
		var changes []setting.Change
		for _, c := range recorded {
			changes = append(changes, setting.Change{Setting: c.Setting, Want: c.With, Reason: setting.Reason{Text: c.Why}})
		}
		return p.PlanAsked(ctx, changes, s)
	}
	if err := p.conflictingSets(); err != nil {
		return err
	}
	if p.o.Plan == "" {
		var err error
		if planner, apply, err = p.Planner(ctx, tune.Request{Profiles: p.o.Profiles, Set: p.o.Set, Atomic: true}); err != nil {
			return err
		}
	}
	apply.Try, apply.OrNothing = deadline, false
	if p.planned != nil {
		apply.Planned = p.planned
	}
	p.tuning = &prove.Tuning{Engine: p.Engine, Planner: planner, Options: apply}
	p.change = p.tuning
	tested, left, err := p.tuning.Look(ctx)
	// A block has at least one switch, and the change is rehearsed once.
	if refused := p.refuseRestarts(tested, fmt.Sprintf("at least %d", p.design.Least+2)); refused != nil {
		return refused
	}
	p.body.Change = prove.Tested{Profile: p.o.Profiles}
	p.body.Change.Settings = underTest(tested)
	var places []setting.Setting
	for _, s := range tested {
		places = append(places, s.Setting)
	}
	if err := tune.UnderTest(p.lease, places); err != nil {
		return err
	}
	for _, s := range left {
		p.body.Change.Left = append(p.body.Change.Left, prove.Setting{Setting: s.Setting, Before: s.Before, With: s.Want, Why: string(s.Verdict) + ": " + s.Why})
	}
	if p.o.Resume != "" && !slices.EqualFunc(recorded, p.body.Change.Settings, func(a, b prove.Setting) bool {
		return a.Setting == b.Setting && a.Before.String() == b.Before.String() && a.With.String() == b.With.String()
	}) {
		return ui.Hinted(ui.Refused, errors.New("values on this machine have changed since the experiment began; old and new measurements cannot be combined"), asBegun(recorded))
	}
	var why []string
	for _, s := range p.body.Change.Left {
		why = append(why, s.Setting.String()+": "+s.Why)
	}
	if len(p.o.Set) > 0 && len(why) > 0 { // requested by name
		return ui.Exit(ui.Failed, fmt.Errorf("the change cannot be tested: %s", strings.Join(why, "; ")))
	}
	if errors.Is(err, prove.ErrNoChange) {
		if len(why) > 0 {
			err = fmt.Errorf("no value of the change can be tested: %s", strings.Join(why, "; "))
		}
		return ui.Exit(ui.Failed, err)
	}
	return err
}

// conflictingSets rejects two values for one setting.
func (p *Experiment) conflictingSets() error {
	asked := map[setting.Setting]string{}
	for _, text := range p.o.Set {
		c, err := p.ParseChange(text)
		if err != nil {
			return ui.Exit(ui.Usage, err)
		}
		id, err := p.Kinds.Resolve(c.Setting)
		if err != nil {
			continue // the plan reports the error
		}
		if first, is := asked[id]; is {
			return ui.Exit(ui.Usage, fmt.Errorf("--set %s and --set %s are the same setting; give one value", first, text))
		}
		asked[id] = text
	}
	return nil
}

// settingsOfPlan reads the values of a saved plan, if the machine has not changed since. They are
// then single changes, because the plan is outdated after the first sample.
func (p *Experiment) settingsOfPlan(ctx context.Context) error {
	planner, apply, err := p.Planner(ctx, tune.Request{Plan: p.o.Plan})
	if err != nil {
		return err
	}
	p.planned = apply.Planned
	tested, _, err := (&prove.Tuning{Engine: p.Engine, Planner: planner}).Look(ctx)
	p.body.Change.Settings = underTest(tested)
	if errors.Is(err, prove.ErrNoChange) {
		return ui.Exit(ui.Failed, err)
	}
	return err
}

// underTest converts the steps of a plan for the evidence.
func underTest(steps []tune.Step) (out []prove.Setting) {
	for _, s := range steps {
		out = append(out, prove.Setting{Setting: s.Setting, Before: s.Before, With: s.Want, Why: s.Reason.String()})
	}
	return out
}

// changeTimeout is the time limit of a command that makes or undoes the change, unless --timeout
// is given.
const changeTimeout = 10 * time.Minute

// orExit adds an exit code to an error without one.
func orExit(code int, err error) error {
	if err == nil || errors.As(err, new(*ui.Error)) {
		return err
	}
	return ui.Exit(code, err)
}

// asBegun returns the command to run before the experiment can continue: it restores the values
// from the experiment's start.
func asBegun(recorded []prove.Setting) string {
	words := []string{"fettle", "tune"}
	for _, s := range recorded {
		if !s.Before.Absent {
			words = append(words, "--set", s.Setting.String()+"="+s.Before.Text)
		}
	}
	if len(words) == 2 {
		return "fettle cannot set the old values; start a new experiment with fettle prove"
	}
	return "to restore them, run: " + text.CommandLine(words)
}
