package tune

import (
	"fmt"
	"strings"

	"fettle.dev/fettle/internal/plugin"
	"fettle.dev/fettle/internal/profile"
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
