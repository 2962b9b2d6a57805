package tune

import (
	"context"
	"fmt"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/setting"
)

// stands reports whether a step's value is one that the plan brings or keeps.
func (s *Step) stands() bool { return s.Action == Write || s.Action == Same }

// will answers what a setting is going to hold: what the plan wants, or what is there.
func (b *builder) will(ctx context.Context) func(setting.Setting) setting.Value {
	return func(s setting.Setting) setting.Value {
		if i, ok := b.at[s]; ok && b.plan.Steps[i].stands() {
			return b.plan.Steps[i].Want
		}
		v, err := b.Kinds.Read(ctx, s)
		if err != nil {
			return setting.Unknown
		}
		return v
	}
}

// contradictions leaves out the lines whose values others decide: of two names of one
// variable the later line holds, and a switch holds over what it switches.
func (b *builder) contradictions(ctx context.Context) {
	will := b.will(ctx)
	for i := range b.plan.Steps {
		s := &b.plan.Steps[i]
		if !s.stands() {
			continue
		}
		for _, d := range b.Kinds.Decides(s.Setting, s.Want, will) {
			k, ok := b.at[d.Setting]
			if !ok || !b.plan.Steps[k].stands() || b.agrees(d, b.plan.Steps[k].Want) {
				continue
			}
			if t := &b.plan.Steps[k]; d.Stays || t.seq < s.seq {
				b.loses(t, s, d)
			}
		}
	}
}

// agrees reports whether a decided value is the wanted one.
func (b *builder) agrees(d setting.Decided, want setting.Value) bool {
	return !d.Value.Unknown && b.same(d.Setting, want, d.Value)
}

// loses makes a step one that is not written, and says which line holds.
func (b *builder) loses(s, winner *Step, d setting.Decided) {
	why := "the two are one variable, and the later line holds"
	if d.Stays {
		why = fmt.Sprintf("with that %s reads %s", d.Setting.Name, show(d.Value))
	}
	s.Action, s.Verdict = None, plugin.Overridden
	s.Why = fmt.Sprintf("not written: %s sets %s = %s; %s", winner.Reason, winner.Setting.Name, show(winner.Want), why)
	b.problem(profile.Pos{File: s.Reason.File, Line: s.Reason.Line}, "%s = %s has no effect: %s sets %s = %s; %s",
		s.Setting.Name, show(s.Want), winner.Reason, winner.Setting.Name, show(winner.Want), why)
}

// override is the line of an administrator's file that a step goes against: on its own
// setting, on one that decides it, or on one that it decides.
func (b *builder) override(ctx context.Context, s *Step) (Override, bool) {
	will := b.will(ctx)
	if o, ok := b.Overridden(s.Setting); ok && b.against(o, s, will) {
		return o, true
	}
	for _, d := range b.Kinds.Decides(s.Setting, s.Want, will) {
		if o, ok := b.Overridden(d.Setting); ok && o.Setting == d.Setting && !b.agrees(d, o.Value) {
			return o, true
		}
	}
	return Override{}, false
}

// against reports whether a step wants something else than a line of a file brings.
func (b *builder) against(o Override, s *Step, will func(setting.Setting) setting.Value) bool {
	if o.Setting == s.Setting {
		return !b.same(s.Setting, o.Value, s.Want)
	}
	for _, d := range b.Kinds.Decides(o.Setting, o.Value, will) {
		if d.Setting == s.Setting {
			return !b.agrees(d, s.Want)
		}
	}
	return true // the other spelling of a limit
}
