package tune

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/plugin"
)

// ApplyOptions steer one transaction.
type ApplyOptions struct {
	Kind journal.TxKind
	// Selection is recorded as in force once the transaction is committed; nil
	// leaves the selection as it is.
	Selection *Selection
	// Atomic takes everything back if one value is rejected.
	Atomic bool
	// OrNothing takes everything back, and leaves the selection as it was, where
	// no value at all can be set because those there are were rejected.
	OrNothing bool
	// Try makes the transaction undo itself unless it is confirmed.
	Try *journal.Try
	// Supersedes names transactions that this one stands for from now on.
	Supersedes []int
	// Planned is who made the saved plan that is applied; nil without one.
	Planned *journal.Planned
}

// Applied is what one transaction did.
type Applied struct {
	Tx     int    `json:"transaction"`
	Result string `json:"result"` // done, partial, rolled-back, incomplete
	Plan   *Plan  `json:"plan"`
	// Recovered are transactions cut off earlier that were taken back first.
	Recovered []int `json:"recovered,omitempty"`
}

// InForce counts the steps whose value is in place.
func (a *Applied) InForce() int {
	n := 0
	for _, s := range a.Plan.Steps {
		if s.Action != None && s.Verdict != plugin.Rejected {
			n++
		}
	}
	return n
}

// Failing counts the steps that were carried out and do not work.
func (a *Applied) Failing() int {
	n := 0
	for _, s := range a.Plan.Steps {
		if s.Failing() {
			n++
		}
	}
	return n
}

// Changed counts the rejected steps that have changed their place all the same.
func (a *Applied) Changed() int {
	n := 0
	for _, s := range a.Plan.Steps {
		if s.Changed {
			n++
		}
	}
	return n
}

// vain is true where values were rejected and no other one is, or may yet be, in
// force by this plan. What goes back because the selection before had it is none.
func (p *Plan) vain() bool {
	rejected := false
	for _, s := range p.Steps {
		switch {
		case s.Verdict == plugin.Rejected && !s.Changed:
			rejected = true
		case s.Action == Release:
		case s.Action != None || s.Changed:
			return false
		case s.Verdict == plugin.OK, s.Verdict == plugin.Dynamic, s.Verdict == plugin.NeedsDaemon, s.Verdict == plugin.Deferred:
			return false
		}
	}
	return rejected
}

// Failing is true for a step that was carried out and does not work: a script
// whose own verify fails.
func (s *Step) Failing() bool { return s.Action != None && s.Verdict == plugin.Drifted }

// ResultNothing is the result where none of the values can be set; no
// transaction is recorded.
const ResultNothing = "nothing"

// acts is true when applying the plan does or owns anything.
func (p *Plan) acts() bool {
	return slices.ContainsFunc(p.Steps, func(s Step) bool { return s.Action != None })
}

// room is what the records of the plan will take, in bytes: what its writes
// change as well is not known before its stage, and counted as one more each.
func (p *Plan) room() int64 {
	var room int64
	for _, s := range p.Steps {
		if s.Action != None {
			room += 2 * journal.Room(s.Before, s.Want)
		}
	}
	return room
}

// Failed counts the steps whose value is not valid or was rejected.
func (a *Applied) Failed() int {
	n := 0
	for _, s := range a.Plan.Steps {
		if s.Verdict == plugin.Rejected {
			n++
		}
	}
	return n
}

// Planner makes the plan under the lock, against the state that the lock
// protects.
type Planner func(ctx context.Context, s *journal.State) (*Plan, error)

// Apply makes a plan and carries it out as one transaction: before-images
// first, durable, then the writes, then what came of them. A transaction that
// was cut off earlier is taken back first. When ctx ends in the middle, all is
// taken back and ctx's error returned.
func (e *Engine) Apply(ctx context.Context, plan Planner, o ApplyOptions) (*Applied, error) {
	j, err := e.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer j.Close()
	if d := j.State.Damage; len(d) > 0 {
		return nil, fmt.Errorf("the journal is damaged (%s), so nothing is changed: what came on top could not be given back exactly; run fettle undo, which says what to do", d[0])
	}
	recovered, err := e.recoverLocked(ctx, j)
	if err != nil {
		return nil, err
	}
	if err := j.Rotate(); err != nil {
		return nil, err
	}
	p, err := plan(ctx, j.State)
	if err != nil {
		return nil, err
	}
	if o.Atomic && len(p.undecided) > 0 {
		return nil, fmt.Errorf("%w; nothing is changed (without --atomic the rest is applied)", errors.Join(p.undecided...))
	}
	if i := slices.IndexFunc(p.Steps, func(s Step) bool { return s.Verdict == plugin.Rejected }); o.Atomic && i >= 0 {
		place := p.Steps[i].named().String()
		if p.Steps[i].Setting.Kind == plugin.OptionKind {
			place = plugin.ShowOption(p.Steps[i].Setting)
		}
		return nil, fmt.Errorf("%s: %s: %s; nothing is changed (without --atomic the rest is applied)", p.Steps[i].Reason, place, p.Steps[i].Why)
	}
	a := &Applied{Plan: p, Recovered: recovered}
	if err := e.besideExperiment(p); err != nil {
		return nil, err
	}
	if o.Selection == nil && !p.acts() || o.OrNothing && p.vain() {
		a.Result = ResultNothing
		return a, nil
	}
	if o.Try != nil {
		// The watchdog looks once, at the deadline: what begins later would
		// never be taken back.
		if up, err := e.Host.Clock.SinceBoot(); err == nil && up >= o.Try.SinceBoot {
			return nil, errors.New("the time of the trial was over before it could begin, so nothing is changed; try again")
		}
	}
	var selection json.RawMessage
	if o.Selection != nil {
		if selection, err = o.Selection.store(e.StateDir, e.at); err != nil {
			return nil, err
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	t, err := j.Begin(e.started(ctx, journal.Begin{
		Kind: o.Kind, Selection: selection, Supersedes: o.Supersedes, Try: o.Try, Planned: o.Planned, Room: p.room(),
	}))
	if err != nil {
		return nil, err
	}
	a.Tx = t.ID
	w := &writer{Engine: e, journal: j, tx: t, plan: p, fresh: p.state == j.State, chains: j.State.Chains()}
	werr := w.run(ctx)
	switch {
	case werr != nil || o.Atomic && a.Failed()+a.Failing() > 0 || o.OrNothing && p.vain():
		// Ctrl-C and a journal that cannot be written end here too: what was
		// written is known and goes back.
		a.Result, err = w.takeBack()
		e.log(t, a.Result, len(w.entries), a.Failed()+a.Failing())
		return a, errors.Join(werr, err)
	case a.Failed()+a.Failing() > 0:
		a.Result = journal.ResultPartial
	default:
		a.Result = journal.ResultDone
	}
	if err := j.Commit(journal.Commit{ID: t.ID, Time: e.Host.Clock.Now().UTC(), Result: a.Result, Outcomes: w.outcomes()}); err != nil {
		res, back := w.takeBack()
		a.Result = res
		e.log(t, a.Result, len(w.entries), a.Failed()+a.Failing())
		return a, errors.Join(err, back)
	}
	e.log(t, a.Result, len(w.entries), a.Failed()+a.Failing())
	return a, nil
}
