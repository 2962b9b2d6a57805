package tune

import (
	"slices"
	"strings"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/setting"
)

// add puts a step into the plan. Of two steps for one place the later one
// holds, as the later write would.
func (b *builder) add(s Step) {
	b.added++
	s.seq = b.added
	if i, ok := b.at[s.Setting]; ok && s.Verdict != plugin.Deferred {
		old := &b.plan.Steps[i]
		if s.Action == None && old.Action != None {
			if s.Verdict == plugin.Rejected {
				b.problem(profile.Pos{File: s.Reason.File, Line: s.Reason.Line}, "%s = %s has no effect, and %s = %s stands: %s", s.Setting, show(s.Want), old.Reason, show(old.Want), s.Why)
			}
			return // what cannot be written takes nothing away
		}
		if !b.Kinds.Equal(s.Setting, old.Want, s.Want) && old.Action != None {
			b.problem(profile.Pos{File: old.Reason.File, Line: old.Reason.Line},
				"%s = %s is replaced by %s, which sets %s", s.Setting, show(old.Want), s.Reason, show(s.Want))
		}
		*old = s
		return
	}
	b.at[s.Setting] = len(b.plan.Steps)
	b.plan.Steps = append(b.plan.Steps, s)
}

func (b *builder) done() *Plan {
	b.behindScheduler()
	b.behindLeaders()
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

// behindLeaders puts a value behind those whose writes change it as well, in a later
// stage, so that the order of a profile's lines does not decide: switching
// transparent huge pages on raises vm.min_free_kbytes (mm/khugepaged.c), and
// net.ipv4.ip_forward turns the redirects of all off. Where each of two changes the
// other, the profile's order holds.
func (b *builder) behindLeaders() {
	leads := map[setting.Setting][]setting.Setting{}
	for _, st := range b.plan.Steps {
		if st.Action == Write || st.Action == Same {
			leads[st.Setting] = b.coupled(st.Setting)
		}
	}
	for range 4 { // a leader may itself move behind another one
		for _, lead := range b.plan.Steps {
			if lead.Action != Write {
				continue
			}
			for _, s := range leads[lead.Setting] {
				i, ok := b.at[s]
				if !ok || slices.Contains(leads[s], lead.Setting) {
					continue
				}
				if f := &b.plan.Steps[i]; (f.Action == Write || f.Action == Same) && f.Stage <= lead.Stage {
					f.Stage = lead.Stage + 1
				}
			}
		}
	}
}

// coupled are the identities of what a write to a setting changes as well.
func (b *builder) coupled(s setting.Setting) []setting.Setting {
	kind, err := b.Kinds.For(s)
	if err != nil {
		return nil
	}
	var out []setting.Setting
	for _, c := range kind.Coupled(s) {
		if id, err := b.Kinds.Resolve(c); err == nil && id != s {
			out = append(out, id)
		}
	}
	return out
}
