package tune

import (
	"context"
	"fmt"
	"slices"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/setting"
)

// selectionEntry reports whether an entry belongs to a selection of profiles.
func selectionEntry(en *journal.Entry) bool {
	return en.Tx.Kind == journal.Tune || en.Tx.Kind == journal.Boot
}

// released returns a setting's value without the selection in force: the before-image of the
// selection's oldest entry. ok is false if the selection does not set it, or if a later single
// change does.
func (b *builder) released(s setting.Setting) (v setting.Value, ok bool) {
	for _, en := range slices.Backward(b.chains[s]) {
		if !selectionEntry(en) {
			break
		}
		v, ok = en.Before.Before, true
	}
	return v, ok
}

// original returns the value that a setting would have without the selection in force. A plan of
// single changes keeps the selection, so for it original returns the current value.
func (b *builder) original(ctx context.Context, s setting.Setting) (setting.Value, error) {
	id, err := b.Kinds.Resolve(s)
	if err != nil {
		return setting.Value{}, err
	}
	if v, ok := b.released(id); ok && !b.single {
		return v, nil
	}
	return b.Kinds.Read(ctx, id)
}

// releases adds steps for settings of the old selection that the new one does not set, or must not
// set. They get their earlier value, or the value in an administrator's file that was added since.
// A setting with a later single change is not released.
func (b *builder) releases(ctx context.Context) {
	fromFile := map[setting.Setting]bool{} // settings that get the value of a file
	for _, en := range newestFirst(b.chains) {
		i, planned := b.at[en.Setting]
		if fromFile[en.Setting] || planned && b.plan.Steps[i].Override == nil {
			continue
		}
		to, ok := b.released(en.Setting)
		if !ok {
			continue
		}
		st := Step{
			Setting: en.Setting, Want: to, Action: Release, Verdict: plugin.Drifted,
			Why: "no longer set by the selected profiles: restored", Reason: en.Reason, Stage: b.stage,
		}
		b.preferFile(&st)
		if i, there := b.at[st.Setting]; there && b.plan.Steps[i].Override == nil || planned && st.Override == nil {
			continue
		}
		if _, kept := b.Keep.Match(en.Setting, st.Setting); kept || !planned && b.notReleased(en) {
			continue
		}
		if !b.release(ctx, en, &st, planned) {
			continue
		}
		st.Activation, _ = b.Kinds.Activation(ctx, st.Setting)
		if st.Override == nil {
			b.add(st)
			continue
		}
		// The new selection's step stays in the plan: it records why its value is not written.
		fromFile[st.Setting] = true
		b.at[st.Setting] = len(b.plan.Steps)
		b.plan.Steps = append(b.plan.Steps, st)
	}
}

// preferFile changes a released setting's value to the value in an administrator's file, if there
// is one. Without fettle that value would be in force.
func (b *builder) preferFile(st *Step) {
	if b.Overridden == nil {
		return
	}
	o, ok := b.Overridden(st.Setting)
	if !ok {
		return
	}
	id, err := b.Kinds.Resolve(o.Setting)
	if err != nil {
		return
	}
	st.Setting, st.Want, st.Override = id, o.Value, &o
	st.Reason = setting.Reason{File: o.File, Line: o.Line, Text: o.Text}
	st.Why = fmt.Sprintf("no longer set by the active profile; %s sets it now", o)
}

// release reads a setting that is released, and reports whether to write it. en is its newest
// entry. planned is true if the new selection also names the setting.
func (b *builder) release(ctx context.Context, en *journal.Entry, st *Step, planned bool) bool {
	kind, err := b.Kinds.For(st.Setting)
	if err != nil {
		return false
	}
	st.Lifetime = kind.Lifetime()
	st.Before, err = kind.Read(ctx, st.Setting)
	// A setting that followed the load is released even if it has its old value already. Otherwise
	// every recorded value would still count as fettle's.
	if err != nil || b.Kinds.Equal(st.Setting, st.Want, st.Before) && len(en.Varies) == 0 || gone(kind, st.Before, st.Want) || setting.Ended(kind, st.Before) {
		return false
	}
	now := st.Before
	if st.Setting != en.Setting { // the other spelling
		if now, err = kind.Read(ctx, en.Setting); err != nil {
			return false
		}
	}
	if part, k, ok := b.changesPart(ctx, kind, st.Before, st.Want); ok {
		b.problem(posOf(en.Reason), "%s is no longer set by the active profile and stays, because of %s: %s", en.Setting, part.Text, k.why())
		return false
	}
	if !b.left(en, now) {
		if !planned {
			b.problem(posOf(en.Reason), "%s is no longer set by the active profile and stays at %s, because another program changed it (fettle had set %s)",
				en.Setting, show(now), show(*en.After))
		}
		return false
	}
	if why, ok := b.Kinds.WhyIrreversible(st.Setting, st.Before, st.Want); ok && st.Override != nil {
		b.problem(profile.Pos{File: st.Override.File, Line: st.Override.Line}, "%s not written, because undo could not restore it: %s", st.Setting, why)
		return false
	}
	return true
}

// notReleased reports whether a setting is not released because it depends on another: the new
// selection sets its counterpart, or it only changed with a setting that is not released.
func (b *builder) notReleased(top *journal.Entry) bool {
	if twin, ok := b.Kinds.Counterpart(top.Setting); ok {
		if i, ok := b.at[twin]; ok && b.plan.Steps[i].Action != None && b.plan.Steps[i].Action != Release {
			return true
		}
	}
	for _, en := range b.chains[top.Setting] {
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
