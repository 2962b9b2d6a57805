package prove

import (
	"errors"
	"math"
	"slices"

	"fettle.dev/fettle/internal/stats"
)

// Phase is a part of an experiment.
type Phase string

// Phases.
const (
	Blocks Phase = "blocks"
	Done   Phase = "done"
)

// Step is a sample to take: one run or window of the work.
type Step struct {
	Phase Phase `json:"phase"`
	Block int   `json:"block"` // from 0
	Place int   `json:"place"` // position in the block, 0 or 1
	Arm   Arm   `json:"arm"`
	// Switch reports whether the machine must be switched to the arm first.
	Switch bool `json:"switch,omitempty"`
	// Dropped samples are warm-ups after a switch and do not count.
	Dropped bool `json:"dropped,omitempty"`
	// Short reports that from this sample on the budget does not suffice for warm-ups.
	Short bool `json:"short,omitempty"`
}

// Course is the state of an experiment: the whole method, independent of the machine. Next returns
// the next sample; Took records its result. An interrupted experiment continues in a new Course
// that replays the old samples.
type Course struct {
	design    Design
	washout   int  // warm-up runs: the design's, or more if the machine needs longer to settle
	short     bool // no warm-up runs any more, because of the budget
	begun     bool // a sample was taken
	done      bool
	block     int
	place     int
	arm       Arm        // of the last sample; "" if the next sample follows a switch in any case
	settling  int        // warm-up runs left
	unsettled int        // first blocks that do not count, because the warm-up was too short
	tracks    []*track   // of the deciding metrics, then of each guard rail
	covariate *covariate // nil if the design has none
}

// Begin starts an experiment with a checked design.
func Begin(d Design) *Course {
	c := &Course{design: d, washout: d.Washout}
	for _, m := range d.deciding() {
		// Together the intervals of all metrics have the error probability of one (Bonferroni). Bets
		// multiply, so this costs little: with three metrics the first verdict takes nine blocks, not seven.
		t := newTrack(m, d.Alpha/float64(1+len(d.Also)), d.Margin)
		// A time or a rate of 0 was not measured, and windows of running work may be 0 only at times.
		t.mayBe0 = d.Live == nil && m.Unit != "s" && !m.More
		c.tracks = append(c.tracks, t)
	}
	for _, g := range d.Guards {
		// Each guard rail is a separate one-sided test. Together they have the same error
		// probability as the verdict (Bonferroni).
		t := newTrack(g.Metric, 2*d.Alpha/float64(len(d.Guards)), g.Most)
		t.guards = true
		c.tracks = append(c.tracks, t)
	}
	if d.Covariate != nil {
		c.covariate = &covariate{track: track{metric: *d.Covariate}}
	}
	return c
}

// Next returns the next sample, or a step with phase Done.
func (c *Course) Next() Step {
	if c.done {
		return Step{Phase: Done}
	}
	s := Step{Phase: Blocks, Block: c.block, Place: c.place, Arm: c.design.Order(c.block)[c.place], Short: c.short}
	if !c.begun && c.washout > 0 && s.Arm == With {
		// The first sample is without the change, so that work that always fails does not seem to
		// fail because of the change.
		s.Arm, s.Switch, s.Dropped = Without, true, true
		return s
	}
	s.Switch = s.Arm != c.arm
	s.Dropped = c.settling > 0 || s.Switch && c.washout > 0
	return s
}

// Took records the values of the sample from Next. If a value is missing, not finite or not
// positive, it returns an error, and the sample must be repeated.
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
	var covariateLog float64
	if c.covariate != nil {
		var err error
		if covariateLog, err = c.covariate.log(v); err != nil {
			return err
		}
	}
	c.begun = true
	if s.Switch {
		c.arm, c.settling = s.Arm, c.washout
	}
	if s.Arm != c.design.Order(c.block)[c.place] {
		return nil // the very first sample
	}
	if s.Dropped {
		c.settling--
		for i, t := range c.tracks {
			t.last = logs[i]
		}
		return nil
	}
	for i, t := range c.tracks {
		if !math.IsNaN(t.last) {
			t.after[s.Arm] = append(t.after[s.Arm], t.last-logs[i])
			t.last = math.NaN()
		}
		t.logs[c.place] = logs[i]
	}
	if c.covariate != nil {
		c.covariate.logs[c.place] = covariateLog
	}
	if c.place++; c.place == 2 {
		c.finish()
	}
	return nil
}

// Shorten omits the warm-up runs from now on. It may be called before the first sample of a block
// that counts. What is left of the other side then affects both sides alike, unless a switch changes
// the machine.
func (c *Course) Shorten() { c.short, c.washout, c.settling = true, 0, 0 }

// Abandon drops the samples of the unfinished block after an interruption.
func (c *Course) Abandon() {
	c.place, c.settling, c.arm = 0, 0, ""
	for _, t := range c.tracks {
		t.last = math.NaN()
	}
}

// finish computes the differences of a complete block.
func (c *Course) finish() {
	order := c.design.Order(c.block)
	for i, t := range c.tracks {
		d := t.difference(order)
		if i == 0 && c.covariate != nil {
			d = c.covariate.adjust(d, order)
		}
		t.sequence.Add(d)
		t.interval = t.sequence.Interval()
	}
	c.place = 0
	c.block++
	n := c.Counted()
	if n == c.design.Least && !c.short && c.washout < c.design.Washout+maxGrowth && c.carriesOver() {
		c.restart()
		n = 0
	}
	c.done = c.block >= c.design.Most || n >= c.design.Least && c.decided()
}

// Counted returns the number of complete blocks that count.
func (c *Course) Counted() int { return c.tracks[0].sequence.N() }

// restart begins to count again, with a longer warm-up. No verdict existed before.
func (c *Course) restart() {
	c.washout++
	c.unsettled = c.block
	for _, t := range c.tracks {
		t.unsettled = t.sequence
		t.begin(laterShare)
	}
	if c.covariate != nil {
		c.covariate.values, c.covariate.deciding = nil, nil
	}
	c.Abandon()
}

// maxGrowth is the maximum growth of the warm-up, in samples.
const maxGrowth = 4

// carriesOver reports whether any metric carries over.
func (c *Course) carriesOver() bool { return slices.ContainsFunc(c.deciding(), (*track).carriesOver) }

// deciding returns the tracks with a verdict.
func (c *Course) deciding() []*track { return c.tracks[:1+len(c.design.Also)] }

// Noise returns the scale of one block's difference, as a ratio: 0.01 is one percent. It is NaN
// before the second block.
func (c *Course) Noise() float64 { return c.tracks[0].sequence.Noise() }

// Carried returns the difference of logarithms between the last warm-up run after a switch to an
// arm and the next sample: the cost of the switch. It is NaN if there are no warm-up runs.
func (c *Course) Carried(arm Arm) float64 { return stats.Median(c.tracks[0].after[arm]) }

// Differences returns the differences of the blocks that count: the logarithm of the value with the
// change minus the logarithm without it.
func (c *Course) Differences() []float64 { return c.tracks[0].sequence.Values() }

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
		if t := c.tracks[len(c.deciding())+i]; t.sequence.N() > 0 {
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

// Fewest returns the number of blocks from which a verdict is possible.
func (c *Course) Fewest() int { return max(c.design.Least, c.tracks[0].sequence.Fewest()) }

// Washout returns the present number of warm-up runs after a switch.
func (c *Course) Washout() int { return c.washout }

// Samples returns the average number of samples of a block: half of the blocks begin with a switch.
func (c *Course) Samples() float64 { return 2 + 1.5*float64(c.washout) }

// Planned returns the number of blocks, at most limit, after which the interval should fit
// between the margins with the noise so far.
func (c *Course) Planned(limit int) int {
	n := c.design.Least
	for _, t := range c.deciding() {
		n = max(n, stats.Needed(math.Log1p(c.design.Margin), t.sequence.Noise(), t.alpha, limit))
	}
	return n
}
