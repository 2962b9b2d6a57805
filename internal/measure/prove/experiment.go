package prove

import (
	"context"
	"errors"
	"fmt"
	"time"

	"fettle.dev/fettle/internal/stats"
	"fettle.dev/fettle/internal/unit"
)

// Values are the results of one sample, by metric name.
type Values map[string]float64

// Measurement is the result of one sample.
type Measurement struct {
	Values Values
	// Within summarizes the single values of the deciding metric, if the sample has several.
	Within *stats.Summary
}

// Workload is the work to measure. Each sample repeats it in the same way.
type Workload interface {
	Measure(context.Context, Step) (Measurement, error)
}

// Change is the change under test. After an error the machine counts as neither with nor
// without the change, until Undo succeeds.
type Change interface {
	// Apply and Undo switch between the arms.
	Apply(context.Context) error
	Undo(context.Context) error
	// Holds returns an error if another program has changed a value of the arm.
	Holds(context.Context, Arm) error
}

// Watch records counters of the machine during samples.
type Watch interface {
	Begin() error
	// End returns each value's change since Begin, or its state.
	End() (Values, error)
}

// Sample is one recorded run or window of the work.
type Sample struct {
	Step
	At     time.Time      `json:"time"`
	TookS  float64        `json:"duration_s"`
	Values Values         `json:"values"`
	Within *stats.Summary `json:"within,omitempty"`
	Moved  Values         `json:"moved,omitempty"` // observed by Watch; exploratory
}

// Experiment executes a design on a machine.
type Experiment struct {
	Design   Design
	Change   Change
	Workload Workload
	Watch    Watch // may be nil
	Clock    interface{ Now() time.Time }
	// Record is called with each sample before the next one begins. It must store the sample durably
	// before it returns.
	Record func(Sample) error
	// Progress, if not nil, is called after each sample.
	Progress func(*Course, Sample)
	// Comparison reports that the arms are two commands or commits, instead of the machine without
	// and with a change.
	Comparison bool
	// Shorten omits warm-ups if the budget does not suffice for a verdict with them. It is for
	// comparisons, where a switch changes nothing on the machine.
	Shorten bool
}

// Ending is the reason that an experiment ended.
type Ending string

// The endings.
const (
	EndedVerdict     Ending = "verdict"
	EndedMost        Ending = "most-blocks"
	EndedBudget      Ending = "budget"
	EndedInterrupted Ending = "interrupted"
	EndedGuard       Ending = "guard-rail"
	EndedFailed      Ending = "failed"
)

// Run executes the experiment, from its start or after past samples, and returns its ending. When
// it returns, the machine is without the change, or the error contains a *Stuck.
func (e *Experiment) Run(ctx context.Context, past []Sample) (course *Course, ending Ending, err error) {
	if err := e.Design.Check(); err != nil {
		return nil, EndedFailed, err
	}
	course, err = Replay(e.Design, past)
	if err != nil {
		return course, EndedFailed, err
	}
	spent := time.Duration(0)
	for _, v := range past {
		spent += time.Duration(v.TookS * float64(time.Second))
	}
	r := runner{Experiment: e, course: course, at: Without, began: e.Clock.Now().Add(-spent), samples: len(past)}
	if len(past) > 0 {
		// The interruption may have prevented the undo as well.
		r.at = ""
		if err := e.Change.Undo(ctx); err != nil {
			return course, EndedFailed, &Stuck{err}
		}
		r.at = Without
	}
	ending, err = r.run(ctx)
	if r.at != Without {
		// Not cancelable: an interruption leads here.
		undo := e.Change.Undo(context.WithoutCancel(ctx))
		d := (*disturbed)(nil)
		switch {
		case errors.Is(undo, ErrTakenBack) && errors.As(err, &d):
			err = fmt.Errorf("%w: %w", undo, d.error)
		case errors.Is(undo, ErrTakenBack):
			err = errors.Join(undo, err)
		case undo != nil:
			err = errors.Join(&Stuck{undo}, err)
		}
	}
	return course, ending, err
}

// Replay returns the state of an experiment after past samples.
func Replay(d Design, past []Sample) (*Course, error) { return replay(d, past, func(*Course) {}) }

// Looks returns the verdict after each block that counts.
func Looks(d Design, past []Sample) (looks []Verdict, err error) {
	_, err = replay(d, past, func(c *Course) {
		switch n := c.Counted(); {
		case n == 0:
			looks = nil // the warm-up was too short
		case n > len(looks):
			looks = append(looks, c.Verdict())
		}
	})
	return looks, err
}

// replay calls look after each sample.
func replay(d Design, past []Sample, look func(*Course)) (*Course, error) {
	c := Begin(d)
	for _, v := range past {
		if v.Short && !c.short {
			c.Shorten()
		}
		if v.Step != c.Next() {
			c.Abandon() // the experiment was interrupted here
		}
		if v.Step != c.Next() {
			return c, fmt.Errorf("the record does not match its design: sample %+v, want %+v", v.Step, c.Next())
		}
		if err := c.Took(v.Values); err != nil {
			return c, err
		}
		look(c)
	}
	c.Abandon()
	return c, nil
}

// Stuck is returned if the change could not be undone.
type Stuck struct{ Err error }

func (s *Stuck) Error() string { return "the change is not undone: " + s.Err.Error() }
func (s *Stuck) Unwrap() error { return s.Err }

// Rehearse applies the change once and undoes it. It finds values that the kernel rejects before
// anything is measured. The error is an *Unswitched if the machine is unchanged, and a *Stuck if
// it is not.
func Rehearse(ctx context.Context, c Change) error {
	err := c.Apply(ctx)
	if err == nil {
		err = c.Holds(ctx, With)
	}
	if undo := c.Undo(context.WithoutCancel(ctx)); undo != nil && !errors.Is(undo, ErrTakenBack) {
		return errors.Join(&Stuck{undo}, err)
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return &Unswitched{"applied", err}
	}
	return c.Holds(ctx, Without)
}

// Exceeded is returned if a metric is above its cap.
type Exceeded struct {
	Cap
	Value float64
}

func (x *Exceeded) Error() string {
	return fmt.Sprintf("%s exceeds the limit of --stop-above: %s > %s", x.Name, unit.Digits(x.Value), unit.Digits(x.Most))
}

// Exceeded returns an error for the first exceeded cap, or nil. Workloads may call it during a
// sample.
func (d Design) Exceeded(v Values) error {
	for _, c := range d.Caps {
		if value, measured := v[c.Name]; measured && value > c.Most {
			return &Exceeded{c, value}
		}
	}
	return nil
}
