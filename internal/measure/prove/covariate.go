package prove

import "fettle.dev/fettle/internal/stats"

// covariate is a value that the metric depends on but the change does not influence, such as the
// arrival rate of work. It explains part of a block's difference, which is removed.
//
// The slope is learned only from earlier blocks, and within them from pairs of visits of the same
// arm, which do not differ in the change. So the random order of this block reverses the sign of
// both differences or of neither. The remainder is as symmetric about the effect as the difference was:
// the interval stays valid for any slope.
type covariate struct {
	track
	xy, xx      float64 // sums over the pairs of visits of the same arm
	placebo     []pair
	differences []float64 // the covariate's own differences, by block
}

// pair holds the differences of a block in the metric and in the covariate.
type pair struct{ y, x float64 }

// slope returns the change of the metric's logarithm per change of the covariate's.
func (c *covariate) slope() float64 {
	if c.xx == 0 {
		return 0
	}
	return c.xy / c.xx
}

// less returns a block's difference of the metric minus the part that the covariate explains.
func (c *covariate) less(y float64, p Phase, order [4]Arm, logs [4]float64) float64 {
	x, slope := c.difference(order), c.slope()
	if p == Placebo {
		c.placebo = append(c.placebo, pair{y, x})
	} else {
		c.differences = append(c.differences, x)
	}
	// The visits of one arm are at places 0 and 3, and 1 and 2.
	for _, at := range [][2]int{{0, 3}, {1, 2}} {
		dx, dy := c.logs[at[0]]-c.logs[at[1]], logs[at[0]]-logs[at[1]]
		c.xy += dx * dy
		c.xx += dx * dx
	}
	return y - slope*x
}

// again returns the placebo's differences, adjusted with the covariate's current slope.
func (c *covariate) again() (out []float64) {
	for _, p := range c.placebo {
		out = append(out, p.y-c.slope()*p.x)
	}
	return out
}

// Adjusted describes the covariate.
type Adjusted struct {
	Metric
	// Slope is the power of the covariate that the metric follows: 1 means proportional.
	Slope float64 `json:"slope"`
	// Difference is the covariate's own difference of logarithms with the change. P is its p-value
	// by sign flips. A covariate that the change influences hides or invents part of the effect.
	Difference float64 `json:"difference_log_ratio"`
	P          float64 `json:"difference_p"`
}

// Covariate describes the covariate, or returns nil if none exists.
func (c *Course) Covariate() *Adjusted {
	if c.beside == nil || len(c.beside.differences) == 0 {
		return nil
	}
	b := c.beside
	return &Adjusted{Metric: b.metric, Slope: b.slope(), Difference: stats.Mean(b.differences), P: stats.SignFlip(b.differences)}
}
