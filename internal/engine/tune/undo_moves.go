package tune

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/setting"
)

// move is what an undo does with one place.
type move struct {
	setting setting.Setting
	found   setting.Value
	to      setting.Value
	state   journal.EntryState
	why     string
	entries []*journal.Entry // that this move settles
	below   []*journal.Entry // older ones, cut off from these by somebody's change
	under   *journal.Entry   // what stands below them; nil where this leads to the original
	coupled int              // entry of the same transaction that it belongs to
	// cutOff is true where a crash or a failure left it open how far an earlier
	// doing had come.
	cutOff bool
	// retell is true where that was in this boot: the program that was told, or
	// was to be, is told again.
	retell bool
	// outlived is what a place held in an earlier boot that may have left
	// something behind; nil for none.
	outlived *setting.Value
}

// moves decides, before anything is written, what happens to each place of the
// given transactions, in the order in which it is to be written: the last
// write goes back first.
func (e *Engine) moves(ctx context.Context, s *journal.State, txs []*journal.Tx) []move {
	ours := map[*journal.Tx]bool{}
	for _, t := range txs {
		ours[t] = true
	}
	chains, boot := s.Chains(), e.bootID()
	var out []move
	for _, top := range newestFirst(chains) {
		chain := chains[top.Setting]
		// The run of entries to undo at the top of the chain decides the value;
		// those buried below a later one only hand their before-image up.
		low := len(chain)
		for low > 0 && ours[chain[low-1].Tx] {
			low--
		}
		if low < len(chain) {
			m := e.restoreMove(ctx, chain[low:])
			m.retell = m.cutOff && m.inBoot(s, boot)
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
				why: fmt.Sprintf("transaction %d set it later: its value stays", chain[len(chain)-1].Tx.ID),
			})
		}
	}
	// Entries of an earlier boot have nothing left to give back, but for what
	// the last of them may have left behind.
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

const bootEnded = "the boot it was set in has ended"

// takeBackAfterBoot lets a kind take back what is left of an earlier boot.
func (e *Engine) takeBackAfterBoot(ctx context.Context, m *move) {
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
	err = e.heard(m.setting, err)
	e.at("undo:" + m.setting.String() + ":after")
	switch {
	case err != nil:
		m.why = bootEnded + "; what it left: " + errno(err)
	case did:
		m.state, m.why = journal.Restored, bootEnded+"; what it left was taken back"
	}
}

// restoreMove decides about the entries at the top of one chain, lowest first.
func (e *Engine) restoreMove(ctx context.Context, run []*journal.Entry) move {
	low := len(run) - 1
	for low > 0 && !run[low].Foreign {
		low--
	}
	top := run[len(run)-1]
	m := move{setting: top.Setting, to: run[low].Before.Before, state: journal.Restored, entries: run[low:], below: run[:low], coupled: top.CoupledTo}
	// An entry cut off by a crash, or left by an undo that failed, is ours
	// whatever it reads.
	m.cutOff = top.After == nil || slices.ContainsFunc(run, func(en *journal.Entry) bool { return en.Undoing || en.State == journal.Failed })
	kind, err := e.Kinds.For(top.Setting)
	if err == nil {
		m.found, err = kind.Read(ctx, top.Setting)
	}
	if err != nil {
		return m // tried all the same: the write will tell
	}
	if setting.Ended(kind, m.found) && !m.to.Absent {
		m.state, m.why = journal.Closed, EndedItself
		return m
	}
	if gone(kind, m.found, m.to) {
		return m // perhaps another place brings it back; otherwise it is closed
	}
	if m.cutOff || e.same(top.Setting, m.to, m.found) || e.left(top, m.found) {
		return m
	}
	m.state = journal.KeptNow
	m.why = fmt.Sprintf("somebody has changed it since: fettle had left %s", show(*top.After))
	return m
}

// keepTogether keeps the places that a kept one's write had changed: they
// belong to what is there now.
func keepTogether(moves []move) {
	for i := range moves {
		m := &moves[i]
		if m.coupled == 0 || m.state != journal.Restored {
			continue
		}
		tx := m.entries[len(m.entries)-1].Tx
		if m.coupled > len(tx.Entries) {
			continue
		}
		main := tx.Entries[m.coupled-1].Setting
		for _, k := range moves {
			if k.setting == main && k.state == journal.KeptNow {
				m.state = journal.KeptNow
				m.why = fmt.Sprintf("belongs to %s, which somebody has changed since", main)
			}
		}
	}
}

// told is what a person learns of a move. Where what went back is somebody's
// value, set between two transactions, that is the value that stays, instead of
// what the first of them had found.
func (m move) told() UndoneValue {
	v := UndoneValue{Setting: m.setting, Found: m.found, To: m.to, State: m.state, Why: m.why, OtherBoot: strings.HasPrefix(m.why, bootEnded)}
	if n := len(m.below); n > 0 && m.state == journal.Restored {
		v.Found, v.To, v.State = m.to, m.below[0].Before.Before, journal.KeptNow
		v.Why = fmt.Sprintf("somebody had changed it before transaction %d: fettle had left %s", m.entries[0].Tx.ID, show(m.below[n-1].Want))
	}
	return v
}

// newestFirst orders the chains by their newest entry, last written first.
func newestFirst(chains map[setting.Setting][]*journal.Entry) []*journal.Entry {
	out := make([]*journal.Entry, 0, len(chains))
	for _, c := range chains {
		out = append(out, c[len(c)-1])
	}
	slices.SortFunc(out, func(a, b *journal.Entry) int {
		if a.Tx.ID != b.Tx.ID {
			return b.Tx.ID - a.Tx.ID
		}
		return b.N - a.N
	})
	return out
}
