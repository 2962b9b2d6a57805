package experiment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/measure/prove"
	"fettle.dev/fettle/internal/measure/search"
	"fettle.dev/fettle/internal/ui"
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
	s.Experiment.o, s.Experiment.body, s.verb = s.o.Options, &prove.Evidence{Work: s.body.Work}, search.Kind
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
	case len(s.body.Samples) == 0:
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
	if name == Last {
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
	if err := s.sameMachine(run, name, "fettle search --resume "+name); err != nil {
		return err
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
	if err := preparing(ctx, s.makeWork(ctx, mark(s.deadline.SinceBoot, "work"))); err != nil {
		return err
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
	if len(s.body.Samples) > 0 && !slices.EqualFunc(d.Knobs, s.body.Design.Knobs, sameKnob) {
		return ui.Hinted(ui.Refused, errors.New("values on this machine have changed since the search began; old and new measurements cannot be combined"), "fettle why SETTING shows what changed a value; restore it, or start a new search with fettle search")
	}
	s.body.Design, s.body.Metric = d, s.design.Metric
	if s.body.Asked, err = json.Marshal(s.o); err != nil {
		return err
	}
	for _, v := range s.body.Samples {
		if v.Point.Equal(d.Default()) {
			s.byDefault = append(s.byDefault, v.TookS/float64(1+s.design.Washout))
		}
	}
	if s.course, err = search.Replay(d, s.design.Metric, s.body.Samples); err != nil {
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
