package prove

import (
	"errors"
	"math"

	"fettle.dev/fettle/internal/stats"
)

// Phase is a part of an experiment.
type Phase string

// Phases. In the placebo both arms are the unchanged machine, reached by the same steps as a
// change; it measures the noise.
const (
	Placebo Phase = "placebo"
	Blocks  Phase = "blocks"
	Done    Phase = "done"
)

// Step is a visit to make: one run or window of the work.
type Step struct {
	Phase Phase `json:"phase"`
	Block int   `json:"block"` // from 0, within the phase
	Place int   `json:"place"` // position in the block, 0 to 3
	Arm   Arm   `json:"arm"`
	// Switch reports whether the machine must be switched to the arm first.
	Switch bool `json:"switch,omitempty"`
	// Dropped visits are warm-ups after a switch and do not count.
	Dropped bool `json:"dropped,omitempty"`
}

// Course is the state of an experiment: the whole method, independent of the machine. Next returns
// the next visit; Took records its result. An interrupted experiment continues in a new Course
// that replays the old visits.
type Course struct {
	design   Design
	washout  int // warm-up visits: the design's, or more after the placebo
	phase    Phase
	block    int
	place    int
	arm      Arm               // of the last visit; "" if the next visit follows a switch in any case
	settling int               // warm-up visits left
	last     float64           // logarithm of the last warm-up visit; NaN after its comparison
	after    map[Arm][]float64 // in this phase: last warm-up visit minus the first counted one
	tracks   []*track          // of the deciding metric, then of each guard rail
	beside   *covariate        // nil if none exists
}

// Begin starts an experiment with a checked design.
func Begin(d Design) *Course {
	c := &Course{design: d, washout: d.Washout, phase: Placebo, last: math.NaN(), after: map[Arm][]float64{}}
	c.tracks = append(c.tracks, &track{metric: d.Metric, alpha: d.Alpha, matters: d.Margin})
	for _, g := range d.Guards {
		// Each guard rail is a separate one-sided test. Together they have the same error
		// probability as the verdict (Bonferroni).
		c.tracks = append(c.tracks, &track{metric: g.Metric, alpha: 2 * d.Alpha / float64(len(d.Guards)), guards: true, matters: g.Most})
	}
	if d.Covariate != nil {
		c.beside = &covariate{track: track{metric: *d.Covariate}}
	}
	return c
}

// Next returns the next visit, or a step with phase Done.
func (c *Course) Next() Step {
	if c.phase == Done {
		return Step{Phase: Done}
	}
	s := Step{Phase: c.phase, Block: c.block, Place: c.place, Arm: c.design.Order(c.phase, c.block)[c.place]}
	s.Switch = s.Arm != c.arm
	s.Dropped = c.settling > 0 || s.Switch && c.washout > 0
	return s
}

// Took records the values of the visit from Next. If a value is missing, not finite or not
// positive, it returns an error, and the visit must be repeated.
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

// Abandon drops the visits of the unfinished block after an interruption.
func (c *Course) Abandon() {
	c.place, c.settling, c.arm, c.last = 0, 0, "", math.NaN()
}

// finish computes the differences of a complete block.
func (c *Course) finish(s Step) {
	order := c.design.Order(s.Phase, s.Block)
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
	c.block++
	switch {
	case s.Phase == Blocks && (c.block >= c.design.Most || c.block >= c.design.Least && c.Verdict().Word.Decided()):
		c.phase = Done
	case s.Phase == Placebo && c.block == c.design.Placebo:
		c.begin()
	}
}

// begin ends the placebo. Either the blocks begin, or the placebo is repeated with a longer
// warm-up, which is fixed before the first block counts.
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
		c.phase = Blocks
		if c.beside != nil {
			// Adjusted with the slope from the whole placebo, including for its first blocks.
			c.tracks[0].placebo = c.beside.again()
		}
		for _, t := range c.tracks {
			t.sequence = stats.NewSequence(t.alpha, t.placebo, t.least())
		}
	}
	c.block, c.after = 0, map[Arm][]float64{}
	c.Abandon()
}

// maxGrowth is the maximum growth of the warm-up, in visits.
const maxGrowth = 4

// unsettled reports whether the visit after a switch differs significantly from the next one,
// by more than half of the noise.
func (c *Course) unsettled() bool {
	after := append(append([]float64(nil), c.after[Without]...), c.after[With]...)
	return len(after) > 0 && math.Abs(stats.Median(after)) > c.Noise()/2 && stats.SignFlip(after) < 0.02
}

// Noise returns the scale of one block's difference, as a ratio: 0.01 is one percent. It is NaN
// before the first block of the placebo.
func (c *Course) Noise() float64 {
	t := c.tracks[0]
	if t.sequence != nil {
		return t.sequence.Noise()
	}
	return stats.NewSequence(t.alpha, t.placebo, t.least()).Noise()
}

// Carried returns the difference of logarithms between the last warm-up visit after a switch to an
// arm and the next visit: the cost of the switch. It is NaN if there are no warm-up visits.
func (c *Course) Carried(arm Arm) float64 { return stats.Median(c.after[arm]) }

// Differences returns the differences of the blocks so far and of the placebo: the logarithm of
// the value with the change minus the logarithm without it.
func (c *Course) Differences() (blocks, placebo []float64) {
	t := c.tracks[0]
	if t.sequence != nil {
		blocks = t.sequence.Values()
	}
	return blocks, t.placebo
}

// Guarded is the state of a guard rail.
type Guarded struct {
	Guard
	State string `json:"state"` // within, broken, undecided
	// Worse is the interval of the metric's deterioration with the change; absent while unbounded.
	Worse *[2]float64 `json:"worse_ratio,omitempty"`
}

// Text describes the deterioration or improvement of the metric with the change.
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

// Guards returns the states of the guard rails.
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

// Visits returns the average number of visits of a block: half of the blocks begin with a switch.
func (c *Course) Visits() float64 { return 4 + 2.5*float64(c.washout) }

// Planned returns the number of blocks, at most limit, after which the interval should fit
// between the margins with the noise so far.
func (c *Course) Planned(limit int) int {
	return max(c.design.Least, stats.Needed(math.Log1p(c.design.Margin), c.Noise(), c.design.Alpha, 1, limit))
}
