package tune

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/setting"
)

// add adds a step to the plan. Among steps for one setting the last wins, as its write would.
func (b *builder) add(s Step) {
	b.added++
	s.seq = b.added
	if i, ok := b.at[s.Setting]; ok && s.Verdict != plugin.Deferred {
		old := &b.plan.Steps[i]
		if s.Action == None && old.Action != None {
			if s.Verdict == plugin.Rejected {
				b.problem(posOf(s.Reason), "%s = %s has no effect; %s = %s applies: %s", s.Setting, show(s.Want), old.Reason, show(old.Want), s.Why)
			}
			return // a step without a write replaces none
		}
		if !b.Kinds.Equal(s.Setting, old.Want, s.Want) && old.Action != None {
			b.problem(posOf(old.Reason), "%s = %s is replaced by %s, which sets %s", s.Setting, show(old.Want), s.Reason, show(s.Want))
		}
		*old = s
		return
	}
	b.at[s.Setting] = len(b.plan.Steps)
	b.plan.Steps = append(b.plan.Steps, s)
}

func posOf(r setting.Reason) profile.Pos { return profile.Pos{File: r.File, Line: r.Line} }

// done orders the stages and returns the plan.
func (b *builder) done() *Plan {
	b.orderAfterScheduler()
	b.orderAfterCoupled()
	if slices.ContainsFunc(b.plan.Steps, func(st Step) bool { return st.Setting.Kind == "bootloader" && st.Action == Write }) {
		b.plan.Tested = testedOn(b.Host)
	}
	return b.plan
}

// orderAfterScheduler moves a disk's queue settings into a stage after the I/O scheduler that the
// plan sets. The scheduler brings its own queue depth and attributes.
func (b *builder) orderAfterScheduler() {
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
				st.Action, st.Verdict = Write, plugin.Drifted // the scheduler will change the value
			}
			if st.Action == Write && st.Stage <= sched.Stage {
				st.Stage = sched.Stage + 1
			}
		}
	}
}

// orderAfterCoupled moves a setting into a stage after the settings whose writes also change it.
// The order of a profile's lines then does not matter. Examples: enabling transparent huge pages
// raises vm.min_free_kbytes (mm/khugepaged.c), and net.ipv4.ip_forward turns all redirects off. If
// two settings change each other, the profile's order applies.
func (b *builder) orderAfterCoupled() {
	leads := map[setting.Setting][]setting.Setting{}
	for _, st := range b.plan.Steps {
		if st.Action == Write || st.Action == Same {
			leads[st.Setting] = b.Kinds.Coupled(st.Setting)
		}
	}
	for range 4 { // a moved step may have others after it, which must move too
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

// pairs decides which spelling of a limit is in force if the plan names both (vm.dirty_bytes and
// vm.dirty_ratio). A 0 means "not this spelling" on either line. Of two other values the later
// wins, as its write would. A step without a write does not count. If both spellings are 0, the
// plan gets a warning.
func (b *builder) pairs(ctx context.Context) {
	for i := range b.plan.Steps {
		s := &b.plan.Steps[i]
		twin, ok := b.Kinds.Counterpart(s.Setting)
		if !ok || s.Action == None || s.Action == Release {
			continue
		}
		k, both := b.at[twin]
		switch {
		case both && b.plan.Steps[k].Action != None && b.plan.Steps[k].Action != Release:
			b.settle(s, &b.plan.Steps[k])
		case s.Action == Write && setting.Zero(s.Want) && b.Kinds.RefusesZero(s.Setting):
			s.Action, s.Verdict = None, plugin.Rejected
			s.Why = fmt.Sprintf("the kernel refuses 0 for this setting; setting %s resets it to 0", twin.Name)
		}
	}
	warned := map[setting.Setting]bool{}
	for i := range b.plan.Steps {
		s := &b.plan.Steps[i]
		if twin, ok := b.Kinds.Counterpart(s.Setting); ok && !warned[twin] {
			warned[s.Setting] = b.warnNoLimit(ctx, s, twin)
		}
	}
}

// settle decides which of the two spellings is written.
func (b *builder) settle(s, twin *Step) {
	early, late := s, twin
	if early.seq > late.seq {
		early, late = late, early
	}
	switch zeroEarly, zeroLate := setting.Zero(early.Want), setting.Zero(late.Want); {
	case zeroLate && !zeroEarly:
		late.follows(early)
	case zeroEarly && !zeroLate:
		early.follows(late)
	case zeroEarly: // both are written, if the kernel accepts a 0
		for _, x := range []*Step{early, late} {
			if x.Action == Write && b.Kinds.RefusesZero(x.Setting) {
				x.Action, x.Verdict, x.Why = None, plugin.Rejected, "the kernel refuses 0 for this setting"
			}
		}
	default:
		early.Action, early.Verdict = None, plugin.Overridden
		early.Why = fmt.Sprintf("not written: %s sets %s, which resets this to 0", late.Reason, late.Setting.Name)
		b.problem(posOf(early.Reason), "%s = %s has no effect: %s later sets %s = %s, which is the same limit",
			early.Setting.Name, show(early.Want), late.Reason, late.Setting.Name, show(late.Want))
	}
}

// follows marks a step as not written, because the write of the other spelling sets it to 0.
func (s *Step) follows(other *Step) {
	s.Action = None
	if s.Before.Unknown || s.Verdict == plugin.Unknown {
		return
	}
	s.Why = fmt.Sprintf("0 means that %s is the limit (%s)", other.Setting.Name, other.Reason)
	if s.Verdict = plugin.OK; !setting.Zero(s.Before) {
		s.Verdict, s.Why = plugin.Drifted, s.Why+"; writing that setting resets this one to 0"
		s.With = &other.Setting
	}
}

// noLimit describes the kernel's behavior while both spellings of a limit are 0. Observed on Linux
// 6.18: nr_dirty_threshold and nr_dirty_background_threshold of /proc/vmstat, the time of writes
// (16 MiB in 0.06 s; with both 0, 2 MiB in 6 s), CommitLimit of /proc/meminfo.
var noLimit = map[string]string{
	"vm.dirty_ratio":            "no page may be dirty, so every write runs at the speed of the disk",
	"vm.dirty_background_ratio": "the kernel starts to write back at the first dirty page",
	"vm.overcommit_ratio":       "with vm.overcommit_memory = 2 only swap may be committed",
}

// warnNoLimit warns if a 0 leaves both spellings of a limit 0, because 0 does not mean "no limit".
// It reports whether it warned.
func (b *builder) warnNoLimit(ctx context.Context, s *Step, twin setting.Setting) bool {
	if s.Action != Write && s.Action != Same || !setting.Zero(s.Want) {
		return false
	}
	now, err := b.Kinds.Read(ctx, twin)
	if err != nil || now.Unknown {
		// If this spelling is not 0 now, the other is 0, and the profile may set the other.
		i, both := b.at[twin]
		if s.Action != Write || s.Before.Unknown || s.Before.Absent || setting.Zero(s.Before) || both && !setting.Zero(b.plan.Steps[i].Want) {
			return false
		}
	}
	if i, both := b.at[twin]; both && b.plan.Steps[i].Action == Write {
		now = b.plan.Steps[i].Want
	}
	// Only a write zeroes the other spelling; a value already in place does not.
	if s.Action == Same && !setting.Zero(now) {
		return false
	}
	does := noLimit[s.Setting.Name] + noLimit[twin.Name] // one of the two has a text
	b.problem(posOf(s.Reason), "%s = 0 does not mean \"no limit\"; because %s is 0 too, %s", s.Setting.Name, twin.Name, does)
	return true
}

// stands reports whether the plan sets or keeps the step's value.
func (s *Step) stands() bool { return s.Action == Write || s.Action == Same }

// will returns a function that returns a setting's value after the plan: the planned value, or the
// current one.
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

// contradictions drops steps if other steps decide their values. If two names of one variable are
// set, the later line wins. A switch wins over the settings that it switches.
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

// agrees reports whether a decided value equals the wanted one.
func (b *builder) agrees(d setting.Decided, want setting.Value) bool {
	return !d.Value.Unknown && b.Kinds.Equal(d.Setting, want, d.Value)
}

// loses marks a step as not written, with the line that wins.
func (b *builder) loses(s, winner *Step, d setting.Decided) {
	why := "both names mean the same variable; the later line applies"
	if d.Stays {
		why = fmt.Sprintf("%s then reads %s", d.Setting.Name, show(d.Value))
	}
	s.Action, s.Verdict = None, plugin.Overridden
	s.Why = fmt.Sprintf("not written: %s sets %s = %s; %s", winner.Reason, winner.Setting.Name, show(winner.Want), why)
	b.problem(posOf(s.Reason), "%s = %s has no effect: %s sets %s = %s; %s",
		s.Setting.Name, show(s.Want), winner.Reason, winner.Setting.Name, show(winner.Want), why)
}

// override returns the line of an administrator's file that contradicts a step. The line may set
// the step's setting, a setting that decides the value of that setting, or the reverse.
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

// against reports whether a step wants a value that differs from the one set by a line of a file.
func (b *builder) against(o Override, s *Step, will func(setting.Setting) setting.Value) bool {
	if o.Setting == s.Setting {
		return !b.Kinds.Equal(s.Setting, o.Value, s.Want)
	}
	for _, d := range b.Kinds.Decides(o.Setting, o.Value, will) {
		if d.Setting == s.Setting {
			return !b.agrees(d, s.Want)
		}
	}
	return true // it sets the other spelling of a limit
}
