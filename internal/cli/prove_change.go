package cli

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
	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
)

// applying is told before a command that makes the change begins, and when it has
// ended.
func (p *proof) applying(begins bool) error {
	if !begins {
		return p.watchdog.tell(applied)
	}
	if err := tune.Arm(p.lease, undoByHand(p.o.Dir, p.o.UndoCmd)); err != nil {
		return err
	}
	return p.watchdog.tell(applying)
}

// undoByHand is the line with which a person undoes the change of a pair of commands, as
// fettle does: in its directory, and all of it or, without that directory, nothing.
func undoByHand(dir, command string) string {
	return "(" + internaltext.CommandLine([]string{"cd", "--", dir}) + " && " + internaltext.CommandLine([]string{"sh", "-c", command}) + ")"
}

// settings prepares a change through the journal.
func (p *proof) settings(ctx context.Context, deadline *journal.Try) error {
	if p.o.Plan != "" && p.o.resume == "" {
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
		return p.engine.PlanAsked(ctx, changes, s)
	}
	if err := p.twice(); err != nil {
		return err
	}
	if p.o.Plan == "" {
		var err error
		if planner, apply, err = p.planner(ctx, p.o.Profiles, tuneOptions{set: p.o.Set, atomic: true}); err != nil {
			return err
		}
	}
	apply.Try, apply.OrNothing = deadline, false
	if p.planned != nil {
		apply.Planned = p.planned
	}
	p.tuning = &prove.Tuning{Engine: p.engine, Planner: planner, Options: apply}
	p.change = p.tuning
	tested, left, err := p.tuning.Look(ctx)
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
	if p.o.resume != "" && !slices.EqualFunc(recorded, p.body.Change.Settings, func(a, b prove.Setting) bool {
		return a.Setting == b.Setting && a.Before.String() == b.Before.String() && a.With.String() == b.With.String()
	}) {
		return ui.Hinted(ui.Refused, errors.New("the machine has other values now than when the experiment was begun: what was measured then does not go together with what would be measured now"), asBegun(recorded))
	}
	var why []string
	for _, s := range p.body.Change.Left {
		why = append(why, s.Setting.String()+": "+s.Why)
	}
	if len(p.o.Set) > 0 && len(why) > 0 { // asked for by name
		return ui.Exit(ui.Failed, fmt.Errorf("cannot be tested: %s", strings.Join(why, "; ")))
	}
	if errors.Is(err, prove.ErrNoChange) {
		if len(why) > 0 {
			err = fmt.Errorf("nothing can be tested: %s", strings.Join(why, "; "))
		}
		return ui.Exit(ui.Failed, err)
	}
	return err
}

// twice refuses two values for one place.
func (p *proof) twice() error {
	asked := map[setting.Setting]string{}
	for _, text := range p.o.Set {
		c, err := p.asked(text)
		if err != nil {
			return ui.Exit(ui.Usage, err)
		}
		id, err := p.kinds.Resolve(c.Setting)
		if err != nil {
			continue // the plan says what is wrong with it
		}
		if first, is := asked[id]; is {
			return ui.Exit(ui.Usage, fmt.Errorf("--set %s and --set %s are of one place: want one value", first, text))
		}
		asked[id] = text
	}
	return nil
}

// settingsOfPlan takes the values of a saved plan, which holds as long as the machine is
// as it was then. From here on they are single changes: each visit is a transaction
// more than the plan knows of.
func (p *proof) settingsOfPlan(ctx context.Context) error {
	planner, apply, err := p.planner(ctx, nil, tuneOptions{plan: p.o.Plan})
	if err != nil {
		return err
	}
	p.planned = apply.Planned
	tested, _, err := (&prove.Tuning{Engine: p.engine, Planner: planner}).Look(ctx)
	p.body.Change.Settings = underTest(tested)
	if errors.Is(err, prove.ErrNoChange) {
		return ui.Exit(ui.Failed, err)
	}
	return err
}

// underTest are the steps of a plan as the evidence has them.
func underTest(steps []tune.Step) (out []prove.Setting) {
	for _, s := range steps {
		out = append(out, prove.Setting{Setting: s.Setting, Before: s.Before, With: s.Want, Why: s.Reason.String()})
	}
	return out
}

// changeTimeout is how long a command that makes or undoes the change may take, where
// --timeout does not say it.
const changeTimeout = 10 * time.Minute

// orUsage is an error of what was asked for, unless it says itself what it is.
func orUsage(err error) error {
	if errors.As(err, new(*ui.Error)) {
		return err
	}
	return ui.Exit(ui.Usage, err)
}

// asBegun is the command after which an experiment can go on: it sets what the values were
// when it was begun.
func asBegun(recorded []prove.Setting) string {
	words := []string{"fettle", "tune"}
	for _, s := range recorded {
		if !s.Before.Absent {
			words = append(words, "--set", s.Setting.String()+"="+s.Before.Text)
		}
	}
	if len(words) == 2 {
		return "begin it again with fettle prove: what was there before cannot be set"
	}
	return "to set them as they were, run: " + internaltext.CommandLine(words)
}
