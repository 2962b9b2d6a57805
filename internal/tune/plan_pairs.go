package tune

import (
	"fmt"

	"fettle.dev/fettle/internal/plugin"
	"fettle.dev/fettle/internal/profile"
	"fettle.dev/fettle/internal/setting"
)

// pairs settles which spelling of a limit is in force where the plan names both
// (vm.dirty_bytes and vm.dirty_ratio). A 0 says "not this spelling", whichever line
// is the later one; of two other values the later holds, as the later write would.
// What is not written takes nothing away.
func (b *builder) pairs() {
	for i := range b.plan.Steps {
		s := &b.plan.Steps[i]
		twin, ok := b.Kinds.Twin(s.Setting)
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
}

// settle leaves one of two spellings to be written.
func (b *builder) settle(s, twin *Step) {
	early, late := s, twin
	if early.seq > late.seq {
		early, late = late, early
	}
	switch {
	case setting.Zero(late.Want) && !setting.Zero(early.Want):
		late.follows(early)
	case setting.Zero(early.Want) && !setting.Zero(late.Want):
		early.follows(late)
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
	}
}
