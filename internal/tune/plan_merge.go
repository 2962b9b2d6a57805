package tune

import (
	"context"
	"fmt"
	"strings"

	"fettle.dev/fettle/internal/journal"
	"fettle.dev/fettle/internal/plugin"
	"fettle.dev/fettle/internal/profile"
	"fettle.dev/fettle/internal/setting"
)

// add puts a step into the plan. Of two steps for one place the later one
// holds, as the later write would.
func (b *builder) add(s Step) {
	if i, ok := b.at[s.Setting]; ok && s.Verdict != plugin.Deferred {
		old := &b.plan.Steps[i]
		if s.Action == None && old.Action != None {
			return // what cannot be written takes nothing away
		}
		if !b.Kinds.Equal(s.Setting, old.Want, s.Want) && old.Action != None {
			b.problem(profile.Pos{File: old.Reason.File, Line: old.Reason.Line},
				"%s = %s is replaced by %s, which sets %s", s.Setting, show(old.Want), s.Reason, show(s.Want))
		}
		*old = s
		return
	}
	if s.Action != Release {
		b.displace(s)
	}
	b.at[s.Setting] = len(b.plan.Steps)
	b.plan.Steps = append(b.plan.Steps, s)
}

// displace takes an earlier step out of the plan whose value this one's write
// would undo: of dirty_bytes and dirty_ratio the later holds.
func (b *builder) displace(s Step) {
	twin, ok := b.Kinds.Twin(s.Setting)
	if !ok || s.Action == None {
		return
	}
	if i, ok := b.at[twin]; ok && b.plan.Steps[i].Action != None {
		old := &b.plan.Steps[i]
		old.Action, old.Verdict = None, plugin.Overridden
		old.Why = fmt.Sprintf("not written: %s sets %s, and writing that zeroes this", s.Reason, s.Setting.Name)
	}
}

// releases adds what the old selection set and the new one does not: it goes
// back to what it was, unless a later single change stands above it.
func (b *builder) releases(ctx context.Context) {
	for _, en := range newestFirst(b.under.chains) {
		if _, wanted := b.at[en.Setting]; wanted {
			continue
		}
		to, ok := b.under.released(en.Setting)
		if !ok {
			continue
		}
		if _, kept := b.Keep.Match(en.Setting); kept || b.notReleased(en) {
			continue
		}
		kind, err := b.Kinds.For(en.Setting)
		if err != nil {
			continue
		}
		now, err := kind.Read(ctx, en.Setting)
		// A place that has followed the load is released also where it is back
		// already: from then on it is not fettle's own doing whatever it reads.
		if err != nil || equal(kind, now, to) && len(en.Varies) == 0 || gone(kind, now, to) || setting.Ended(kind, now) {
			continue
		}
		if !en.LeftBy(now, func(a, b setting.Value) bool { return equal(kind, a, b) }) {
			b.problem(profile.Pos{File: en.Reason.File, Line: en.Reason.Line},
				"%s is no longer set by the selection and stays at %s: somebody changed it since (fettle had set %s)", en.Setting, show(now), show(*en.After))
			continue
		}
		activation, _ := b.Kinds.Activation(ctx, en.Setting)
		b.add(Step{
			Setting: en.Setting, Before: now, Want: to, Action: Release, Activation: activation, Verdict: plugin.Drifted,
			Why: "no longer set by the selection: goes back", Reason: en.Reason, Lifetime: kind.Lifetime(), Stage: b.stage,
		})
	}
}

// notReleased is true for a place whose value goes with another one: the twin of
// one that the new selection sets, and what a write had only changed on the way
// while the place written itself does not go back.
func (b *builder) notReleased(top *journal.Entry) bool {
	if twin, ok := b.Kinds.Twin(top.Setting); ok {
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

func (b *builder) done() *Plan {
	b.behindScheduler()
	return b.plan
}

// behindScheduler puts the queue values of a disk behind the I/O scheduler that
// the same plan sets, in a stage of their own: the scheduler comes with its own
// depth and attributes, which exist only then.
func (b *builder) behindScheduler() {
	for i := range b.plan.Steps {
		sched := b.plan.Steps[i]
		queue, ok := strings.CutSuffix(sched.Setting.Name, "/queue/scheduler")
		if sched.Setting.Kind != "sysfs" || !ok || sched.Action != Write {
			continue
		}
		for k := range b.plan.Steps {
			st := &b.plan.Steps[k]
			rest, ok := strings.CutPrefix(st.Setting.Name, queue+"/queue/")
			if st.Setting.Kind != "sysfs" || !ok || k == i {
				continue
			}
			attribute := strings.HasPrefix(rest, "iosched/")
			if !attribute && rest != "nr_requests" && rest != "async_depth" && rest != "wbt_lat_usec" {
				continue
			}
			if attribute && st.Action == None && st.Verdict == plugin.Unsupported && st.Before.Absent {
				st.Action, st.Verdict, st.Why = Write, plugin.Drifted, "comes with the scheduler "+sched.Want.Text
			}
			if st.Action == Same {
				st.Action, st.Verdict = Write, plugin.Drifted // the scheduler will change it
			}
			if st.Action == Write && st.Stage <= sched.Stage {
				st.Stage = sched.Stage + 1
			}
		}
	}
}
