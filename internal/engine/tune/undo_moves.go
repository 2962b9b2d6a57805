package tune

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/setting"
)

// move is an undo's decision about one setting.
type move struct {
	setting setting.Setting
	found   setting.Value
	to      setting.Value
	state   journal.EntryState
	why     string
	entries []*journal.Entry // entries that are no longer live after this move
	below   []*journal.Entry // older entries, separated from these by another program's change
	under   *journal.Entry   // the next older live entry, or nil
	coupled int              // number of the entry whose write changed this setting, or 0
	// cutOff is true if it is unknown how far an interrupted or failed transaction or undo got.
	cutOff bool
	// reactivate is true if the interruption was in this boot. The program is then activated
	// again.
	reactivate bool
	// outlived is the value from an earlier boot that may have left effects, or nil.
	outlived *setting.Value
}

// moves decides, before anything is written, about each setting of the given transactions. The
// moves are in the order of writing: the last write is undone first.
func (e *Engine) moves(ctx context.Context, s *journal.State, txs []*journal.Tx) []move {
	ours := map[*journal.Tx]bool{}
	for _, t := range txs {
		ours[t] = true
	}
	chains, boot := s.Chains(), e.bootID()
	var out []move
	for _, top := range newestFirst(chains) {
		chain := chains[top.Setting]
		// The undone entries at the top of the chain decide the value. Those below a later live
		// entry only pass their before-image to it.
		low := len(chain)
		for low > 0 && ours[chain[low-1].Tx] {
			low--
		}
		if low < len(chain) {
			m := e.restoreMove(ctx, chain[low:])
			m.reactivate = m.cutOff && m.inBoot(s, boot)
			if low > 0 {
				m.under = chain[low-1]
			}
			out = append(out, m)
		}
		var buried []*journal.Entry
		for _, en := range chain[:low] {
			if ours[en.Tx] {
				buried = append(buried, en)
			}
		}
		if len(buried) > 0 {
			out = append(out, move{
				setting: top.Setting, state: journal.Relinked, entries: buried, found: top.Want, to: top.Want,
				why: fmt.Sprintf("set later by transaction %d, whose value stays", chain[len(chain)-1].Tx.ID),
			})
		}
	}
	// Entries of an earlier boot have nothing to restore, but the last one may have left effects.
	last := map[setting.Setting]*journal.Entry{}
	for _, t := range s.Txs {
		for _, en := range t.Entries {
			last[en.Setting] = en
		}
	}
	for _, t := range txs {
		for _, en := range t.Entries {
			if en.State != journal.Closed {
				continue
			}
			m := move{setting: en.Setting, state: journal.Closed, to: en.Orig, entries: []*journal.Entry{en}, why: bootEnded}
			if last[en.Setting] == en {
				m.outlived = &en.Want
				if en.After != nil {
					m.outlived = en.After
				}
			}
			out = append(out, m)
		}
	}
	keepTogether(out)
	return out
}

const bootEnded = "lost at reboot"

// cleanAfterReboot lets the kind remove the effects that a setting of an earlier boot has left.
func (e *Engine) cleanAfterReboot(ctx context.Context, m *move) {
	kind, err := e.Kinds.For(m.setting)
	if err != nil {
		return
	}
	k, ok := kind.(setting.RebootCleaner)
	if !ok {
		return
	}
	e.at("undo:" + m.setting.String() + ":before")
	did, err := k.CleanAfterReboot(ctx, m.setting, *m.outlived)
	err = e.warning(m.setting, err)
	e.at("undo:" + m.setting.String() + ":after")
	switch {
	case err != nil:
		m.why = bootEnded + "; cannot remove its remains: " + errno(err)
	case did:
		m.state, m.why = journal.Restored, bootEnded+"; its remains were removed"
	}
}

// restoreMove decides about the entries at the top of one chain, oldest first.
func (e *Engine) restoreMove(ctx context.Context, run []*journal.Entry) move {
	low := len(run) - 1
	for low > 0 && !run[low].Foreign {
		low--
	}
	top := run[len(run)-1]
	m := move{setting: top.Setting, to: run[low].Before.Before, state: journal.Restored, entries: run[low:], below: run[:low], coupled: top.CoupledTo}
	// The entry of an interrupted transaction or failed undo counts as fettle's, whatever its
	// setting reads.
	m.cutOff = top.After == nil || slices.ContainsFunc(run, func(en *journal.Entry) bool { return en.Undoing || en.State == journal.Failed })
	kind, err := e.Kinds.For(top.Setting)
	if err == nil {
		m.found, err = kind.Read(ctx, top.Setting)
	}
	if err != nil {
		return m // tried anyway; the write decides
	}
	if setting.Ended(kind, m.found) && !m.to.Absent {
		m.state, m.why = journal.Closed, EndedItself
		return m
	}
	if gone(kind, m.found, m.to) {
		return m // another write may restore it; otherwise it is closed
	}
	if m.cutOff || e.Kinds.Equal(top.Setting, m.to, m.found) || e.left(top, m.found) {
		return m
	}
	m.state = journal.KeptNow
	m.why = fmt.Sprintf("changed by another program since: fettle had left %s", show(*top.After))
	return m
}

// keepTogether also keeps the settings that the write of a kept setting had changed: they belong
// to its current value.
func keepTogether(moves []move) {
	for i := range moves {
		m := &moves[i]
		main := m.main()
		if main == nil || m.state != journal.Restored {
			continue
		}
		for _, k := range moves {
			if k.setting == main.Setting && k.state == journal.KeptNow {
				m.state = journal.KeptNow
				m.why = fmt.Sprintf("belongs to %s, which another program has changed since", main.Setting)
			}
		}
	}
}

// main returns the entry whose write changed this move's setting as a side effect. It returns nil
// if the setting was written itself.
func (m move) main() *journal.Entry {
	if m.coupled == 0 {
		return nil
	}
	tx := top(m.entries).Tx
	if m.coupled > len(tx.Entries) {
		return nil
	}
	return tx.Entries[m.coupled-1]
}

// result returns the move for the user. If another program had set the setting between two
// transactions, that value is restored; the result is then this value, kept, rather than the one
// before the first transaction.
func (m move) result() UndoneValue {
	v := UndoneValue{Setting: m.setting, Found: m.found, To: m.to, State: m.state, Why: m.why, OtherBoot: strings.HasPrefix(m.why, bootEnded)}
	v.idle = !slices.ContainsFunc(m.entries, (*journal.Entry).Changed)
	v.SideEffect = !slices.ContainsFunc(m.entries, func(e *journal.Entry) bool { return e.CoupledTo == 0 })
	if n := len(m.below); n > 0 && m.state == journal.Restored {
		v.Found, v.To, v.State = m.to, m.below[0].Before.Before, journal.KeptNow
		v.Why = fmt.Sprintf("changed by another program before transaction %d: fettle had left %s", m.entries[0].Tx.ID, show(m.below[n-1].Want))
	}
	return v
}

// newestFirst returns the newest entry of each chain, in reverse order of writing.
func newestFirst(chains map[setting.Setting][]*journal.Entry) []*journal.Entry {
	out := make([]*journal.Entry, 0, len(chains))
	for _, c := range chains {
		out = append(out, c[len(c)-1])
	}
	slices.SortFunc(out, func(a, b *journal.Entry) int { return cmp.Or(b.Tx.ID-a.Tx.ID, b.N-a.N) })
	return out
}
