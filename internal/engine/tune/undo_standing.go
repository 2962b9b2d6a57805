package tune

import (
	"context"
	"slices"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/setting"
)

// bystander is a place that a transaction which stays has on top, and that the
// writes of an undo below it may change on the way: the kernel sets every
// device's forwarding with ip_forward.
type bystander struct {
	top *journal.Entry
	// ours is true where the place reads as fettle left it.
	ours bool
	// held is true for a value that was set, by a transaction or by somebody
	// else: it is put back, as want. What had itself only been changed on the way
	// stays where the kernel then has it.
	held bool
	want setting.Value
	// owed is what the place is to hold once what buries it now is undone as well:
	// the transactions above have neither set nor changed it. nil where it holds
	// that already.
	owed *setting.Value
}

// bystanders finds them before anything is written: what the write of a place
// that goes back changes as well, what putting that back changes, and what an
// undo that was cut off may have left changed.
func (e *Engine) bystanders(ctx context.Context, s *journal.State, moves []move) []bystander {
	goes := map[*journal.Entry]bool{}
	for _, m := range moves {
		for _, en := range m.entries {
			goes[en] = true
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
	var out []bystander
	look := func(id setting.Setting) {
		chain := chains[id]
		if seen[id] || len(chain) == 0 {
			return
		}
		seen[id] = true
		if b, ok := e.bystander(ctx, chain, goes); ok {
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
		kind, err := e.Kinds.For(writes[i])
		if err != nil {
			continue
		}
		for _, c := range kind.Coupled(writes[i]) {
			if id, err := e.Kinds.Resolve(c); err == nil {
				look(id)
			}
		}
	}
	return out
}

// bystander looks at one place; ok is false where nothing is there that could be
// kept. goes are the entries that are undone.
func (e *Engine) bystander(ctx context.Context, chain []*journal.Entry, goes map[*journal.Entry]bool) (b bystander, ok bool) {
	b.top = chain[len(chain)-1]
	kind, err := e.Kinds.For(b.top.Setting)
	if err != nil {
		return b, false
	}
	found, err := kind.Read(ctx, b.top.Setting)
	if err != nil || found.Absent && b.top.After == nil {
		return b, false
	}
	same := func(x, y setting.Value) bool { return e.same(b.top.Setting, x, y) }
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
		case goes[en]:
		case en.After == nil, len(en.Varies) > 0, en.CoupledTo == 0 && (same(en.Want, *en.After) || !same(en.Orig, *en.After)):
			b.held = true
		case !same(en.Orig, *en.After):
			changed = true // on the way
		}
		if b.held || changed {
			break
		}
		b.owed = &en.Before.Before
		if en.Foreign {
			break
		}
	}
	if b.owed != nil && same(*b.owed, b.want) {
		b.owed = nil
	}
	b.held = b.held && b.owed == nil && !b.want.Absent && !setting.Ended(kind, found)
	return b, true
}

// main is the entry whose write had changed the place of this move on the way;
// nil where it was itself written.
func (m move) main() *journal.Entry {
	if m.coupled == 0 {
		return nil
	}
	tx := m.entries[len(m.entries)-1].Tx
	if m.coupled > len(tx.Entries) {
		return nil
	}
	return tx.Entries[m.coupled-1]
}

// unlock is for places that do not go back because of another one that a
// transaction below has set and that nobody has set or changed since:
// soft_watchdog reads 0 as long as watchdog does. That one goes back first. The
// answer is true where something was written.
//
// That and follow are no one rule of a kind's own, "derived from those": the three
// watchdogs are so in either direction, and which of them gives way is in the journal.
func (e *Engine) unlock(ctx context.Context, standing []bystander, left []Leftover) bool {
	wrote := false
	for _, b := range standing {
		place := b.top.Setting
		if !b.ours || b.held || b.owed == nil || !slices.ContainsFunc(left, func(l Leftover) bool { return e.couple(place, l.Setting) }) {
			continue
		}
		e.at("undo:" + place.String() + ":before")
		_ = e.heard(place, e.Kinds.Write(ctx, place, *b.owed)) // the others tell whether it has helped
		e.at("undo:" + place.String() + ":after")
		wrote = true
	}
	return wrote
}

// couple is true where writing the one place changes the other.
func (e *Engine) couple(place, other setting.Setting) bool {
	kind, err := e.Kinds.For(place)
	return err == nil && slices.ContainsFunc(kind.Coupled(place), func(c setting.Setting) bool {
		id, err := e.Kinds.Resolve(c)
		return err == nil && id == other
	})
}

// follow is for places that had only been changed on the way and that the kernel
// makes of others: watchdog reads 1 while soft_watchdog or nmi_watchdog does. Where
// a transaction below stands and one of those others is not any more as that one
// had found it, what it reads now is what is left there.
func follow(moves []move, left []Leftover) (rest []Leftover, derived []journal.Standing) {
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

// leftStanding is what the places of the transactions that stay read now. One
// that could not be put back is left out: it counts as cut off, and the next undo
// tries again.
func (e *Engine) leftStanding(ctx context.Context, standing []bystander, left []Leftover) []journal.Standing {
	var out []journal.Standing
	for _, b := range standing {
		if !b.ours || b.top.After == nil || slices.ContainsFunc(left, func(l Leftover) bool { return l.Setting == b.top.Setting }) {
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

func holds(standing []bystander, s setting.Setting) bool {
	return slices.ContainsFunc(standing, func(b bystander) bool { return b.held && b.top.Setting == s })
}
