package tune

import (
	"context"
	"fmt"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/setting"
)

// releases adds what the old selection set and the new one does not, or may not: it
// goes back to what it was, or to what an administrator's file says that has come since,
// unless a later single change stands above it.
func (b *builder) releases(ctx context.Context) {
	given := map[setting.Setting]bool{} // places that get the value of a file
	for _, en := range newestFirst(b.under.chains) {
		i, planned := b.at[en.Setting]
		if given[en.Setting] || planned && b.plan.Steps[i].Override == nil {
			continue
		}
		to, ok := b.under.released(en.Setting)
		if !ok {
			continue
		}
		st := Step{
			Setting: en.Setting, Want: to, Action: Release, Verdict: plugin.Drifted,
			Why: "no longer set by the selection: goes back", Reason: en.Reason, Stage: b.stage,
		}
		b.fileInstead(&st)
		if i, there := b.at[st.Setting]; there && b.plan.Steps[i].Override == nil || planned && st.Override == nil {
			continue
		}
		if _, kept := b.Keep.Match(en.Setting, st.Setting); kept || !planned && b.notReleased(en) {
			continue
		}
		if !b.letsGo(ctx, en, &st, planned) {
			continue
		}
		st.Activation, _ = b.Kinds.Activation(ctx, st.Setting)
		if st.Override == nil {
			b.add(st)
			continue
		}
		// It stands beside the step of the new selection, which says that its value
		// is not written and why.
		given[st.Setting] = true
		b.at[st.Setting] = len(b.plan.Steps)
		b.plan.Steps = append(b.plan.Steps, st)
	}
}

// fileInstead makes a step that lets go of a place one that gives it what an
// administrator's file says, where there is one: without fettle that would be in force.
func (b *builder) fileInstead(st *Step) {
	if b.Overridden == nil {
		return
	}
	o, ok := b.Overridden(st.Setting)
	if !ok {
		return
	}
	place, err := b.Kinds.Resolve(o.Setting)
	if err != nil {
		return
	}
	st.Setting, st.Want, st.Override = place, o.Value, &o
	st.Reason = setting.Reason{File: o.File, Line: o.Line, Text: o.Text}
	st.Why = fmt.Sprintf("no longer set by the selection: %s says so", o)
}

// letsGo looks at what a place holds that the selection lets go of; false where nothing
// is to be written. en is the newest entry of the old selection there; planned is true
// where the new one names the place as well.
func (b *builder) letsGo(ctx context.Context, en *journal.Entry, st *Step, planned bool) bool {
	kind, err := b.Kinds.For(st.Setting)
	if err != nil {
		return false
	}
	st.Lifetime = kind.Lifetime()
	st.Before, err = kind.Read(ctx, st.Setting)
	// A place that has followed the load is released also where it is back
	// already: from then on it is not fettle's own doing whatever it reads.
	if err != nil || b.same(st.Setting, st.Want, st.Before) && len(en.Varies) == 0 || gone(kind, st.Before, st.Want) || setting.Ended(kind, st.Before) {
		return false
	}
	now := st.Before
	if st.Setting != en.Setting { // its twin
		if now, err = kind.Read(ctx, en.Setting); err != nil {
			return false
		}
	}
	if !b.left(en, now) {
		if !planned {
			b.problem(profile.Pos{File: en.Reason.File, Line: en.Reason.Line},
				"%s is no longer set by the selection and stays at %s: somebody changed it since (fettle had set %s)", en.Setting, show(now), show(*en.After))
		}
		return false
	}
	if why, ok := b.Kinds.WhyIrreversible(st.Setting, st.Before, st.Want); ok && st.Override != nil {
		b.problem(profile.Pos{File: st.Override.File, Line: st.Override.Line}, "%s is not written: cannot be taken back: %s", st.Setting, why)
		return false
	}
	return true
}

// notReleased is true for a place whose value goes with another one: the twin of
// one that the new selection sets, and what a write had only changed on the way
// while the place written itself does not go back.
func (b *builder) notReleased(top *journal.Entry) bool {
	if twin, ok := b.Kinds.Counterpart(top.Setting); ok {
		if i, ok := b.at[twin]; ok && b.plan.Steps[i].Action != None && b.plan.Steps[i].Action != Release {
			return true
		}
	}
	for _, en := range b.under.chains[top.Setting] {
		if selectionEntry(en) && en.CoupledTo == 0 {
			return false
		}
	}
	if top.CoupledTo == 0 || top.CoupledTo > len(top.Tx.Entries) {
		return false
	}
	i, ok := b.at[top.Tx.Entries[top.CoupledTo-1].Setting]
	return !ok || b.plan.Steps[i].Action != Release
}
