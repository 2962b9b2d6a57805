package journal

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"fettle.dev/fettle/internal/setting"
)

// State is the state that a journal's records result in.
type State struct {
	Txs []*Tx // in the order of their start
	// Generation counts the records, so every event changes it.
	Generation int64
	// Damage lists unreadable records, except an incomplete last one.
	Damage []string
	// Torn is true if the last record is incomplete. After a crash during its write, no change
	// followed it. A truncated file looks the same, but then the records after it are lost.
	Torn bool

	nextID int
	size   int64 // offset of the end of the last complete record
	base   int64 // size in bytes of the first record, which has the earlier live transactions
}

// Tx is one transaction.
type Tx struct {
	Begin
	Entries   []*Entry
	Commit    *Commit // nil: interrupted, or in progress
	Confirmed bool
	// ConfirmedBy records who confirmed a trial; nil if not confirmed, and in older records.
	ConfirmedBy *Confirm
	// Superseded is the later transaction whose undo also undoes this one, or 0.
	Superseded int

	undoneBy int  // number of its undo, or 0
	resolved bool // interrupted, and undone or superseded since
}

// Entry is one before-image with its current state.
type Entry struct {
	Tx *Tx
	Before
	// Orig is the before-image as recorded. Before.Before changes when an earlier entry of the
	// same setting is undone.
	Orig  setting.Value
	After *setting.Value // nil until committed
	// Verdict and Why are set if the value is not as wanted.
	Verdict, Why string
	State        EntryState
	// Undoing is true once an undo of the entry has begun: the value then counts as fettle's.
	Undoing bool
}

// Ref returns the reference to the entry.
func (e *Entry) Ref() Ref { return Ref{e.Tx.ID, e.N} }

// Changed reports whether the entry's transaction wrote the value, or may have written it before an
// interruption. It is false for a value that was already as wanted, and for a side effect.
func (e *Entry) Changed() bool {
	return e.CoupledTo == 0 && !e.Tx.RolledBack() && (e.After == nil || e.After.String() != e.Orig.String())
}

// LeftBy reports whether now is the value that this entry's transaction left. For an interrupted
// entry that is any value.
func (e *Entry) LeftBy(now setting.Value, equal func(a, b setting.Value) bool) bool {
	return e.After == nil || equal(now, *e.After) || slices.ContainsFunc(e.Varies, func(v setting.Value) bool { return equal(now, v) })
}

// IsLive reports whether the entry's value still has to be restored.
func (e *Entry) IsLive() bool { return e.State == Live || e.State == Failed }

// IsLive reports whether the transaction has not been undone: a value still has to be restored,
// or its selection is still recorded.
func (t *Tx) IsLive() bool {
	return slices.ContainsFunc(t.Entries, (*Entry).IsLive) ||
		t.Kind != Undo && !t.RolledBack() && t.undoneBy == 0 && t.Superseded == 0
}

// UndoneBy returns the number of the undo of this transaction, or 0.
func (t *Tx) UndoneBy() int { return t.undoneBy }

// RolledBack reports whether the transaction reverted its own writes.
func (t *Tx) RolledBack() bool { return t.Commit != nil && t.Commit.Result == ResultRolledBack }

// The results of a transaction.
const (
	ResultDone       = "done"
	ResultPartial    = "partial"
	ResultRolledBack = "rolled-back"
	ResultIncomplete = "incomplete"
)

// Interrupted lists the interrupted transactions, oldest first.
func (s *State) Interrupted() []*Tx {
	return s.all(func(t *Tx) bool { return t.Commit == nil && !t.resolved })
}

// Live lists the transactions that have not been undone, oldest first.
func (s *State) Live() []*Tx { return s.all((*Tx).IsLive) }

func (s *State) all(ok func(*Tx) bool) []*Tx {
	var out []*Tx
	for _, t := range s.Txs {
		if ok(t) {
			out = append(out, t)
		}
	}
	return out
}

// Tx returns the transaction with that number, or nil.
func (s *State) Tx(id int) *Tx {
	i, ok := slices.BinarySearchFunc(s.Txs, id, func(t *Tx, id int) int { return t.ID - id })
	if !ok {
		return nil
	}
	return s.Txs[i]
}

// Ended reports whether a transaction is no longer live and its records are in a rotated file.
func (s *State) Ended(id int) bool { return id > 0 && id < s.nextID && s.Tx(id) == nil }

// InForce returns the transaction whose selection is in force, or would be if the transactions in
// without were undone. It returns nil if none is.
func (s *State) InForce(without ...*Tx) *Tx {
	for _, t := range slices.Backward(s.Txs) {
		if !slices.Contains(without, t) && t.Selection != nil && t.Commit != nil && t.Superseded == 0 && t.undoneBy == 0 && !t.RolledBack() {
			return t
		}
	}
	return nil
}

// Chains groups the live entries by setting, oldest first. The first before-image of a chain is
// the value before fettle's first transaction; the last entry has fettle's current value.
func (s *State) Chains() map[setting.Setting][]*Entry {
	out := map[setting.Setting][]*Entry{}
	for _, t := range s.Txs {
		for _, e := range t.Entries {
			if e.IsLive() {
				out[e.Setting] = append(out[e.Setting], e)
			}
		}
	}
	return out
}

// fold applies one record to the state.
func (s *State) fold(r record, bootID string) error {
	switch {
	case r.Start != nil:
		return s.foldStart(*r.Start, bootID)
	case r.Begin != nil:
		return s.foldBegin(*r.Begin)
	case r.Stage != nil:
		t := s.Tx(r.Stage.ID)
		if t == nil {
			return fmt.Errorf("transaction %d has old values but no begin record", r.Stage.ID)
		}
		if t.Kind == Undo {
			return fmt.Errorf("transaction %d is an undo, but has a record of old values", t.ID)
		}
		for _, b := range r.Stage.Entries {
			e := &Entry{Tx: t, Before: b, Orig: b.Before, State: Live}
			if b.N != len(t.Entries)+1 {
				return fmt.Errorf("entry %d of transaction %d found, expected entry %d", b.N, t.ID, len(t.Entries)+1)
			}
			s.closeAtBoot(e, bootID)
			t.Entries = append(t.Entries, e)
		}
	case r.Commit != nil:
		return s.foldCommit(r.Commit)
	case r.Confirm != nil:
		t := s.Tx(r.Confirm.ID)
		if t == nil {
			return fmt.Errorf("transaction %d is confirmed, but has no begin record", r.Confirm.ID)
		}
		t.Confirmed, t.ConfirmedBy = true, r.Confirm
	}
	return nil
}

func (s *State) foldBegin(b Begin) error {
	if n := len(s.Txs); n > 0 && s.Txs[n-1].ID >= b.ID {
		return fmt.Errorf("transaction %d follows transaction %d", b.ID, s.Txs[n-1].ID)
	}
	t := &Tx{Begin: b}
	for _, ref := range b.Restore {
		e := s.entry(ref)
		if e == nil {
			return fmt.Errorf("transaction %d undoes entry %d of transaction %d, but there is no such entry", b.ID, ref.N, ref.Tx)
		}
		e.Undoing = true
	}
	s.Txs = append(s.Txs, t)
	s.nextID = b.ID + 1
	return nil
}

func (s *State) foldCommit(c *Commit) error {
	t := s.Tx(c.ID)
	if t == nil {
		return fmt.Errorf("transaction %d has an end, but no begin record", c.ID)
	}
	t.Commit = c
	for _, o := range c.Outcomes {
		if o.N < 1 || o.N > len(t.Entries) {
			return fmt.Errorf("outcome recorded for entry %d of transaction %d, but there is no such entry", o.N, c.ID)
		}
		e := t.Entries[o.N-1]
		after := o.After
		e.After, e.Verdict, e.Why = &after, o.Verdict, o.Why
	}
	for _, id := range t.Supersedes {
		if old := s.Tx(id); old != nil {
			old.Superseded = t.ID
			old.resolved = true
		}
	}
	for _, u := range c.Undone {
		e := s.entry(u.Ref)
		if e == nil {
			return fmt.Errorf("transaction %d has undone entry %d of transaction %d, but there is no such entry", c.ID, u.N, u.Tx)
		}
		if !u.State.known() {
			return fmt.Errorf("transaction %d left entry %d of %d %q: %w", c.ID, u.N, u.Tx, u.State, errNewer)
		}
		s.settle(e, u.State)
		if u.State != Failed {
			e.Tx.undoneBy = c.ID
		}
	}
	for _, u := range c.Standing {
		e := s.entry(u.Ref)
		if e == nil {
			return fmt.Errorf("transaction %d kept entry %d of transaction %d, but there is no such entry", c.ID, u.N, u.Tx)
		}
		after := u.After
		e.After, e.Undoing = &after, false
	}
	if t.Kind == Undo {
		for _, id := range t.Undoes {
			if target := s.Tx(id); target != nil {
				target.resolved = true
				target.undoneBy = c.ID
				if slices.ContainsFunc(c.Undone, func(u Undone) bool { return u.Tx == id && u.State == Failed }) {
					target.undoneBy = 0
				}
			}
		}
		t.resolved = true
	}
	if c.Result == ResultRolledBack {
		for _, e := range t.Entries {
			if e.IsLive() {
				s.settle(e, Restored)
			}
		}
	}
	return nil
}

// settle ends an entry. The next live entry of the same setting inherits the before-image, so the
// rest can be undone in any order. If another program changed the setting between the two, the
// later entry keeps its own before-image and restores that change. An entry that could not be
// restored stays live until its boot ends.
func (s *State) settle(e *Entry, state EntryState) {
	e.Undoing = false
	if state == Failed {
		if e.IsLive() {
			e.State = Failed
		}
		return
	}
	if next := s.above(e); next != nil && !next.Foreign {
		next.Before.Before = e.Before.Before
	}
	e.State = state
}

// above returns the next later live entry of the same setting, or nil.
func (s *State) above(e *Entry) *Entry {
	i, _ := slices.BinarySearchFunc(s.Txs, e.Tx.ID, func(t *Tx, id int) int { return t.ID - id })
	for _, t := range s.Txs[i:] {
		for _, f := range t.Entries {
			if f.Setting == e.Setting && f.IsLive() && (t != e.Tx || f.N > e.N) {
				return f
			}
		}
	}
	return nil
}

func (s *State) entry(r Ref) *Entry {
	t := s.Tx(r.Tx)
	if t == nil || r.N < 1 || r.N > len(t.Entries) {
		return nil
	}
	return t.Entries[r.N-1]
}

// parse folds the whole text of a journal. It ignores an incomplete last record, which was never
// acknowledged. It lists a damaged complete line in Damage and skips it.
func parse(text []byte, bootID string) (*State, error) {
	s := &State{nextID: 1}
	for off := 0; off < len(text); {
		end := bytes.IndexByte(text[off:], '\n')
		if end < 0 {
			s.Torn = !zeroed(text[off:])
			break
		}
		r, err := decode(text[off : off+end])
		if err == nil {
			if off == 0 && r.Start != nil {
				s.Generation, s.base = r.Seq, int64(end+1)
			}
			if r.Seq != s.Generation && len(s.Damage) == 0 {
				s.Damage = append(s.Damage, fmt.Sprintf("byte %d: record %d found, expected %d", off, r.Seq, s.Generation))
			}
			if err := s.fold(r, bootID); err != nil {
				if len(s.Damage) == 0 {
					return nil, fmt.Errorf("byte %d: %w", off, err)
				}
				s.Damage = append(s.Damage, fmt.Sprintf("byte %d: %v", off, err))
			}
			s.Generation = r.Seq + 1
		} else if errors.Is(err, errNewer) {
			return nil, fmt.Errorf("byte %d: %w", off, err)
		} else if line := text[off : off+end]; bytes.IndexByte(line, 0) >= 0 && zeroed(text[off+end+1:]) {
			break // incomplete too: written over zeros, and only some blocks reached the disk
		} else {
			s.Damage = append(s.Damage, fmt.Sprintf("byte %d: %v%s", off, err, legible(line)))
			s.Generation++
		}
		s.size = int64(off + end + 1)
		off += end + 1
	}
	return s, nil
}
