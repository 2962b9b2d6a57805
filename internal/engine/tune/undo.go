package tune

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/ui"
)

// Undone is the result of one undo.
type Undone struct {
	Tx     int    `json:"transaction,omitempty"` // number of the undo; 0 if there was nothing to undo
	Undoes []int  `json:"undoes"`
	Result string `json:"result"` // done, incomplete, planned
	// Values lists the settings to restore, in the order of writing.
	Values []UndoneValue `json:"values"`
	// Remains lists restored settings whose old value stays in force for a while.
	Remains []Remaining `json:"remains,omitempty"`
	// Refused are the values that the undone transactions had not written.
	Refused []journal.Refused `json:"refused,omitempty"`
}

// Given returns the number of restored values that had differed; side effects do not count.
func (u *Undone) Given() int {
	n := 0
	for _, v := range u.Values {
		if v.restores() {
			n++
		}
	}
	return n
}

// Kept returns the values that the undo did not restore, because another program had changed them.
func (u *Undone) Kept() (out []UndoneValue) {
	for _, v := range u.Values {
		if v.State == journal.KeptNow && !v.unchanged() {
			out = append(out, v)
		}
	}
	return out
}

// UndoneValue is one setting of an undo.
type UndoneValue struct {
	Setting setting.Setting    `json:"setting"`
	Found   setting.Value      `json:"found"`
	To      setting.Value      `json:"to"`
	State   journal.EntryState `json:"state"`
	Why     string             `json:"why,omitempty"`
	// OtherBoot marks a setting of an earlier boot.
	OtherBoot bool `json:"other_boot,omitempty"`
	// SideEffect marks a setting that no transaction wrote itself: writing another setting
	// may have changed it.
	SideEffect bool `json:"side_effect,omitempty"`
	// idle marks a setting that no undone transaction had changed.
	idle bool
}

// EndedItself is the reason for a transient setting, such as a task's, that has ended.
const EndedItself = "it has ended"

// IncompleteError lists values that could not be restored (exit code 6).
type IncompleteError struct {
	Left    []Leftover
	Damage  []string // damaged journal records, whose content is unknown
	Journal string   // path of the damaged file
}

// ProgramExit returns the exit code of a program that fails with this error. The method is not
// called ExitCode, because exec.ExitError uses that name for an ended process.
func (e *IncompleteError) ProgramExit() int { return ui.Incomplete }

// Leftover is one value that could not be restored.
type Leftover struct {
	Setting setting.Setting
	Want    setting.Value
	Err     error
	keeps   *setting.Value // the setting's value if the write returned no error
}

func isLeft(left []Leftover, s setting.Setting) bool {
	return slices.ContainsFunc(left, func(l Leftover) bool { return l.Setting == s })
}

func (e *IncompleteError) Error() string {
	var lines []string
	for _, l := range e.Left {
		lines = append(lines, fmt.Sprintf("cannot restore %s to %s: %v", l.Setting, show(l.Want), l.Err))
	}
	for _, d := range e.Damage {
		lines = append(lines, "the journal is damaged at "+d+": the values of that record cannot be restored")
	}
	if e.Journal != "" {
		lines = append(lines, "check the machine's values, then move "+e.Journal+" away; fettle then starts a new journal")
	}
	return "roll-back incomplete: " + strings.Join(lines, "; ")
}

// ErrNothing is returned if there is nothing to undo.
var ErrNothing = errors.New("nothing to undo: no change by fettle is in force")

// ErrTakenBack is returned for a transaction that is undone already.
var ErrTakenBack = errors.New("has been undone")

// Undo undoes the given transactions. Without ids it undoes all, back to the state before fettle's
// first live transaction.
//
// With ids it undoes interrupted transactions first, to keep the journal's order. It undoes a
// damaged journal as far as readable; the error is then an IncompleteError.
func (e *Engine) Undo(ctx context.Context, ids ...int) (*Undone, error) {
	j, err := e.lock(ctx)
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
	if damage := j.State.Damage; len(damage) > 0 && (u != nil || errors.Is(err, ErrNothing)) {
		if u == nil {
			u, err = &Undone{Undoes: []int{}, Values: []UndoneValue{}}, nil
		}
		u.Result = journal.ResultIncomplete
		err = errors.Join(&IncompleteError{Damage: damage, Journal: j.Dir() + "/journal"}, err)
	}
	return u, err
}

// ResultPlanned is the result of PlanUndo.
const ResultPlanned = "planned"

// PlanUndo returns what Undo would restore, and changes nothing.
func (e *Engine) PlanUndo(ctx context.Context, s *journal.State, ids ...int) (*Undone, error) {
	txs, err := undoSet(s, ids)
	if err != nil {
		return nil, err
	}
	u := &Undone{Undoes: []int{}, Result: ResultPlanned, Values: []UndoneValue{}}
	for _, t := range txs {
		u.Undoes = append(u.Undoes, t.ID)
		u.Refused = append(u.Refused, t.Refused...)
	}
	moves := e.moves(ctx, s, txs)
	for i := range moves {
		u.Values = append(u.Values, moves[i].result())
	}
	return u, nil
}

// undoLocked decides about every setting, records the decisions, writes, and records the result.
func (e *Engine) undoLocked(ctx context.Context, j *journal.Journal, ids []int) (*Undone, error) {
	txs, err := undoSet(j.State, ids)
	if err != nil {
		return nil, err
	}
	if len(txs) == 0 {
		return nil, ErrNothing
	}
	moves := e.moves(ctx, j.State, txs)
	effects := e.sideEffects(ctx, j.State, moves)
	t, err := j.Begin(e.beginUndo(ctx, j.State, txs, moves, effects))
	if err != nil {
		return nil, err
	}
	u := &Undone{Tx: t.ID, Undoes: t.Undoes, Values: []UndoneValue{}}
	for _, undone := range txs {
		u.Refused = append(u.Refused, undone.Refused...)
	}
	unsaved := e.restoreSaved(j.State, txs) // first, because a tuner that starts may read the file
	if !e.KeepTuned {
		_, err := e.restoreTuned(j.State, txs)
		unsaved = errors.Join(unsaved, err)
	}
	left, gone := e.writeMoves(ctx, moves, effects)
	left, derived := acceptDerived(moves, left)
	commit := journal.Commit{ID: t.ID, Result: journal.ResultDone, Standing: append(e.readStanding(ctx, effects, left), derived...)}
	for i := range moves {
		m := &moves[i]
		for _, l := range left {
			if l.Setting == m.setting && (m.state == journal.Restored || m.state == journal.Relinked) {
				m.state, m.why = journal.Failed, errno(l.Err)
			}
		}
		if gone[m.setting] && m.state != journal.Relinked {
			m.state, m.why = journal.Closed, "the setting no longer exists, because a device or module was removed"
		}
		for _, en := range m.below {
			commit.Undone = append(commit.Undone, journal.Undone{Ref: en.Ref(), State: journal.KeptNow, Found: m.found, Why: "changed by another program before the next transaction; the other program's value is kept"})
		}
		for _, en := range m.entries {
			commit.Undone = append(commit.Undone, journal.Undone{Ref: en.Ref(), State: m.state, Found: m.found, Why: m.why})
		}
		u.Values = append(u.Values, m.result())
	}
	u.Remains = e.remaining(ctx, moves)
	incomplete := unsaved
	left = slices.DeleteFunc(left, func(l Leftover) bool {
		failed := slices.ContainsFunc(moves, func(m move) bool { return m.setting == l.Setting && m.state == journal.Failed })
		return !failed && !slices.ContainsFunc(effects, func(b sideEffect) bool { return b.held && b.top.Setting == l.Setting })
	})
	if len(left) > 0 {
		commit.Result = journal.ResultIncomplete
		incomplete = errors.Join(unsaved, &IncompleteError{Left: left})
	}
	u.Result = commit.Result
	commit.Time = e.Host.Clock.Now().UTC()
	err = j.Commit(commit)
	e.log(t, u.Result, u.Given(), len(left))
	if err != nil {
		return u, errors.Join(err, incomplete)
	}
	return u, incomplete
}

// beginUndo returns the first record of an undo, with the transactions and the settings that it
// may change.
func (e *Engine) beginUndo(ctx context.Context, s *journal.State, txs []*journal.Tx, moves []move, effects []sideEffect) journal.Begin {
	begin := e.started(ctx, journal.Begin{Kind: journal.Undo})
	for _, t := range txs {
		begin.Undoes = append(begin.Undoes, t.ID)
	}
	for _, t := range s.Interrupted() {
		if t.Kind == journal.Undo && !slices.ContainsFunc(t.Undoes, func(id int) bool { return !slices.Contains(begin.Undoes, id) }) {
			begin.Supersedes = append(begin.Supersedes, t.ID) // this undo repeats its work
		}
	}
	for _, m := range moves {
		if m.state == journal.Restored {
			for _, en := range m.entries {
				begin.Restore = append(begin.Restore, en.Ref())
			}
		}
	}
	for _, b := range effects {
		if b.ours {
			begin.Restore = append(begin.Restore, b.top.Ref())
		}
	}
	return begin
}

// writeMoves restores the settings of the moves and of their side effects, and activates their
// programs. It returns the values that could not be restored and the settings that no longer
// exist.
func (e *Engine) writeMoves(ctx context.Context, moves []move, effects []sideEffect) (left []Leftover, gone map[setting.Setting]bool) {
	var targets []target
	for i := range moves {
		switch m := &moves[i]; m.state {
		case journal.Restored:
			targets = append(targets, target{setting: m.setting, want: m.to})
		case journal.KeptNow:
			// Keeps its value even if the write of another setting changes it.
			targets = append(targets, target{setting: m.setting, want: m.found})
		case journal.Closed:
			if m.outlived != nil {
				e.cleanAfterReboot(ctx, m)
			}
		}
	}
	for _, b := range effects {
		if b.held {
			targets = append(targets, target{setting: b.top.Setting, want: b.want})
		}
	}
	left, gone = e.restore(ctx, targets)
	if e.unlock(ctx, effects, left) {
		left, gone = e.restore(ctx, targets)
	}
	return e.activateMoves(ctx, moves, left), gone
}

// undoSet returns the transactions to undo, oldest first: the given ones and those they supersede.
// Without ids it returns all.
func undoSet(s *journal.State, ids []int) ([]*journal.Tx, error) {
	var set []*journal.Tx
	if len(ids) == 0 {
		set = s.Live()
		// An interrupted undo is repeated with the others.
		for _, t := range s.Interrupted() {
			if t.Kind != journal.Undo {
				continue
			}
			for _, id := range t.Undoes {
				if u := s.Tx(id); u != nil {
					set = append(set, u)
				}
			}
		}
	}
	for _, id := range ids {
		t := s.Tx(id)
		switch {
		case t == nil && s.Ended(id):
			return nil, fmt.Errorf("transaction %d %w, or was merged into a later one; see fettle history", id, ErrTakenBack)
		case t == nil:
			return nil, ui.Hinted(ui.Usage, fmt.Errorf("transaction %d not found", id), "fettle history lists all transactions")
		case t.Kind == journal.Undo:
			return nil, fmt.Errorf("transaction %d is itself an undo; apply the profile again instead", id)
		case !t.IsLive():
			return nil, fmt.Errorf("transaction %d %w already", id, ErrTakenBack)
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
