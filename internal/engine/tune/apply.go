package tune

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/ui"
)

// ApplyOptions are the options of one transaction.
type ApplyOptions struct {
	Kind journal.TxKind
	// Selection is in force once the transaction is committed; nil leaves the selection unchanged.
	Selection *Selection
	// Saved is the file of the saved settings; nil leaves it unchanged.
	Saved *SavedFile
	// Atomic rolls back all values if one is rejected.
	Atomic bool
	// OrNothing rolls back all values, and keeps the old selection, if values were rejected and no
	// other value could be set.
	OrNothing bool
	// Try makes the transaction a trial: it is undone unless confirmed by the deadline.
	Try *journal.Try
	// Supersedes names earlier transactions. An undo of this one also undoes them.
	Supersedes []int
	// Planned records who saved the applied plan; nil if it was not saved.
	Planned *journal.Planned
}

// Applied is the result of one transaction.
type Applied struct {
	Tx     int    `json:"transaction"`
	Result string `json:"result"` // done, partial, rolled-back, incomplete
	Plan   *Plan  `json:"plan"`
	// Recovered lists the interrupted transactions that were undone first.
	Recovered []int `json:"recovered,omitempty"`
}

// count returns the number of steps for which ok is true.
func (p *Plan) count(ok func(s *Step) bool) int {
	n := 0
	for i := range p.Steps {
		if ok(&p.Steps[i]) {
			n++
		}
	}
	return n
}

// InForce returns the number of steps whose value is in place.
func (a *Applied) InForce() int {
	return a.Plan.count(func(s *Step) bool { return s.Action != None && s.Verdict != plugin.Rejected })
}

// Failing returns the number of steps that were carried out but do not work.
func (a *Applied) Failing() int { return a.Plan.count((*Step).Failing) }

// Changed returns the number of rejected steps that changed their setting anyway.
func (a *Applied) Changed() int { return a.Plan.count(func(s *Step) bool { return s.Changed }) }

// Failed returns the number of steps whose value is invalid or was rejected.
func (a *Applied) Failed() int {
	return a.Plan.count(func(s *Step) bool { return s.Verdict == plugin.Rejected })
}

// Failing reports whether the step was carried out but does not work, such as a script whose
// verify fails.
func (s *Step) Failing() bool { return s.Action != None && s.Verdict == plugin.Drifted }

// inVain reports whether values were rejected and the plan sets no other value, now or later.
// Released values do not count.
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

// ResultNothing is the result if no value can be set; no transaction is recorded.
const ResultNothing = "nothing"

// acts reports whether applying the plan writes or takes over a setting.
func (p *Plan) acts() bool {
	return slices.ContainsFunc(p.Steps, func(s Step) bool { return s.Action != None })
}

// room estimates the size of the plan's journal records in bytes. Coupled settings are unknown
// before their stage, so it assumes one per write.
func (p *Plan) room() int64 {
	var room int64
	for _, s := range p.Steps {
		if s.Action != None {
			room += 2 * journal.Room(s.Before, s.Want)
		}
	}
	return room
}

// refused returns the values that the plan does not write because they are refused or kept.
func (p *Plan) refused() (out []journal.Refused) {
	for _, s := range p.Steps {
		if s.Action == None && (s.Verdict == plugin.Refused || s.Verdict == plugin.Kept) && len(out) < journal.MaxRefused {
			want := s.Want
			if len(want.Text) > journal.MaxNote {
				want = setting.Text(host.EscapeTruncate(want.Text, journal.MaxNote))
			}
			out = append(out, journal.Refused{Setting: s.Setting, Want: want, Why: host.EscapeTruncate(s.Why, journal.MaxNote)})
		}
	}
	return out
}

// Planner makes a plan for the journal's state s. It is called while the lock is held.
type Planner func(ctx context.Context, s *journal.State) (*Plan, error)

// Apply makes a plan and applies it as one transaction: durable before-images first, then the
// writes, then the outcomes. It undoes an interrupted transaction first. If ctx ends meanwhile, it
// rolls back everything and returns ctx's error.
func (e *Engine) Apply(ctx context.Context, plan Planner, o ApplyOptions) (*Applied, error) {
	j, err := e.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer j.Close()
	if d := j.State.Damage; len(d) > 0 {
		return nil, fmt.Errorf("the journal is damaged (%s), so new changes could not be undone exactly; nothing changed. Run fettle undo for instructions", d[0])
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
		return nil, fmt.Errorf("%w; nothing changed (leave out --atomic to apply the rest)", errors.Join(p.undecided...))
	}
	if i := slices.IndexFunc(p.Steps, func(s Step) bool { return s.Verdict == plugin.Rejected }); o.Atomic && i >= 0 {
		name := p.Steps[i].named().String()
		if p.Steps[i].Setting.Kind == plugin.OptionKind {
			name = plugin.ShowOption(p.Steps[i].Setting)
		}
		return nil, fmt.Errorf("%s: %s: %s; nothing changed (leave out --atomic to apply the rest)", p.Steps[i].Reason, name, p.Steps[i].Why)
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
		// The watchdog acts once, at the deadline. It would never undo a transaction that begins
		// later.
		if up, err := e.Host.Clock.SinceBoot(); err == nil && up >= o.Try.SinceBoot {
			return nil, errors.New("the trial time ended before the trial could begin; nothing changed. Try again")
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
	saved, err := o.Saved.change(e.Host)
	if err != nil {
		return nil, err
	}
	var tuned *journal.TunedFiles
	if selection != nil {
		tuned = e.tunedFiles()
	}
	t, err := j.Begin(e.started(ctx, journal.Begin{
		Kind: o.Kind, Selection: selection, Supersedes: o.Supersedes, Try: o.Try, Planned: o.Planned, Refused: p.refused(), Saved: saved, TuneD: tuned, Room: p.room(),
	}))
	if err != nil {
		return nil, err
	}
	a.Tx = t.ID
	w := &writer{Engine: e, journal: j, tx: t, plan: p, fresh: p.state == j.State, chains: j.State.Chains()}
	if err = e.writeSaved(saved); err == nil {
		err = w.run(ctx)
	}
	failed := a.Failed() + a.Failing()
	keep := err == nil && !(o.Atomic && failed > 0) && !(o.OrNothing && p.inVain())
	if keep {
		if a.Result = journal.ResultDone; failed > 0 {
			a.Result = journal.ResultPartial
		}
		err = j.Commit(journal.Commit{ID: t.ID, Time: e.Host.Clock.Now().UTC(), Result: a.Result, Outcomes: w.outcomes()})
	}
	if !keep || err != nil {
		// Ctrl-C and a failed journal write also end here: the journal has every write so far, and
		// all are restored.
		result, left := w.rollBack()
		a.Result, err = result, errors.Join(err, left)
	}
	e.log(t, a.Result, len(w.entries), a.Failed()+a.Failing())
	return a, err
}

// ErrStale is returned if a saved plan no longer matches the machine.
var ErrStale = &ui.Sentinel{Text: "the machine has changed since the plan was made", Exits: ui.Refused}

// ApplySaved returns a Planner for a saved plan. The Planner returns ErrStale unless every setting
// still has the value recorded in the plan.
func (e *Engine) ApplySaved(p *Plan) Planner {
	return func(ctx context.Context, s *journal.State) (*Plan, error) {
		// A new journal has one record; without a journal the generation is 0.
		switch {
		case p.Schema != PlanSchema:
			return nil, fmt.Errorf("unknown plan schema %q; want %q", p.Schema, PlanSchema)
		case p.Machine != e.Host.Name:
			return nil, fmt.Errorf("%w: made on machine %q, but this machine is %q", ErrStale, p.Machine, e.Host.Name)
		case p.BootID != e.bootID():
			return nil, fmt.Errorf("%w: made before the last reboot", ErrStale)
		case p.Generation == 0 && s.Generation > 1:
			return nil, fmt.Errorf("%w: made before fettle's first transaction, or by a user who cannot read the journal", ErrStale)
		case max(p.Generation, 1) != max(s.Generation, 1):
			return nil, fmt.Errorf("%w: another transaction was made since", ErrStale)
		}
		for i := range p.Steps {
			if err := e.holds(ctx, &p.Steps[i]); err != nil {
				return nil, fmt.Errorf("steps[%d]: %w", i, err)
			}
		}
		p.state = s
		return p, nil
	}
}

// holds returns the reason why a saved step cannot be applied: the machine has changed, or the
// step was edited into one that fettle does not plan.
func (e *Engine) holds(ctx context.Context, st *Step) error {
	if st.Action == None {
		return nil
	}
	kind, err := e.Kinds.For(st.Setting)
	if err != nil {
		return err
	}
	id, err := e.Kinds.Resolve(st.Setting)
	if err != nil {
		return err
	}
	if id != st.Setting {
		return fmt.Errorf("%w: %s is now %s", ErrStale, st.Setting, id)
	}
	if l := kind.Lifetime(); st.Lifetime != l {
		return fmt.Errorf("lifetime: %s has the lifetime %q, not %q", st.Setting, l, st.Lifetime)
	}
	now, err := kind.Read(ctx, st.Setting)
	if err != nil {
		return err
	}
	if setting.Ended(kind, now) {
		st.ended()
		return nil
	}
	if !e.Kinds.Equal(st.Setting, st.Want, now) {
		if err := e.Kinds.CheckRequest(st.Setting, st.Want, e.ProfileDirs); err != nil {
			return err
		}
		if why, ok := e.Kinds.WhyIrreversible(st.Setting, now, st.Want); ok && st.Action == Write {
			return fmt.Errorf("%s not written, because undo could not restore it: %s", st.Setting, why)
		}
	}
	if !e.Kinds.Equal(st.Setting, st.Before, now) {
		return fmt.Errorf("%w: %s was %s and is now %s", ErrStale, st.Setting, show(st.Before), show(now))
	}
	st.Before = now
	if st.Action == Same && e.Kinds.Compare(st.Setting, st.Want, now) == setting.Different {
		return fmt.Errorf("action: same, but %s is %s, not %s; want action write", st.Setting, show(now), show(st.Want))
	}
	equal := func(a, b setting.Value) bool { return e.Kinds.Equal(st.Setting, a, b) }
	if k, ok := e.Keep.Forbids(st.Want, equal, st.Setting); ok && st.Action != Same {
		return fmt.Errorf("%s must not be changed: kept by %s (%s)", st.Setting, k, k.Reason)
	}
	if part, k, ok := e.changesPart(ctx, kind, st.Before, st.Want); ok && st.Action != Same {
		return fmt.Errorf("%s must not be changed: kept by %s (%s)", part.Setting, k, k.Reason)
	}
	return nil
}
