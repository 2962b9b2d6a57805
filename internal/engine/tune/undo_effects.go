package tune

import (
	"context"
	"slices"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/setting"
)

// sideEffect is a setting that an undo's writes may change although its newest transaction is not
// undone. For example the kernel sets every device's forwarding with ip_forward.
type sideEffect struct {
	top *journal.Entry
	// ours is true if the setting has the value left by fettle.
	ours bool
	// held is true if a transaction or another program set the value. The undo restores such a
	// value to want, while it leaves a value that was itself a side effect to the kernel.
	held bool
	want setting.Value
	// pending is the value that the setting gets once the later transactions are undone too; they
	// have neither set nor changed it. It is nil if the setting has that value already.
	pending *setting.Value
}

// sideEffects returns the settings that change as a side effect of the undo, directly or through
// each other, and those that an interrupted undo may have changed. It is called before anything is
// written.
func (e *Engine) sideEffects(ctx context.Context, s *journal.State, moves []move) []sideEffect {
	undone := map[*journal.Entry]bool{}
	for _, m := range moves {
		for _, en := range m.entries {
			undone[en] = true
		}
	}
	chains := s.Chains()
	seen := map[setting.Setting]bool{}
	var writes []setting.Setting
	for _, m := range moves {
		if m.state == journal.Relinked {
			continue
		}
		seen[m.setting] = true
		if to, err := e.Kinds.Read(ctx, m.setting); m.state == journal.Restored && (err != nil || !e.Kinds.Equal(m.setting, to, m.to)) {
			writes = append(writes, m.setting)
		}
	}
	var out []sideEffect
	look := func(id setting.Setting) {
		chain := chains[id]
		if seen[id] || len(chain) == 0 {
			return
		}
		seen[id] = true
		if b, ok := e.sideEffect(ctx, chain, undone); ok {
			out = append(out, b)
			writes = append(writes, id)
		}
	}
	for _, top := range newestFirst(chains) {
		if top.Undoing {
			look(top.Setting)
		}
	}
	for _, m := range moves {
		if main := m.main(); main != nil && m.state == journal.Restored {
			look(main.Setting) // see unlock
		}
		for _, en := range m.entries {
			if m.state != journal.Restored {
				continue
			}
			for _, c := range en.Tx.Entries {
				if c.CoupledTo == en.N {
					look(c.Setting)
				}
			}
		}
	}
	for i := 0; i < len(writes); i++ {
		for _, id := range e.Kinds.Coupled(writes[i]) {
			look(id)
		}
	}
	return out
}

// sideEffect decides about one setting. undone are the entries being undone. ok is false if the
// setting has no value to keep.
func (e *Engine) sideEffect(ctx context.Context, chain []*journal.Entry, undone map[*journal.Entry]bool) (b sideEffect, ok bool) {
	b.top = top(chain)
	kind, err := e.Kinds.For(b.top.Setting)
	if err != nil {
		return b, false
	}
	found, err := kind.Read(ctx, b.top.Setting)
	if err != nil || found.Absent && b.top.After == nil {
		return b, false
	}
	same := func(x, y setting.Value) bool { return e.Kinds.Equal(b.top.Setting, x, y) }
	b.want = found
	b.ours = b.top.LeftBy(found, same)
	if !b.ours && b.top.Undoing {
		b.ours, b.want = true, *b.top.After
	}
	if !b.ours {
		b.held = !found.Absent
		return b, true
	}
	changed := false
	for _, en := range slices.Backward(chain) {
		switch {
		case undone[en]:
		case en.After == nil, len(en.Varies) > 0, en.CoupledTo == 0 && (same(en.Want, *en.After) || !same(en.Orig, *en.After)):
			b.held = true
		case !same(en.Orig, *en.After):
			changed = true // changed as a side effect
		}
		if b.held || changed {
			break
		}
		b.pending = &en.Before.Before
		if en.Foreign {
			break
		}
	}
	if b.pending != nil && same(*b.pending, b.want) {
		b.pending = nil
	}
	b.held = b.held && b.pending == nil && !b.want.Absent && !setting.Ended(kind, found)
	return b, true
}

// unlock writes the pending values of settings that prevent others from being restored. It reports
// whether there are any. For example soft_watchdog reads 0 while watchdog does, which an earlier
// transaction set and no later one set or changed.
//
// A property of the kind, "derived from these", cannot replace unlock and acceptDerived: the three
// watchdogs depend on each other in both directions, and only the journal shows which one yields.
func (e *Engine) unlock(ctx context.Context, effects []sideEffect, left []Leftover) bool {
	wrote := false
	for _, b := range effects {
		id := b.top.Setting
		if !b.ours || b.held || b.pending == nil || !slices.ContainsFunc(e.Kinds.Coupled(id), func(c setting.Setting) bool { return isLeft(left, c) }) {
			continue
		}
		e.at("undo:" + id.String() + ":before")
		_ = e.warning(id, e.Kinds.Write(ctx, id, *b.pending)) // the other restores show whether it helped
		e.at("undo:" + id.String() + ":after")
		wrote = true
	}
	return wrote
}

// acceptDerived accepts the current value of a setting that changed only as a side effect, if the
// kernel derives it from other settings: watchdog reads 1 while soft_watchdog or nmi_watchdog reads
// 1. If an earlier transaction is live and one of the other settings has changed since, the current
// value becomes that transaction's.
func acceptDerived(moves []move, left []Leftover) (rest []Leftover, derived []journal.Standing) {
	for _, l := range left {
		i := slices.IndexFunc(moves, func(m move) bool { return m.setting == l.Setting && m.state == journal.Restored })
		if i < 0 || l.keeps == nil || moves[i].under == nil || moves[i].under.CoupledTo == 0 ||
			slices.ContainsFunc(moves[i].entries, func(en *journal.Entry) bool { return en.CoupledTo == 0 }) {
			rest = append(rest, l)
			continue
		}
		derived = append(derived, journal.Standing{Ref: moves[i].under.Ref(), After: *l.keeps})
	}
	return rest, derived
}

// readStanding returns the current values of the side effects. It omits those that could not be
// restored: they count as interrupted, and the next undo tries again.
func (e *Engine) readStanding(ctx context.Context, effects []sideEffect, left []Leftover) []journal.Standing {
	var out []journal.Standing
	for _, b := range effects {
		if !b.ours || b.top.After == nil || isLeft(left, b.top.Setting) {
			continue
		}
		after := *b.top.After
		if now, err := e.Kinds.Read(ctx, b.top.Setting); err == nil && !now.Absent && len(b.top.Varies) == 0 {
			after = now
		}
		out = append(out, journal.Standing{Ref: b.top.Ref(), After: after})
	}
	return out
}
