package prove

import (
	"context"
	"errors"
	"fmt"
	"time"

	"fettle.dev/fettle/internal/stats"
)

// Values are what one visit has measured, by the name of the metric.
type Values map[string]float64

// Measurement is what one visit has measured.
type Measurement struct {
	Values Values
	// Within sums up the single measurements of the metric that decides, where a
	// visit has many.
	Within *stats.Summary
}

// Workload is the work whose speed is asked: once more in the same way at each visit.
// The step says which visit it is.
type Workload interface {
	Visit(context.Context, Step) (Measurement, error)
}

// Change is what is under test. After an error the machine is taken to be neither
// with nor without the change, until Undo succeeds.
type Change interface {
	// Apply and Undo switch between the arms.
	Apply(context.Context) error
	Undo(context.Context) error
	// Placebo goes the way of Apply and of Undo, and changes nothing: it writes the
	// values that are there.
	Placebo(context.Context) error
	// Holds says what is not as the arm wants it, because somebody else changed it.
	Holds(context.Context, Arm) error
}

// Watch observes the machine during a visit.
type Watch interface {
	Begin() error
	// End is by how much each thing has moved since Begin, or where it stands.
	End() (Values, error)
}

// Visit is one visit of the record.
type Visit struct {
	Step
	At     time.Time      `json:"time"`
	TookS  float64        `json:"duration_s"`
	Values Values         `json:"values"`
	Within *stats.Summary `json:"within,omitempty"`
	Moved  Values         `json:"moved,omitempty"` // what Watch saw; exploratory
}

// Experiment carries a design out on a machine.
type Experiment struct {
	Design   Design
	Change   Change
	Workload Workload
	Watch    Watch // may be nil
	Clock    interface{ Now() time.Time }
	// Record is called with each visit before the next one begins, and must have
	// made it durable when it returns.
	Record func(Visit) error
	// Progress is called after each visit; may be nil.
	Progress func(*Course, Visit)
	// Anyway goes on where the placebo shows that the margin is out of reach.
	Anyway bool
}

// Ending is why an experiment ended.
type Ending string

// The endings.
const (
	EndedVerdict     Ending = "verdict"
	EndedMost        Ending = "most-quads"
	EndedBudget      Ending = "budget"
	EndedInterrupted Ending = "interrupted"
	EndedGuard       Ending = "guard-rail"
	EndedHopeless    Ending = "hopeless"
	EndedFailed      Ending = "failed"
)

// ErrHopeless is why an experiment ends after its placebo: with this noise the
// margin cannot be seen within the quads and the time that the design allows.
var ErrHopeless = errors.New("the margin is out of reach")

// hopeless is how many times more quads than allowed must be needed for that: a
// large effect is seen long before the margin is.
const hopeless = 4

// Run carries the experiment out, from its beginning or from where visits of the past
// have brought it, and returns how it ended. Whatever happens the machine is without
// the change when it returns, or the error says that it is not (*Stuck).
func (e *Experiment) Run(ctx context.Context, past []Visit) (course *Course, ending Ending, err error) {
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
	r := runner{Experiment: e, course: course, at: Without, began: e.Clock.Now().Add(-spent)}
	if len(past) > 0 {
		// Whoever cut it off may have cut off what restores the machine as well.
		r.at = ""
		if err := e.Change.Undo(ctx); err != nil {
			return course, EndedFailed, &Stuck{err}
		}
		r.at = Without
	}
	ending, err = r.run(ctx)
	if r.at != Without {
		// Not to be interrupted: this is what the interruption is for.
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

// Replay is where visits of the past have brought an experiment.
func Replay(d Design, past []Visit) (*Course, error) { return replay(d, past, func(*Course) {}) }

// Looks are the verdicts after each quad, the first one first: what somebody saw who
// looked all the time.
func Looks(d Design, past []Visit) (looks []Verdict, err error) {
	_, err = replay(d, past, func(c *Course) {
		if t := c.tracks[0]; t.sequence != nil && t.sequence.N() > len(looks) {
			looks = append(looks, c.Verdict())
		}
	})
	return looks, err
}

// replay calls look after each visit.
func replay(d Design, past []Visit, look func(*Course)) (*Course, error) {
	c := Begin(d)
	for _, v := range past {
		if v.Step != c.Next() {
			c.Abandon() // it was cut off here once before
		}
		if v.Step != c.Next() {
			return c, fmt.Errorf("the record does not fit its design: visit %+v where %+v is due", v.Step, c.Next())
		}
		if err := c.Took(v.Values); err != nil {
			return c, err
		}
		look(c)
	}
	c.Abandon()
	return c, nil
}

// Stuck is that the change could not be taken back.
type Stuck struct{ Err error }

func (s *Stuck) Error() string { return "the change is not undone: " + s.Err.Error() }
func (s *Stuck) Unwrap() error { return s.Err }

// Rehearse makes the change once and takes it back: a value that the kernel does not
// take is found before anything is measured. The error is an *Unswitched where the
// machine is as it was, and a *Stuck where it is not.
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

// Exceeded is that a metric is above its cap.
type Exceeded struct {
	Cap
	Value float64
}

func (x *Exceeded) Error() string {
	return fmt.Sprintf("%s is %.4g, and %.4g is the most that is allowed", x.Name, x.Value, x.Most)
}

// Exceeded is the first cap that values are above, as an error; nil for none. A visit
// may ask it before it has ended.
func (d Design) Exceeded(v Values) error {
	for _, c := range d.Caps {
		if value, measured := v[c.Name]; measured && value > c.Most {
			return &Exceeded{c, value}
		}
	}
	return nil
}
