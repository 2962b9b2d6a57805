package experiment

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/measure/prove"
	"fettle.dev/fettle/internal/measure/search"
	"fettle.dev/fettle/internal/stats"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

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
		v, err := s.sample(ctx, s.course.Next())
		if err != nil {
			return err
		}
		s.body.Samples = append(s.body.Samples, v)
		if v.Stopped != "" {
			s.course.Stopped(v.TookS)
		} else {
			s.course.Took(search.Cost(s.design.Metric, v.Value), v.TookS)
		}
		if err := s.keeper.Finished("under way", s.body); err != nil {
			return err
		}
		step(string(v.Phase), len(s.body.Samples), s.o.Runs)
	}
	return nil
}

// sample measures a point once. A run that takes too long is made again after a run with the
// machine's own values, because another program may have disturbed it.
func (s *Search) sample(ctx context.Context, at search.Step) (v search.Sample, err error) {
	began := s.Host.Clock.Now()
	v = search.Sample{Step: at, At: began.UTC()}
	defer func() { v.TookS = s.Host.Clock.Now().Sub(began).Seconds() }()
	v.Value, v.Stopped, err = s.measure(ctx, at.Point)
	if err == nil && v.Stopped == tooSlow {
		if _, _, err = s.measure(ctx, s.body.Design.Default()); err == nil {
			v.Value, v.Stopped, err = s.measure(ctx, at.Point)
		}
	}
	return v, err
}

// measure returns the metric at a point, after its warm-up runs, or the brake that stopped it.
func (s *Search) measure(ctx context.Context, at search.Point) (value float64, stopped string, err error) {
	err = s.enterPoint(ctx, at)
	if unset := (*prove.Unswitched)(nil); errors.As(err, &unset) && s.in == nil && ctx.Err() == nil && codeOf(err) == ui.RolledBack {
		return 0, "its values cannot be set: " + unset.Err.Error(), nil
	}
	if err != nil {
		return 0, "", err
	}
	for range s.design.Washout + 1 {
		var values prove.Values
		values, stopped, err = s.once(ctx)
		switch {
		case err != nil:
			return 0, "", err
		case stopped != "" && s.in == nil:
			return 0, "", ui.Exit(ui.Failed, fmt.Errorf("the work fails without any change: %s", stopped))
		case stopped != "":
			return 0, stopped, nil
		}
		value = values[s.design.Metric.Name]
	}
	if value > 0 && !math.IsInf(value, 1) {
		return value, "", nil
	}
	stopped = fmt.Sprintf("%s is %s; a search compares ratios, so it must be above 0", s.design.Metric.Name, unit.Digits(value))
	if s.in == nil {
		return 0, "", ui.Exit(ui.Failed, errors.New(stopped))
	}
	return 0, stopped, nil
}

// slowest is how many times longer than usual a run may take before it is stopped.
const slowest = 5

// tooSlow is the message of the brake that stops a run after slowest times the usual time.
var tooSlow = fmt.Sprintf("took more than %d times as long as usual", slowest)

// limit returns the maximum time of a run with changed values: slowest times the usual time. The
// usual time is the median of the runs with the machine's own values, or the time of the last such
// run if that is longer, up to slowest times the median.
func (s *Search) limit() time.Duration {
	median, last := stats.Median(s.byDefault), s.byDefault[len(s.byDefault)-1]
	return max(time.Second, Seconds(slowest*min(max(median, last), slowest*median)))
}

// once makes a run. stopped is the brake that ended or rejected it.
func (s *Search) once(ctx context.Context) (values prove.Values, stopped string, err error) {
	limited, cancel := ctx, context.CancelFunc(func() {})
	if s.in != nil && len(s.byDefault) > 0 {
		limited, cancel = context.WithTimeout(ctx, s.limit())
	}
	defer cancel()
	watch := &prove.Machine{Host: s.Host}
	if err := watch.Begin(); err != nil {
		return nil, "", err
	}
	began := s.Host.Clock.Now()
	m, err := s.work.Measure(limited, prove.Step{})
	took := s.Host.Clock.Now().Sub(began).Seconds()
	switch {
	case ctx.Err() != nil:
		return nil, "", ctx.Err()
	case limited.Err() != nil:
		return nil, tooSlow, nil
	case err != nil:
		return nil, "the work failed: " + err.Error(), nil
	}
	moved, err := watch.End()
	if err != nil {
		return nil, "", err
	}
	if s.in == nil {
		s.byDefault = append(s.byDefault, took)
	} else if err := s.in.Holds(ctx, prove.With); err != nil {
		return nil, "", fmt.Errorf("another program changed the machine: %w", err)
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
