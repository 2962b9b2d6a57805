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

// ApplyOptions are the options of one transaction.
type ApplyOptions struct {
	Kind journal.TxKind
	// Selection is recorded as in force once the transaction is committed; nil
	// leaves the selection as it is.
	Selection *Selection
	// Atomic rolls everything back if one value is rejected.
	Atomic bool
	// OrNothing rolls everything back, and leaves the selection as it was, if values
	// were rejected and no other one could be set.
	OrNothing bool
	// Try makes the transaction a trial, which is undone unless it is confirmed.
	Try *journal.Try
	// Supersedes names transactions that are undone together with this one from now on.
	Supersedes []int
	// Planned is who made the saved plan that is applied; nil without one.
	Planned *journal.Planned
}

// Applied is what one transaction did.
type Applied struct {
	Tx     int    `json:"transaction"`
	Result string `json:"result"` // done, partial, rolled-back, incomplete
	Plan   *Plan  `json:"plan"`
	// Recovered are the interrupted transactions that were undone first.
	Recovered []int `json:"recovered,omitempty"`
}

// count returns how many steps satisfy ok.
func (p *Plan) count(ok func(s *Step) bool) int {
	n := 0
	for i := range p.Steps {
		if ok(&p.Steps[i]) {
			n++
		}
	}
	return n
}

// InForce counts the steps whose value is in place.
func (a *Applied) InForce() int {
	return a.Plan.count(func(s *Step) bool { return s.Action != None && s.Verdict != plugin.Rejected })
}

// Failing counts the steps that were carried out and do not work.
func (a *Applied) Failing() int { return a.Plan.count((*Step).Failing) }

// Changed counts the rejected steps that have changed their setting anyway.
func (a *Applied) Changed() int { return a.Plan.count(func(s *Step) bool { return s.Changed }) }

// Failed counts the steps whose value is not valid or was rejected.
func (a *Applied) Failed() int {
	return a.Plan.count(func(s *Step) bool { return s.Verdict == plugin.Rejected })
}

// Failing reports whether the step was carried out and does not work: a script whose own
// verify fails.
func (s *Step) Failing() bool { return s.Action != None && s.Verdict == plugin.Drifted }

// inVain reports whether values were rejected and the plan brings, or may still bring, no
// other one into force. A value that is only released does not count.
func (p *Plan) inVain() bool {
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

// ResultNothing is the result where no value can be set; no transaction is recorded.
const ResultNothing = "nothing"

// acts reports whether applying the plan writes or owns anything.
func (p *Plan) acts() bool {
	return slices.ContainsFunc(p.Steps, func(s Step) bool { return s.Action != None })
}

// room estimates the size of the plan's records in bytes. Coupled settings are not known
// before their stage; one is counted for each write.
func (p *Plan) room() int64 {
	var room int64
	for _, s := range p.Steps {
		if s.Action != None {
			room += 2 * journal.Room(s.Before, s.Want)
		}
	}
	return room
}

// Planner makes the plan under the lock, against the state that the lock protects.
type Planner func(ctx context.Context, s *journal.State) (*Plan, error)

// Apply makes a plan and carries it out as one transaction: durable before-images first,
// then the writes, then the outcomes. An interrupted transaction is undone before. If ctx
// ends on the way, everything is rolled back and ctx's error returned.
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
		name := p.Steps[i].named().String()
		if p.Steps[i].Setting.Kind == plugin.OptionKind {
			name = plugin.ShowOption(p.Steps[i].Setting)
		}
		return nil, fmt.Errorf("%s: %s: %s; nothing is changed (without --atomic the rest is applied)", p.Steps[i].Reason, name, p.Steps[i].Why)
	}
	a := &Applied{Plan: p, Recovered: recovered}
	if err := e.checkExperiment(p); err != nil {
		return nil, err
	}
	if o.Selection == nil && !p.acts() || o.OrNothing && p.inVain() {
		a.Result = ResultNothing
		return a, nil
	}
	if o.Try != nil {
		// The watchdog acts once, at the deadline: what begins later would never be
		// undone.
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
	err = w.run(ctx)
	failed := a.Failed() + a.Failing()
	keep := err == nil && !(o.Atomic && failed > 0) && !(o.OrNothing && p.inVain())
	if keep {
		if a.Result = journal.ResultDone; failed > 0 {
			a.Result = journal.ResultPartial
		}
		err = j.Commit(journal.Commit{ID: t.ID, Time: e.Host.Clock.Now().UTC(), Result: a.Result, Outcomes: w.outcomes()})
	}
	if !keep || err != nil {
		// Ctrl-C and a journal that cannot be written end here too: the journal has
		// what was written, and it is restored.
		result, left := w.rollBack()
		a.Result, err = result, errors.Join(err, left)
	}
	e.log(t, a.Result, len(w.entries), a.Failed()+a.Failing())
	return a, err
}
