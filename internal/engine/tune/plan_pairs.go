package tune

import (
	"context"
	"fmt"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/setting"
)

// pairs settles which spelling of a limit is in force where the plan names both
// (vm.dirty_bytes and vm.dirty_ratio). A 0 says "not this spelling", whichever line
// is the later one; of two other values the later holds, as the later write would.
// What is not written takes nothing away. A limit of which both spellings would be 0
// gets a warning.
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
			s.Why = fmt.Sprintf("the kernel refuses 0 here; it becomes 0 when %s is set", twin.Name)
		}
	}
	warned := map[setting.Setting]bool{}
	for i := range b.plan.Steps {
		s := &b.plan.Steps[i]
		if twin, ok := b.Kinds.Counterpart(s.Setting); ok && !warned[twin] {
			warned[s.Setting] = b.warnOfNoLimit(ctx, s, twin)
		}
	}
}

// settle leaves one of two spellings to be written.
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
	case zeroEarly: // both: each is written where the kernel takes a 0
		for _, x := range []*Step{early, late} {
			if x.Action == Write && b.Kinds.RefusesZero(x.Setting) {
				x.Action, x.Verdict, x.Why = None, plugin.Rejected, "the kernel refuses 0 here"
			}
		}
	default:
		early.Action, early.Verdict = None, plugin.Overridden
		early.Why = fmt.Sprintf("not written: %s sets %s, and writing that zeroes this", late.Reason, late.Setting.Name)
		b.problem(profile.Pos{File: early.Reason.File, Line: early.Reason.Line}, "%s = %s has no effect: %s sets %s = %s after it, and the two are one limit",
			early.Setting.Name, show(early.Want), late.Reason, late.Setting.Name, show(late.Want))
	}
}

// follows makes a step one that is not written: its 0 comes with the other spelling.
func (s *Step) follows(other *Step) {
	s.Action = None
	if s.Before.Unknown || s.Verdict == plugin.Unknown {
		return
	}
	s.Why = fmt.Sprintf("0 says that %s is the limit (%s)", other.Setting.Name, other.Reason)
	if s.Verdict = plugin.OK; !setting.Zero(s.Before) {
		s.Verdict, s.Why = plugin.Drifted, s.Why+"; it becomes 0 when that is written"
		s.With = &other.Setting
	}
}

// noLimit is what the kernel does while both spellings of a limit are 0: seen on Linux
// 6.18 in nr_dirty_threshold and nr_dirty_background_threshold of /proc/vmstat, in the
// time that writes take (16 MiB in 0.06 s, and 2 MiB in 6 s with both 0), and in
// CommitLimit of /proc/meminfo.
var noLimit = map[string]string{
	"vm.dirty_ratio":            "no page may be dirty: every program that writes is slowed down to the disk at once",
	"vm.dirty_background_ratio": "the kernel starts to write back at the first dirty page",
	"vm.overcommit_ratio":       "with vm.overcommit_memory = 2 only swap may be committed",
}

// warnOfNoLimit says that a 0 leaves a limit without a value: 0 does not mean "none".
func (b *builder) warnOfNoLimit(ctx context.Context, s *Step, twin setting.Setting) bool {
	if s.Action != Write && s.Action != Same || !setting.Zero(s.Want) {
		return false
	}
	now, err := b.Kinds.Read(ctx, twin)
	if err != nil || now.Unknown {
		// A limit that is not 0 has its twin at 0, and the profile may set that.
		i, both := b.at[twin]
		if s.Action != Write || s.Before.Unknown || s.Before.Absent || setting.Zero(s.Before) || both && !setting.Zero(b.plan.Steps[i].Want) {
			return false
		}
	}
	if i, both := b.at[twin]; both && b.plan.Steps[i].Action == Write {
		now = b.plan.Steps[i].Want
	}
	// What is written zeroes the twin; what is there already leaves it as it is.
	if s.Action == Same && !setting.Zero(now) {
		return false
	}
	does := noLimit[s.Setting.Name] + noLimit[twin.Name] // one of them has it
	b.problem(profile.Pos{File: s.Reason.File, Line: s.Reason.Line}, "%s = 0 does not mean \"no limit\": %s is 0 too, and then %s", s.Setting.Name, twin.Name, does)
	return true
}
