package prove

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// runner is a run of an experiment.
type runner struct {
	*Experiment
	course  *Course
	at      Arm // state of the machine; "" if uncertain
	began   time.Time
	samples int // of the whole experiment
}

func (r *runner) run(ctx context.Context) (Ending, error) {
	for {
		s := r.course.Next()
		switch {
		case s.Phase == Done:
			if r.course.decided() {
				return EndedVerdict, nil
			}
			return EndedMost, nil
		case ctx.Err() != nil:
			return EndedInterrupted, nil
		case r.Design.BudgetS > 0 && r.Clock.Now().Sub(r.began).Seconds() > r.Design.BudgetS:
			return EndedBudget, nil
		}
		washout, samples := r.course.washout, r.samples
		if r.tooLong() {
			r.course.Shorten()
			s = r.course.Next()
		}
		if err := r.step(ctx, s); err != nil {
			if r.samples == samples && s.Short { // the record does not have this sample
				r.course.short, r.course.washout = washout == 0, washout
			}
			if ctx.Err() != nil {
				return EndedInterrupted, nil // the interruption may be the cause of the error
			}
			if errors.As(err, new(*guardError)) || errors.As(err, new(*Exceeded)) {
				return EndedGuard, err
			}
			return EndedFailed, err
		}
	}
}

// step takes one sample.
func (r *runner) step(ctx context.Context, s Step) error {
	if err := r.arm(ctx, s); err != nil {
		return err
	}
	if err := r.holds(ctx); err != nil {
		return err
	}
	if r.Watch != nil {
		if err := r.Watch.Begin(); err != nil {
			return err
		}
	}
	began := r.Clock.Now()
	measured, err := r.Workload.Measure(ctx, s)
	took := r.Clock.Now().Sub(began)
	if over := (*Exceeded)(nil); errors.As(err, &over) {
		return over
	}
	if err != nil {
		if r.Comparison {
			return fmt.Errorf("%s failed: %w", r.at, err)
		}
		return fmt.Errorf("the measured work failed %s: %w", r.side(r.at), err)
	}
	v := Sample{Step: s, At: began, TookS: took.Seconds(), Values: measured.Values, Within: measured.Within}
	if r.Watch != nil {
		if v.Moved, err = r.Watch.End(); err != nil {
			return err
		}
	}
	// If a setting changed during the sample, the sample belongs to neither arm.
	if err := r.holds(ctx); err != nil {
		return err
	}
	if err := r.course.Took(v.Values); err != nil {
		return err
	}
	if err := r.Record(v); err != nil {
		return fmt.Errorf("cannot record the %s: %w", r.Design.Unit(), err)
	}
	r.samples++
	if r.Progress != nil {
		r.Progress(r.course, v)
	}
	if err := r.Design.Exceeded(v.Values); err != nil {
		return err
	}
	for _, g := range r.course.Guards() {
		if g.State == "broken" {
			return &guardError{g, r.side(With)}
		}
	}
	return nil
}

// holds returns an error if the machine is no longer in the state of the current arm.
func (r *runner) holds(ctx context.Context) error {
	if err := r.Change.Holds(ctx, r.at); err != nil {
		return &disturbed{err}
	}
	return nil
}

// disturbed is returned if another program changed a setting under test.
type disturbed struct{ error }

func (d *disturbed) Error() string {
	return "another program changed the machine: " + d.error.Error()
}
func (d *disturbed) Unwrap() error { return d.error }

// side describes an arm in words.
func (r *runner) side(a Arm) string {
	switch {
	case r.Comparison:
		return "with " + string(a)
	case a == With:
		return "with the change"
	}
	return "without the change"
}

// arm switches the machine to the arm of the sample.
func (r *runner) arm(ctx context.Context, s Step) error {
	if s.Arm == r.at {
		return nil
	}
	to, name := r.Change.Apply, "applied"
	if s.Arm == Without {
		to, name = r.Change.Undo, "undone"
	}
	r.at = ""
	switch err := to(ctx); {
	case errors.Is(err, ErrTakenBack):
		r.at = Without
		return err
	case err != nil:
		return &Unswitched{name, err}
	}
	r.at = s.Arm
	return nil
}

// Unswitched is returned if the change could not be applied or undone.
type Unswitched struct {
	What string // applied, undone
	Err  error
}

func (u *Unswitched) Error() string {
	return "the change could not be " + u.What + ": " + u.Err.Error()
}
func (u *Unswitched) Unwrap() error { return u.Err }

// tooLong reports whether the budget does not suffice for a verdict with the warm-ups that are to come.
func (r *runner) tooLong() bool {
	c := r.course
	if !r.Shorten || c.short || c.washout == 0 || r.Design.BudgetS == 0 || r.samples == 0 || c.place > 0 {
		return false
	}
	spent := r.Clock.Now().Sub(r.began).Seconds()
	blocks := c.Fewest() - c.Counted()
	return spent+float64(blocks)*c.Samples()*spent/float64(r.samples) > r.Design.BudgetS
}

// guardError is returned if a guard rail was hit.
type guardError struct {
	Guarded
	side string // in words
}

func (g *guardError) Error() string {
	return fmt.Sprintf("guard rail: %s is at least %s worse %s; the limit is %s", g.Name, percent(g.Worse[0]), g.side, percent(g.Most))
}
