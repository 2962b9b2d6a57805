package journal

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"fettle.dev/fettle/internal/setting"
)

// State is what the records of a journal amount to.
type State struct {
	Txs []*Tx // in the order in which they began
	// Generation counts the records: it changes whenever anything happened.
	Generation int64
	// Damage lists what could not be read, beside a torn tail.
	Damage []string
	// Torn is true where the last record is not whole. A crash in the middle of
	// writing it leaves that, and then nothing was done on it; a file that was cut
	// short looks the same, and what it held after that is not known.
	Torn bool

	nextID int
	size   int64 // bytes up to the end of the last whole record
	base   int64 // of them the first record, which carries what stood before
}

// Tx is one transaction.
type Tx struct {
	Begin
	Entries   []*Entry
	Commit    *Commit // nil: cut off, or under way
	Confirmed bool
	// ConfirmedBy is who let a trial stay; null in older records.
	ConfirmedBy *Confirm
	// Superseded is the later transaction that stands for this one; 0 if none.
	Superseded int

	undoneBy int  // the undo that took it back; 0 if none
	resolved bool // it was cut off, and has been dealt with since
}

// Entry is one before-image and what has become of it.
type Entry struct {
	Tx *Tx
	Before
	// Orig is the before-image as recorded; Before.Before moves when an
	// earlier entry below this one is undone.
	Orig  setting.Value
	After *setting.Value // nil until committed
	// Verdict and Why tell where the value is not what was wanted.
	Verdict, Why string
	State        EntryState
	// Undoing is true once an undo of it has begun: it counts as ours.
	Undoing bool
}

// Ref names the entry.
func (e *Entry) Ref() Ref { return Ref{e.Tx.ID, e.N} }

// LeftBy is true where a place that reads now is as this entry's transaction had
// left it. An entry that was cut off counts as ours whatever the place reads.
func (e *Entry) LeftBy(now setting.Value, equal func(a, b setting.Value) bool) bool {
	return e.After == nil || equal(now, *e.After) || slices.ContainsFunc(e.Varies, func(v setting.Value) bool { return equal(now, v) })
}

// IsLive is true while the entry's place still has to be given back.
func (e *Entry) IsLive() bool { return e.State == Live || e.State == Failed }

// IsLive is true while the transaction has not been taken back: a place is still
// to be given back, or the selection it brought still stands.
func (t *Tx) IsLive() bool {
	for _, e := range t.Entries {
		if e.IsLive() {
			return true
		}
	}
	return t.Kind != Undo && !t.RolledBack() && t.undoneBy == 0 && t.Superseded == 0
}

// UndoneBy is the number of the undo that took the transaction back; 0 if none.
func (t *Tx) UndoneBy() int { return t.undoneBy }

// RolledBack is true when the transaction took its own writes back.
func (t *Tx) RolledBack() bool { return t.Commit != nil && t.Commit.Result == ResultRolledBack }

// The results of a transaction.
const (
	ResultDone       = "done"
	ResultPartial    = "partial"
	ResultRolledBack = "rolled-back"
	ResultIncomplete = "incomplete"
)

// Interrupted lists the transactions that were cut off, oldest first.
func (s *State) Interrupted() []*Tx {
	var out []*Tx
	for _, t := range s.Txs {
		if t.Commit == nil && !t.resolved {
			out = append(out, t)
		}
	}
	return out
}

// Live lists the transactions that have not been taken back, oldest first.
func (s *State) Live() []*Tx {
	var out []*Tx
	for _, t := range s.Txs {
		if t.IsLive() {
			out = append(out, t)
		}
	}
	return out
}

// Tx finds a transaction by its number.
func (s *State) Tx(id int) *Tx {
	i, ok := slices.BinarySearchFunc(s.Txs, id, func(t *Tx, id int) int { return t.ID - id })
	if !ok {
		return nil
	}
	return s.Txs[i]
}

// Ended is true for a transaction that stands no more and whose records are in a
// file that was set aside.
func (s *State) Ended(id int) bool { return id > 0 && id < s.nextID && s.Tx(id) == nil }

// InForce is the transaction whose selection is in force, or nil.
func (s *State) InForce() *Tx {
	for _, t := range slices.Backward(s.Txs) {
		if t.Selection != nil && t.Commit != nil && t.Superseded == 0 && t.undoneBy == 0 && !t.RolledBack() {
			return t
		}
	}
	return nil
}

// Chains groups the live entries by setting, oldest first: the first before-
// image of a chain is the value before fettle came, the last entry is what
// fettle has there now.
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

// fold applies one record.
func (s *State) fold(r record, bootID string) error {
	switch {
	case r.Start != nil:
		return s.foldStart(*r.Start, bootID)
	case r.Begin != nil:
		return s.foldBegin(*r.Begin)
	case r.Stage != nil:
		t := s.Tx(r.Stage.ID)
		if t == nil {
			return fmt.Errorf("before-images of transaction %d, which never began", r.Stage.ID)
		}
		if t.Kind == Undo {
			return fmt.Errorf("before-images of transaction %d, which is an undo", t.ID)
		}
		for _, b := range r.Stage.Entries {
			e := &Entry{Tx: t, Before: b, Orig: b.Before, State: Live}
			if b.N != len(t.Entries)+1 {
				return fmt.Errorf("entry %d of transaction %d stands where %d belongs", b.N, t.ID, len(t.Entries)+1)
			}
			s.closeAtBoot(e, bootID)
			t.Entries = append(t.Entries, e)
		}
	case r.Commit != nil:
		return s.foldCommit(r.Commit)
	case r.Confirm != nil:
		t := s.Tx(r.Confirm.ID)
		if t == nil {
			return fmt.Errorf("confirmation of transaction %d, which never began", r.Confirm.ID)
		}
		t.Confirmed, t.ConfirmedBy = true, r.Confirm
	}
	return nil
}

func (s *State) foldBegin(b Begin) error {
	if n := len(s.Txs); n > 0 && s.Txs[n-1].ID >= b.ID {
		return fmt.Errorf("transaction %d begins after %d", b.ID, s.Txs[n-1].ID)
	}
	t := &Tx{Begin: b}
	for _, ref := range b.Restore {
		e := s.entry(ref)
		if e == nil {
			return fmt.Errorf("transaction %d takes back entry %d of %d, which is not there", b.ID, ref.N, ref.Tx)
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
		return fmt.Errorf("end of transaction %d, which never began", c.ID)
	}
	t.Commit = c
	for _, o := range c.Outcomes {
		if o.N < 1 || o.N > len(t.Entries) {
			return fmt.Errorf("outcome of entry %d of transaction %d, which is not there", o.N, c.ID)
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
			return fmt.Errorf("transaction %d took back entry %d of %d, which is not there", c.ID, u.N, u.Tx)
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
			return fmt.Errorf("transaction %d left entry %d of %d standing, which is not there", c.ID, u.N, u.Tx)
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

// settle ends an entry. The next live entry of the same place inherits the
// before-image, so that the rest can be undone in any order; unless somebody
// changed the place between the two, which the later one gives back. What could
// not be given back ends with its boot all the same.
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

// above is the next later live entry of the same place.
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

// parse folds the whole text of a journal. A torn tail, which was never
// acknowledged, is left out; a whole line that is damaged is listed and passed
// over.
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
				s.Damage = append(s.Damage, fmt.Sprintf("byte %d: record %d stands where %d belongs", off, r.Seq, s.Generation))
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
			break // torn as well: written over zeros, and some blocks of it came to the disk
		} else {
			s.Damage = append(s.Damage, fmt.Sprintf("byte %d: %v%s", off, err, legible(line)))
			s.Generation++
		}
		s.size = int64(off + end + 1)
		off += end + 1
	}
	return s, nil
}
