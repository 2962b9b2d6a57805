package tune

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/journal"
	"fettle.dev/fettle/internal/setting"
)

func pid() int { return os.Getpid() }

// Undone is what one undo did.
type Undone struct {
	Tx     int    `json:"transaction,omitempty"` // of the undo itself; 0: there was nothing to take back
	Undoes []int  `json:"undoes"`
	Result string `json:"result"` // done, incomplete
	// Values are the places that were to go back, in the order of writing.
	Values []UndoneValue `json:"values"`
}

// UndoneValue is one place of an undo.
type UndoneValue struct {
	Setting setting.Setting    `json:"setting"`
	Found   setting.Value      `json:"found"`
	To      setting.Value      `json:"to"`
	State   journal.EntryState `json:"state"`
	Why     string             `json:"why,omitempty"`
}

// IncompleteError names what could not be given back (exit code 6).
type IncompleteError struct {
	Left   []Leftover
	Damage []string // of the journal: what it held there is not known
}

// Leftover is one value that could not be given back.
type Leftover struct {
	Setting setting.Setting
	Want    setting.Value
	Err     error
}

func (e *IncompleteError) Error() string {
	var lines []string
	for _, l := range e.Left {
		lines = append(lines, fmt.Sprintf("%s could not go back to %s: %v", l.Setting, show(l.Want), l.Err))
	}
	for _, d := range e.Damage {
		lines = append(lines, "the journal is damaged at "+d+": what that record held cannot be given back")
	}
	return "roll-back incomplete: " + strings.Join(lines, "; ")
}

// ErrNothing says that there is nothing to take back.
var ErrNothing = errors.New("nothing to undo: fettle has changed nothing here that still stands")

// Undo takes back the given transactions, or all of them when none is given:
// back to the state before fettle's first live transaction.
//
// What was cut off is taken back first where single ones are named, so that the
// order of events is that of the journal. A damaged journal is undone as far as
// it can be read; the error, an IncompleteError, says that this may not be all.
func (e *Engine) Undo(ctx context.Context, ids ...int) (*Undone, error) {
	j, err := e.lock()
	if err != nil {
		return nil, err
	}
	defer j.Close()
	if len(ids) > 0 {
		recovered, err := e.recoverLocked(ctx, j)
		if err != nil {
			return nil, err
		}
		ids = slices.DeleteFunc(ids, func(id int) bool { return slices.Contains(recovered, id) })
		if len(ids) == 0 {
			return &Undone{Undoes: recovered, Result: journal.ResultDone, Values: []UndoneValue{}}, nil
		}
	}
	u, err := e.undoLocked(ctx, j, ids)
	if damage := j.State.Damage; len(damage) > 0 && u != nil {
		u.Result = journal.ResultIncomplete
		err = errors.Join(&IncompleteError{Damage: damage}, err)
	}
	return u, err
}

func (e *Engine) undoLocked(ctx context.Context, j *journal.Journal, ids []int) (*Undone, error) {
	txs, err := undoSet(j.State, ids)
	if err != nil {
		return nil, err
	}
	if len(txs) == 0 {
		return nil, ErrNothing
	}
	u := &Undone{Values: []UndoneValue{}}
	moves := e.moves(ctx, j.State, txs)
	begin := journal.Begin{Kind: journal.Undo, Time: e.Host.Clock.Now().UTC(), BootID: e.bootID(), User: e.User, PID: pid(), Reason: e.Reason}
	for _, t := range txs {
		begin.Undoes = append(begin.Undoes, t.ID)
	}
	for _, t := range j.State.Interrupted() {
		if t.Kind == journal.Undo && !slices.ContainsFunc(t.Undoes, func(id int) bool { return !slices.Contains(begin.Undoes, id) }) {
			begin.Supersedes = append(begin.Supersedes, t.ID) // this one does its work again
		}
	}
	for _, m := range moves {
		if m.state == journal.Restored {
			for _, en := range m.entries {
				begin.Restore = append(begin.Restore, en.Ref())
			}
		}
	}
	t, err := j.Begin(begin)
	if err != nil {
		return nil, err
	}
	u.Tx, u.Undoes = t.ID, begin.Undoes

	var targets []target
	for _, m := range moves {
		switch m.state {
		case journal.Restored:
			targets = append(targets, target{setting: m.setting, want: m.to})
		case journal.KeptNow:
			// Kept means kept: also where the write of another place would
			// change it on the way.
			targets = append(targets, target{setting: m.setting, want: m.found})
		}
	}
	left, gone := e.restore(ctx, targets)
	commit := journal.Commit{ID: t.ID, Result: journal.ResultDone}
	for i := range moves {
		m := &moves[i]
		for _, l := range left {
			if l.Setting == m.setting && m.state == journal.Restored {
				m.state, m.why = journal.Failed, errno(l.Err)
			}
		}
		if gone[m.setting] && m.state != journal.Relinked {
			m.state, m.why = journal.Closed, "it is not there any more: a device or a module has gone"
		}
		for _, en := range m.below {
			commit.Undone = append(commit.Undone, journal.Undone{Ref: en.Ref(), State: journal.KeptNow, Found: m.found, Why: "somebody changed it before the next transaction: that value is kept"})
		}
		for _, en := range m.entries {
			commit.Undone = append(commit.Undone, journal.Undone{Ref: en.Ref(), State: m.state, Found: m.found, Why: m.why})
		}
		u.Values = append(u.Values, UndoneValue{Setting: m.setting, Found: m.found, To: m.to, State: m.state, Why: m.why})
	}
	var incomplete error
	if left = slices.DeleteFunc(left, func(l Leftover) bool { return !failed(moves, l.Setting) }); len(left) > 0 {
		commit.Result = journal.ResultIncomplete
		incomplete = &IncompleteError{Left: left}
	}
	u.Result = commit.Result
	commit.Time = e.Host.Clock.Now().UTC()
	err = j.Commit(commit)
	e.log(t.ID, journal.Undo, u.Result, len(commit.Undone))
	if err != nil {
		return u, errors.Join(err, incomplete)
	}
	return u, incomplete
}

func failed(moves []move, s setting.Setting) bool {
	return slices.ContainsFunc(moves, func(m move) bool { return m.setting == s && m.state == journal.Failed })
}

// undoSet are the transactions that an undo takes back, oldest first: the ones
// asked for and what they stand for.
func undoSet(s *journal.State, ids []int) ([]*journal.Tx, error) {
	if len(ids) == 0 {
		set := s.Live()
		// An undo that was cut off is done again with the rest.
		for _, t := range s.Interrupted() {
			if t.Kind == journal.Undo {
				for _, id := range t.Undoes {
					if u := s.Tx(id); u != nil && !slices.Contains(set, u) {
						set = append(set, u)
					}
				}
			}
		}
		slices.SortFunc(set, func(a, b *journal.Tx) int { return a.ID - b.ID })
		return set, nil
	}
	var set []*journal.Tx
	for _, id := range ids {
		t := s.Tx(id)
		switch {
		case t == nil:
			return nil, fmt.Errorf("there is no transaction %d here; fettle history lists them", id)
		case t.Kind == journal.Undo:
			return nil, fmt.Errorf("transaction %d is itself an undo; tune again instead", id)
		case !t.IsLive():
			return nil, fmt.Errorf("transaction %d has been taken back already", id)
		}
		set = append(set, t)
		for {
			older := slices.IndexFunc(s.Txs, func(o *journal.Tx) bool { return o.Superseded == t.ID && o.Kind != journal.Undo })
			if older < 0 {
				break
			}
			t = s.Txs[older]
			set = append(set, t)
		}
	}
	slices.SortFunc(set, func(a, b *journal.Tx) int { return a.ID - b.ID })
	return slices.Compact(set), nil
}

// move is what an undo does with one place.
type move struct {
	setting setting.Setting
	found   setting.Value
	to      setting.Value
	state   journal.EntryState
	why     string
	entries []*journal.Entry // that this move settles
	below   []*journal.Entry // older ones, cut off from these by somebody's change
	coupled int              // entry of the same transaction that it belongs to
}

// moves decides, before anything is written, what happens to each place of the
// given transactions, in the order in which it is to be written: the last
// write goes back first.
func (e *Engine) moves(ctx context.Context, s *journal.State, txs []*journal.Tx) []move {
	ours := map[*journal.Tx]bool{}
	for _, t := range txs {
		ours[t] = true
	}
	chains := s.Chains()
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
			out = append(out, e.restoreMove(ctx, chain[low:]))
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
	// Entries of an earlier boot have nothing left to give back.
	for _, t := range txs {
		for _, en := range t.Entries {
			if en.State == journal.Closed {
				out = append(out, move{setting: en.Setting, state: journal.Closed, to: en.Orig, entries: []*journal.Entry{en}, why: "the boot it was set in has ended"})
			}
		}
	}
	keepTogether(out)
	return out
}

// restoreMove decides about the entries at the top of one chain, lowest first.
func (e *Engine) restoreMove(ctx context.Context, run []*journal.Entry) move {
	low := len(run) - 1
	for low > 0 && !run[low].Foreign {
		low--
	}
	top := run[len(run)-1]
	m := move{setting: top.Setting, to: run[low].Before.Before, state: journal.Restored, entries: run[low:], below: run[:low], coupled: top.CoupledTo}
	kind, err := e.Kinds.For(top.Setting)
	if err == nil {
		m.found, err = kind.Read(ctx, top.Setting)
	}
	if err != nil {
		return m // tried all the same: the write will tell
	}
	if setting.Ended(kind, m.found) && !m.to.Absent {
		m.state, m.why = journal.Closed, "it has ended"
		return m
	}
	// An entry cut off by a crash, or left by an undo that failed, is ours
	// whatever it reads.
	cutOff := top.After == nil || slices.ContainsFunc(run, func(en *journal.Entry) bool { return en.Undoing || en.State == journal.Failed })
	if gone(kind, m.found, m.to) {
		return m // perhaps another place brings it back; otherwise it is closed
	}
	if cutOff || equal(kind, m.found, *top.After) || equal(kind, m.found, m.to) {
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

// target is a value that a place is to have.
type target struct {
	setting setting.Setting
	want    setting.Value
}

// restore gives the targets back: first every place, then the other tuners,
// oldest last. A tuner that starts sets places of its own at once, which it
// owns from then on, so nothing is looked at again.
func (e *Engine) restore(ctx context.Context, targets []target) (left []Leftover, vanished map[setting.Setting]bool) {
	var places, tuners []target
	for _, t := range targets {
		kind, err := e.Kinds.For(t.setting)
		if _, ok := kind.(setting.Tuner); ok && err == nil {
			tuners = append(tuners, t)
		} else {
			places = append(places, t)
		}
	}
	left, vanished = e.restorePlaces(ctx, places)
	if len(tuners) > 0 {
		more, gone := e.restorePlaces(ctx, tuners)
		left = append(left, more...)
		maps.Copy(vanished, gone)
	}
	return left, vanished
}

// restorePlaces writes the targets in order until every place reads as wanted. One
// pass is not always enough: dirty_bytes cannot be written as 0, it becomes 0
// when dirty_ratio is written; a scheduler's attributes exist only once it is
// back. What is equal already is not written. Places of the running kernel that
// are not there at the end (an unplugged disk) are returned as gone: they have
// nothing to give back.
func (e *Engine) restorePlaces(ctx context.Context, targets []target) (left []Leftover, vanished map[setting.Setting]bool) {
	vanished = map[setting.Setting]bool{}
	errs := make([]error, len(targets))
	for pass := 0; pass < 3; pass++ {
		wrote := false
		for i, t := range targets {
			kind, err := e.Kinds.For(t.setting)
			if err != nil {
				errs[i] = err
				continue
			}
			if now, err := kind.Read(ctx, t.setting); err == nil && (equal(kind, now, t.want) || setting.Ended(kind, now)) {
				errs[i] = nil
				continue
			}
			e.at("undo:" + t.setting.String() + ":before")
			errs[i] = kind.Write(ctx, t.setting, t.want)
			e.at("undo:" + t.setting.String() + ":after")
			wrote = true
		}
		if !wrote {
			break
		}
	}
	for i, t := range targets {
		kind, err := e.Kinds.For(t.setting)
		var now setting.Value
		if err == nil {
			now, err = kind.Read(ctx, t.setting)
		}
		switch {
		case err == nil && (equal(kind, now, t.want) || setting.Ended(kind, now)):
		case err == nil && gone(kind, now, t.want):
			vanished[t.setting] = true
		case errs[i] != nil:
			left = append(left, Leftover{t.setting, t.want, errs[i]})
		case err != nil:
			left = append(left, Leftover{t.setting, t.want, err})
		default:
			left = append(left, Leftover{t.setting, t.want, fmt.Errorf("the kernel keeps %s", show(now))})
		}
	}
	return left, vanished
}

// gone is true for a place of the running kernel that is not there, although it
// held a value once.
func gone(k setting.Kind, now, want setting.Value) bool {
	return now.Absent && !want.Absent && !k.Lifetime().SurvivesBoot()
}

// recoverLocked takes back transactions that were cut off. Entries of a boot
// that has ended are closed with it.
func (e *Engine) recoverLocked(ctx context.Context, j *journal.Journal) ([]int, error) {
	cut := j.State.Interrupted()
	if len(cut) == 0 {
		return nil, nil
	}
	var ids []int
	for _, t := range cut {
		if t.Kind == journal.Undo {
			ids = append(ids, t.Undoes...)
		} else {
			ids = append(ids, t.ID)
		}
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	ids = slices.DeleteFunc(ids, func(id int) bool { t := j.State.Tx(id); return t == nil || !t.IsLive() })
	if len(ids) == 0 {
		return nil, nil
	}
	sub := *e
	sub.Reason = "recovery of what was cut off"
	u, err := sub.undoLocked(ctx, j, ids)
	if err != nil {
		return nil, fmt.Errorf("an earlier transaction was cut off and could not be taken back: %w", err)
	}
	return u.Undoes, nil
}

// Recover takes back what was cut off, and trials whose time is over; it
// returns the transactions concerned.
func (e *Engine) Recover(ctx context.Context) ([]int, error) {
	s, err := e.State()
	if err != nil {
		return nil, err
	}
	if len(s.Interrupted()) == 0 && len(e.expired(s)) == 0 {
		return nil, nil
	}
	j, err := e.lock()
	if err != nil {
		return nil, err
	}
	defer j.Close()
	done, err := e.recoverLocked(ctx, j)
	if err != nil {
		return done, err
	}
	ids := e.expired(j.State)
	if len(ids) == 0 {
		return done, nil
	}
	sub := *e
	sub.Reason = "trial not confirmed in time"
	u, err := sub.undoLocked(ctx, j, ids)
	if u != nil {
		done = append(done, u.Undoes...)
	}
	return done, err
}

// expired lists the trials that nobody confirmed in time. A trial ends with its
// boot at the latest.
func (e *Engine) expired(s *journal.State) []int {
	var ids []int
	for _, t := range s.Live() {
		if t.Try == nil || t.Confirmed || t.Commit == nil {
			continue
		}
		up, err := e.Host.Clock.SinceBoot()
		switch {
		case t.BootID != e.bootID():
			ids = append(ids, t.ID)
		case err == nil && up >= t.Try.SinceBoot:
			ids = append(ids, t.ID)
		case err != nil && !e.Host.Clock.Now().Before(t.Try.Until):
			ids = append(ids, t.ID)
		}
	}
	return ids
}
