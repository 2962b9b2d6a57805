package prove

import (
	"errors"
	"math"

	"fettle.dev/fettle/internal/stats"
)

// Phase is a part of an experiment.
type Phase string

// The phases. In the placebo both arms are the machine as it was, reached by the same
// way as a change: it tells the noise.
const (
	Placebo Phase = "placebo"
	Quads   Phase = "quads"
	Done    Phase = "done"
)

// Step is a visit to make.
type Step struct {
	Phase Phase `json:"phase"`
	Quad  int   `json:"quad"`  // from 0, counted within the phase
	Place int   `json:"place"` // 0 to 3 within the quad
	Arm   Arm   `json:"arm"`
	// Switch is true where the machine has to be brought to the arm first.
	Switch bool `json:"switch,omitempty"`
	// Dropped visits let the machine settle after a switch; they do not count.
	Dropped bool `json:"dropped,omitempty"`
}

// Course is where an experiment stands: the whole method without the machine. Next
// says what to measure, Took takes what was measured. It depends on nothing else, so
// an experiment that was cut off goes on in a new Course that took the visits of the
// old one.
type Course struct {
	design   Design
	washout  int // as the design has it, or grown in the placebo
	phase    Phase
	quad     int
	place    int
	arm      Arm               // of the last visit; empty where the next one follows a switch in any case
	settling int               // visits yet to be dropped
	last     float64           // logarithm of the visit dropped last; NaN once it was compared
	after    map[Arm][]float64 // of this phase: last dropped visit against the first that counts
	tracks   []*track          // of the metric, then of each guard rail
	beside   *covariate        // nil for none
}

// Begin is the start of an experiment. The design has been checked.
func Begin(d Design) *Course {
	c := &Course{design: d, washout: d.Washout, phase: Placebo, last: math.NaN(), after: map[Arm][]float64{}}
	c.tracks = append(c.tracks, &track{metric: d.Metric, alpha: d.Alpha, matters: d.Margin})
	for _, g := range d.Guards {
		// Each guard rail is a question of its own: together they may err as often
		// as the verdict (Bonferroni; twice, for only one side is asked).
		c.tracks = append(c.tracks, &track{metric: g.Metric, alpha: 2 * d.Alpha / float64(len(d.Guards)), guards: true, matters: g.Most})
	}
	if d.Covariate != nil {
		c.beside = &covariate{track: track{metric: *d.Covariate}}
	}
	return c
}

// Next is the visit to make now, or a step of the phase Done.
func (c *Course) Next() Step {
	if c.phase == Done {
		return Step{Phase: Done}
	}
	s := Step{Phase: c.phase, Quad: c.quad, Place: c.place, Arm: c.design.Order(c.phase, c.quad)[c.place]}
	s.Switch = s.Arm != c.arm
	s.Dropped = c.settling > 0 || s.Switch && c.washout > 0
	return s
}

// Took takes what the visit of Next has measured. Where a value is missing, not finite
// or not positive, that is said, and the visit is still to be made.
func (c *Course) Took(v Values) error {
	s := c.Next()
	if s.Phase == Done {
		return errors.New("the experiment is over")
	}
	logs := make([]float64, len(c.tracks))
	for i, t := range c.tracks {
		var err error
		if logs[i], err = t.log(v); err != nil {
			return err
		}
	}
	var along float64
	if c.beside != nil {
		var err error
		if along, err = c.beside.log(v); err != nil {
			return err
		}
	}
	if s.Switch {
		c.arm, c.settling = s.Arm, c.washout
	}
	if s.Dropped {
		c.settling--
		c.last = logs[0]
		return nil
	}
	if !math.IsNaN(c.last) {
		c.after[s.Arm] = append(c.after[s.Arm], c.last-logs[0])
		c.last = math.NaN()
	}
	for i, t := range c.tracks {
		t.logs[c.place] = logs[i]
	}
	if c.beside != nil {
		c.beside.logs[c.place] = along
	}
	if c.place++; c.place == 4 {
		c.finish(s)
	}
	return nil
}

// Abandon drops the visits of the quad that has not been finished: the machine, or
// the experiment, was interrupted.
func (c *Course) Abandon() {
	c.place, c.settling, c.arm, c.last = 0, 0, "", math.NaN()
}

// finish takes the differences of a quad that is complete.
func (c *Course) finish(s Step) {
	order := c.design.Order(s.Phase, s.Quad)
	for i, t := range c.tracks {
		d := t.difference(order)
		if i == 0 && c.beside != nil {
			d = c.beside.less(d, s.Phase, order, t.logs)
		}
		if s.Phase == Placebo {
			t.placebo = append(t.placebo, d)
			continue
		}
		t.sequence.Add(d)
		t.interval = t.sequence.Interval()
	}
	c.place = 0
	c.quad++
	switch {
	case s.Phase == Quads && (c.quad >= c.design.Most || c.quad >= c.design.Least && c.Verdict().Word.Decided()):
		c.phase = Done
	case s.Phase == Placebo && c.quad == c.design.Placebo:
		c.begin()
	}
}

// begin ends the placebo: the quads begin, or the placebo once more with a longer
// wash-out, which is fixed before the first quad counts.
func (c *Course) begin() {
	if c.unsettled() && c.washout < c.design.Washout+maxGrowth {
		c.washout++
		for _, t := range c.tracks {
			t.placebo = nil
		}
		if c.beside != nil {
			c.beside.placebo = nil
		}
	} else {
		c.phase = Quads
		if c.beside != nil {
			// With what all of the placebo has taught, also for its first quads.
			c.tracks[0].placebo = c.beside.again()
		}
		for _, t := range c.tracks {
			t.sequence = stats.NewSequence(t.alpha, t.placebo, t.least())
		}
	}
	c.quad, c.after = 0, map[Arm][]float64{}
	c.Abandon()
}

// maxGrowth is by how many visits the wash-out may grow.
const maxGrowth = 4

// unsettled says whether the visit after a switch differs from the next one by more
// than half of the noise, and not by chance.
func (c *Course) unsettled() bool {
	after := append(append([]float64(nil), c.after[Without]...), c.after[With]...)
	return len(after) > 0 && math.Abs(stats.Median(after)) > c.Noise()/2 && stats.SignFlip(after) < 0.02
}

// Noise is the scale of one quad's difference, as a ratio: 0.01 is one percent. It is
// NaN before the first quad of the placebo.
func (c *Course) Noise() float64 {
	t := c.tracks[0]
	if t.sequence != nil {
		return t.sequence.Noise()
	}
	return stats.NewSequence(t.alpha, t.placebo, t.least()).Noise()
}

// Carried is by how much, as a difference of logarithms, the last dropped visit after
// a switch to an arm differed from the visit that followed: what the switch leaves
// behind. NaN where nothing was dropped.
func (c *Course) Carried(arm Arm) float64 { return stats.Median(c.after[arm]) }

// Differences are those of the quads so far, and of the placebo's: logarithm of the
// value with the change less that without it.
func (c *Course) Differences() (quads, placebo []float64) {
	t := c.tracks[0]
	if t.sequence != nil {
		quads = t.sequence.Values()
	}
	return quads, t.placebo
}

// Guarded is what is known of a guard rail.
type Guarded struct {
	Guard
	State string `json:"state"` // within, broken, undecided
	// Worse is by how much the metric is worse with the change, at the least and at
	// the most; absent while that is unbounded.
	Worse *[2]float64 `json:"worse_ratio,omitempty"`
}

// Text says in words by how much the metric is worse with the change, or better.
func (g *Guarded) Text() string {
	if g.Worse == nil {
		return "not known yet"
	}
	low, high := g.Worse[0], g.Worse[1]
	switch {
	case number(low) == "0" && number(high) == "0":
		return "as without it"
	case low >= 0:
		return "worse by " + number(low) + " to " + percent(high)
	case high <= 0:
		return "better by " + number(-high) + " to " + percent(-low)
	}
	return "between " + percent(-low) + " better and " + percent(high) + " worse"
}

// Guards is what is known of the guard rails.
func (c *Course) Guards() (out []Guarded) {
	for i, g := range c.design.Guards {
		r := Guarded{Guard: g, State: "undecided"}
		if t := c.tracks[i+1]; t.sequence != nil && t.sequence.N() > 0 {
			low, high := math.Expm1(t.interval.Low), math.Expm1(t.interval.High)
			if !math.IsInf(t.interval.Low, 0) && !math.IsInf(t.interval.High, 0) {
				r.Worse = &[2]float64{low, high}
			}
			switch {
			case low > g.Most:
				r.State = "broken"
			case high <= g.Most:
				r.State = "within"
			}
		}
		out = append(out, r)
	}
	return out
}

// Visits is how many visits a quad takes on average: in half of the cases it begins
// with a switch.
func (c *Course) Visits() float64 { return 4 + 2.5*float64(c.washout) }

// Planned is the number of quads after which the interval can be expected to fit
// between the margins, with the noise seen so far; limit if it is more.
func (c *Course) Planned(limit int) int {
	return max(c.design.Least, stats.Needed(math.Log1p(c.design.Margin), c.Noise(), c.design.Alpha, 1, limit))
}
