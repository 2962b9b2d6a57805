package experiment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/measure/prove"
	"fettle.dev/fettle/internal/measure/search"
	"fettle.dev/fettle/internal/stats"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

// SearchOptions are the options of fettle search: those of an experiment, without a change.
type SearchOptions struct {
	Options
	Space string   `json:"space,omitempty"` // a shipped space: NAME or NAME:OBJECT
	Try   []string `json:"try,omitempty"`   // SETTING=VALUE,VALUE,...
	Runs  int      `json:"runs"`
}

// proofShare is the share of the budget that is kept for the proof.
const proofShare = 0.4

// Search looks for better values of several settings, and proves the best.
type Search struct {
	*Experiment // machine, work, watchdog and lease while the search measures
	o           SearchOptions
	keeper      *evidence.Keeper
	body        *search.Evidence
	course      *search.Course
	deadline    *journal.Try
	in          *prove.Tuning              // the point that is in force; nil: the default
	byDefault   []float64                  // times of the runs with the default, in seconds
	proving     atomic.Pointer[Experiment] // nil until the proof
}

// Restored reports whether the machine is restored.
func (s *Search) Restored() bool { return s.current().Restored() }

// Leave ends the process at once; the watchdog restores the machine.
func (s *Search) Leave() { s.current().Leave() }

func (s *Search) current() *Experiment {
	if p := s.proving.Load(); p != nil {
		return p
	}
	return s.Experiment
}

// SearchResult is the result of a search. Run has no ID if it was interrupted.
type SearchResult struct {
	Run  *evidence.Run
	Body *search.Evidence
}

// Run searches. It returns nil if nothing was measured.
func (s *Search) Run(ctx context.Context, o SearchOptions, work []string) (*SearchResult, error) {
	s.o, s.body = o, &search.Evidence{Schema: search.Schema, Work: work}
	s.keeper = evidence.NewKeeper(Store(s.Machine), s.By, s.Host, search.Kind)
	if o.Resume != "" {
		if err := s.resumeSearch(); err != nil {
			return nil, err
		}
	}
	s.Experiment.o, s.Experiment.body = s.o.Options, &prove.Evidence{Work: s.body.Work}
	if err := s.prepareSearch(ctx); err != nil {
		if s.closing != nil {
			err = errors.Join(err, s.closing())
		}
		return nil, err
	}
	err := s.explore(ctx)
	if s.closing != nil { // before the proof, which prepares the work again
		if closed := s.closing(); closed != nil {
			err = errors.Join(err, ui.Exit(ui.Incomplete, closed))
		}
	}
	switch {
	case len(s.body.Visits) == 0:
		return nil, errors.Join(err, s.keeper.Nothing())
	case err != nil:
		return s.cut(ctx, err)
	}
	s.body.Sum(s.course)
	if len(s.body.Best) > 0 {
		if err = s.prove(ctx); s.body.Proof == nil {
			return s.cut(ctx, err)
		}
		s.body.Sum(s.course)
	}
	err = errors.Join(err, s.keeper.Record(s.body.Text, s.body))
	if err == nil && (s.body.Proof == nil || s.body.Proof.Word != prove.Better) {
		err = ui.Exit(ui.GateNotMet, errors.New("nothing changed: no better values were proved"))
	}
	return &SearchResult{s.keeper.Run, s.body}, err
}

// cut ends a search that was interrupted or failed. Its record can be resumed.
func (s *Search) cut(ctx context.Context, err error) (*SearchResult, error) {
	s.body.Ending, s.body.Error = search.EndedFailed, err.Error()
	if ctx.Err() != nil {
		s.body.Ending, s.body.Error = search.EndedInterrupted, "interrupted"
	}
	s.body.Sum(s.course)
	saved := s.keeper.Finished(s.body.Text, s.body)
	r := s.keeper.Run
	r.Verdict = s.body.Text
	if body, err := json.Marshal(s.body); err == nil {
		r.Body = body
	}
	name := s.keeper.Name()
	code := codeOf(err)
	switch {
	case errors.As(err, new(*prove.Stuck)):
		return &SearchResult{r, s.body}, errors.Join(s.stuck(err), saved)
	case ctx.Err() != nil:
		code, err = ui.Interrupted, errors.New("interrupted; machine restored, measurements saved")
	}
	return &SearchResult{r, s.body}, errors.Join(ui.Hinted(code, err, "to continue, run: fettle search --resume "+name), saved)
}

// resumeSearch reads the record of an interrupted search.
func (s *Search) resumeSearch() error {
	name := s.o.Resume
	if name == "last" {
		var err error
		if name, err = lastCutOff(s.keeper.Store, search.Kind); err != nil {
			return err
		}
	}
	var line struct {
		Body json.RawMessage `json:"body"`
	}
	run, err := s.keeper.Continue(name, func(text []byte) error { return json.Unmarshal(text, &line) })
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return ui.Hinted(ui.Usage, fmt.Errorf("no interrupted search %q found", name), "fettle runs list shows all runs")
	case err != nil:
		return err
	case run.Kind != search.Kind:
		return ui.Hinted(ui.Usage, fmt.Errorf("run %s is a %s, not a search", name, run.Kind), "fettle runs show "+name+" shows it")
	}
	if here := evidence.Fingerprint(s.Host); here.Hardware != run.Machine.Hardware {
		return ui.Hinted(ui.Refused, fmt.Errorf("run %s was started on another machine (%s, %s)", name, run.Machine.Name, run.Machine.CPU), "resume it on that machine: fettle search --resume "+name)
	}
	if err := json.Unmarshal(line.Body, s.body); err != nil {
		return err
	}
	s.body.Ending, s.body.Error, s.body.Best, s.body.Seen, s.body.Proof = "", "", nil, 0, nil
	o := SearchOptions{}
	if err := json.Unmarshal(s.body.Asked, &o); err != nil {
		return err
	}
	o.Keep, o.Resume, o.Anyway = s.o.Keep, name, s.o.Anyway
	s.o = o
	return nil
}

// Plan returns what a search would do. It changes nothing and needs no rights of root.
func (s *Search) Plan(ctx context.Context, o SearchOptions, work []string) (*search.Plan, error) {
	s.o, s.body = o, &search.Evidence{Work: work}
	s.Experiment.o, s.Experiment.body = o.Options, &prove.Evidence{Work: work}
	if err := s.makeWork(ctx, ""); err != nil {
		return nil, orExit(ui.Usage, err)
	}
	if s.closing != nil {
		defer func() { _ = s.closing() }()
	}
	d, tested, err := s.searchDesign(ctx)
	if err != nil {
		return nil, err
	}
	return search.NewPlan(d, s.design.Metric, proofShare*o.Budget.Seconds(), restarts(tested)), nil
}

// searchDesign returns the design, and a step of a plan for each setting.
func (s *Search) searchDesign(ctx context.Context) (d search.Design, tested []tune.Step, err error) {
	d = search.Design{Runs: s.o.Runs, BudgetS: (1 - proofShare) * s.o.Budget.Seconds(), Margin: math.Log1p(s.design.Margin), Seed: s.o.Seed}
	if d.Space, tested, err = s.space(ctx, s.o); err != nil {
		return d, nil, err
	}
	if err := d.Check(); err != nil {
		return d, nil, ui.Exit(ui.Usage, err)
	}
	return d, tested, nil
}

// prepareSearch checks that the space can be searched, and starts the watchdog. It changes nothing.
func (s *Search) prepareSearch(ctx context.Context) (err error) {
	if s.deadline, err = deadlineAfter(s.Machine, 2*s.o.Budget+time.Hour); err != nil {
		return err
	}
	switch err := s.makeWork(ctx, mark(s.deadline.SinceBoot, "work")); {
	case err != nil && ctx.Err() != nil:
		return errInterrupted
	case err != nil:
		return orExit(ui.Usage, err)
	}
	if err := s.takeLease(ctx); err != nil {
		return err
	}
	d, tested, err := s.searchDesign(ctx)
	if err != nil {
		return err
	}
	if err := s.refuseRestarts(tested, fmt.Sprintf("up to %d", 2*s.o.Runs)); err != nil {
		return err
	}
	s.Experiment.body.Change.Settings = underTest(tested)
	if err := s.refuseOtherTuner(ctx); err != nil {
		return err
	}
	if len(s.body.Visits) > 0 && !slices.EqualFunc(d.Knobs, s.body.Design.Knobs, sameKnob) {
		return ui.Hinted(ui.Refused, errors.New("values on this machine have changed since the search began; old and new measurements cannot be combined"), "fettle why SETTING shows what changed a value; restore it, or start a new search with fettle search")
	}
	s.body.Design, s.body.Metric = d, s.design.Metric
	if s.body.Asked, err = json.Marshal(s.o); err != nil {
		return err
	}
	for _, v := range s.body.Visits {
		if v.Point.Equal(d.Default()) {
			s.byDefault = append(s.byDefault, v.TookS/float64(1+s.design.Washout))
		}
	}
	if s.course, err = search.Replay(d, s.design.Metric, s.body.Visits); err != nil {
		return ui.Hinted(ui.Refused, err, "start a new search with fettle search")
	}
	if err := s.work.Check(ctx); err != nil {
		return orExit(ui.Usage, err)
	}
	if s.watchdog, err = guard(s.Watchdog, s.deadline, "", s.o.Dir, s.lease); err != nil {
		return err
	}
	s.guarded.Store(true)
	return nil
}

func sameKnob(a, b search.Knob) bool {
	return a.Name == b.Name && a.Default == b.Default && a.Ordered == b.Ordered && slices.Equal(a.Levels, b.Levels)
}

// explore makes the runs of the search. When it returns, the machine has its own values, or the
// error contains a *prove.Stuck.
func (s *Search) explore(ctx context.Context) (err error) {
	defer func() {
		stuck := (*prove.Stuck)(nil)
		switch undone := s.leavePoint(ctx); {
		case undone != nil && errors.As(err, &stuck): // tried before
		case undone != nil:
			err = errors.Join(undone, err)
		case errors.As(err, &stuck):
			err = fmt.Errorf("a change was undone only at the second attempt: %w", stuck.Err)
		}
		if !errors.As(err, &stuck) {
			s.dismiss()
		}
	}()
	for _, why := range s.unfit(ctx) {
		s.Screen.Say("the machine is busy: %s; the search finds less, and the interval of the proof is wider, but valid; see fettle quiet check", why)
	}
	s.Screen.Say("%s", search.NewPlan(s.body.Design, s.design.Metric, proofShare*s.o.Budget.Seconds(), nil).Sentence())
	step, stop := s.Screen.StepsUntil(s.Host.Clock.Now().Add(time.Duration(s.body.Design.BudgetS * float64(time.Second))))
	defer stop()
	for s.course.Next().Phase != search.Done {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		v, err := s.visit(ctx, s.course.Next())
		if err != nil {
			return err
		}
		s.body.Visits = append(s.body.Visits, v)
		if v.Stopped != "" {
			s.course.Stopped(v.TookS)
		} else {
			s.course.Took(search.Cost(s.design.Metric, v.Value), v.TookS)
		}
		if err := s.keeper.Finished("under way", s.body); err != nil {
			return err
		}
		step(string(v.Phase), len(s.body.Visits), s.o.Runs)
	}
	return nil
}

// visit measures a point once, after its warm-up runs.
func (s *Search) visit(ctx context.Context, at search.Step) (v search.Visit, err error) {
	began := s.Host.Clock.Now()
	v = search.Visit{Step: at, At: began.UTC()}
	defer func() { v.TookS = s.Host.Clock.Now().Sub(began).Seconds() }()
	err = s.enterPoint(ctx, at.Point)
	if unset := (*prove.Unswitched)(nil); errors.As(err, &unset) && s.in == nil && ctx.Err() == nil && codeOf(err) == ui.RolledBack {
		v.Stopped = "its values cannot be set: " + unset.Err.Error()
		return v, nil
	}
	if err != nil {
		return v, err
	}
	for i := range s.design.Washout + 1 {
		var values prove.Values
		if values, v.Stopped, err = s.once(ctx, s.in == nil); err != nil || v.Stopped != "" {
			break
		}
		if i == s.design.Washout {
			v.Value = values[s.design.Metric.Name]
		}
	}
	if err == nil && v.Stopped == "" && !(v.Value > 0) {
		err = fmt.Errorf("%s is %s; a search compares ratios, so it must be above 0", s.design.Metric.Name, unit.Digits(v.Value))
	}
	if err == nil && v.Stopped != "" && s.in == nil {
		err = ui.Exit(ui.Failed, fmt.Errorf("the work fails without any change: %s", v.Stopped))
	}
	return v, err
}

// slowest is how many times longer than usual a run may take before it is stopped.
const slowest = 5

// once makes a run. stopped is the brake that ended or rejected it.
func (s *Search) once(ctx context.Context, byDefault bool) (values prove.Values, stopped string, err error) {
	limited, cancel := ctx, context.CancelFunc(func() {})
	if len(s.byDefault) > 0 {
		limited, cancel = context.WithTimeout(ctx, max(time.Second, Seconds(slowest*stats.Median(s.byDefault))))
	}
	defer cancel()
	watch := &prove.Machine{Host: s.Host}
	if err := watch.Begin(); err != nil {
		return nil, "", err
	}
	began := s.Host.Clock.Now()
	m, err := s.work.Visit(limited, prove.Step{})
	took := s.Host.Clock.Now().Sub(began).Seconds()
	switch {
	case ctx.Err() != nil:
		return nil, "", ctx.Err()
	case limited.Err() != nil:
		return nil, fmt.Sprintf("took more than %d times as long as usual", slowest), nil
	case err != nil:
		return nil, "the work failed: " + err.Error(), nil
	}
	moved, err := watch.End()
	if err != nil {
		return nil, "", err
	}
	if byDefault {
		s.byDefault = append(s.byDefault, took)
	}
	if s.in != nil {
		if err := s.in.Holds(ctx, prove.With); err != nil {
			return nil, "", fmt.Errorf("another program changed the machine: %w", err)
		}
	}
	return m.Values, s.brake(m.Values, moved, took), nil
}

// Limits at which a point is stopped, besides --stop-above.
const mostStalled = 0.2 // share of the time in which no task runs for lack of memory

// brake returns why a point must not be tried again, or "".
func (s *Search) brake(values, moved prove.Values, took float64) string {
	if err := s.design.Exceeded(values); err != nil {
		return err.Error()
	}
	if moved["vmstat.oom_kill"] > 0 {
		return "the kernel killed a process for lack of memory"
	}
	if s.in != nil && moved["pressure.memory.full_s"] > mostStalled*took {
		return fmt.Sprintf("all tasks waited for memory %s of the time", text.Percent(moved["pressure.memory.full_s"]/took))
	}
	return ""
}

// enterPoint puts the values of a point in force.
func (s *Search) enterPoint(ctx context.Context, p search.Point) error {
	if err := s.leavePoint(ctx); err != nil {
		return err
	}
	sets := s.body.Design.Changes(p)
	if len(sets) == 0 {
		return nil
	}
	planner, apply, err := s.Planner(ctx, tune.Request{Set: sets, Atomic: true})
	if err != nil {
		return err
	}
	apply.Try, apply.OrNothing = s.deadline, false
	t := &prove.Tuning{Engine: s.Engine, Planner: planner, Options: apply}
	tested, left, err := t.Look(ctx)
	switch {
	case err == nil && len(tested) != len(sets):
		return errors.New("another program changed a setting of the search")
	case err != nil:
		for _, st := range left {
			err = fmt.Errorf("%w; %s: %s", err, st.Setting, st.Why)
		}
		return err
	}
	s.in = t // also after an error: Undo decides whether there is something to undo
	if err := t.Apply(ctx); err != nil {
		return errors.Join(s.leavePoint(ctx), &prove.Unswitched{What: "applied", Err: err})
	}
	return nil
}

// leavePoint restores the machine's own values.
func (s *Search) leavePoint(ctx context.Context) error {
	if s.in == nil {
		return nil
	}
	err := s.in.Undo(context.WithoutCancel(ctx))
	if err != nil && !errors.Is(err, prove.ErrTakenBack) {
		return &prove.Stuck{Err: err}
	}
	s.in = nil
	return err
}

// prove tests the best point by an experiment of its own, which has its own record.
func (s *Search) prove(ctx context.Context) error {
	o := s.o.Options
	spent := 0.0
	for _, v := range s.body.Visits {
		spent += v.TookS
	}
	o.Set, o.Resume = s.body.Best, ""
	o.Budget = max(s.o.Budget-Seconds(spent), Seconds(proofShare*s.o.Budget.Seconds()))
	s.Screen.Say("the best of %s: %s; now proving it in at most %s", text.Count(len(s.body.Visits), "run"), strings.Join(s.body.Best, ", "), ui.Roughly(o.Budget.Seconds()))
	p := &Experiment{Machine: s.Machine, Screen: s.Screen, By: s.By, Watchdog: s.Watchdog, Settle: s.Settle}
	s.proving.Store(p)
	r, err := p.Run(ctx, o, s.body.Work)
	if r != nil && r.Run.ID != "" {
		s.body.Proof = &search.Proof{Run: r.Run.ID, Word: r.Body.Word, Text: r.Body.Text}
	}
	if gate := (*ui.Error)(nil); s.body.Proof != nil && errors.As(err, &gate) && gate.Code == ui.GateNotMet {
		err = nil // the proof stopped because the values are worse
	}
	s.body.Kept = err == nil && o.Keep && s.body.Proof != nil && s.body.Proof.Word == prove.Better
	if err == nil && s.body.Proof == nil {
		err = errors.New("the proof ended without a record")
	}
	return err
}
