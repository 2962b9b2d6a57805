package prove

import "fettle.dev/fettle/internal/stats"

// covariate is something that the metric depends on beside the change, and that the
// change has no influence on: how much work arrives. What of a quad's difference comes
// from the covariate's is taken out.
//
// The slope is learned from earlier quads only, and within them from the two visits of
// the same arm, which differ by anything but the change. So the coin of this quad turns
// the sign of both differences, or of none, and what is left is as symmetric about the
// effect as the difference was: the interval stays valid whatever the slope is.
type covariate struct {
	track
	xy, xx      float64 // sums over the pairs of visits of one arm
	placebo     []pair
	differences []float64 // of the covariate itself, in the quads
}

// pair is the difference of a quad in the metric and in the covariate.
type pair struct{ y, x float64 }

// slope is by how much the logarithm of the metric changes with that of the covariate.
func (c *covariate) slope() float64 {
	if c.xx == 0 {
		return 0
	}
	return c.xy / c.xx
}

// less is the metric's difference of a quad less what its covariate explains.
func (c *covariate) less(y float64, p Phase, order [4]Arm, logs [4]float64) float64 {
	x, slope := c.difference(order), c.slope()
	if p == Placebo {
		c.placebo = append(c.placebo, pair{y, x})
	} else {
		c.differences = append(c.differences, x)
	}
	// The pairs of one arm stand at places 0 and 3, and 1 and 2.
	for _, at := range [][2]int{{0, 3}, {1, 2}} {
		dx, dy := c.logs[at[0]]-c.logs[at[1]], logs[at[0]]-logs[at[1]]
		c.xy += dx * dy
		c.xx += dx * dx
	}
	return y - slope*x
}

// again are the placebo's differences less what the covariate explains, as far as it is
// known now.
func (c *covariate) again() (out []float64) {
	for _, p := range c.placebo {
		out = append(out, p.y-c.slope()*p.x)
	}
	return out
}

// Adjusted is what is known of the covariate.
type Adjusted struct {
	Metric
	// Slope is by what power of the covariate the metric changes: 1 where it doubles
	// with it.
	Slope float64 `json:"slope"`
	// Difference is that of the covariate itself with the change, as a difference of
	// logarithms, and P its p-value by sign flips: a covariate that the change moves
	// takes a part of the effect away, or makes one up.
	Difference float64 `json:"difference_log_ratio"`
	P          float64 `json:"difference_p"`
}

// Covariate is what is known of the covariate; nil where there is none.
func (c *Course) Covariate() *Adjusted {
	if c.beside == nil || len(c.beside.differences) == 0 {
		return nil
	}
	b := c.beside
	return &Adjusted{Metric: b.metric, Slope: b.slope(), Difference: stats.Mean(b.differences), P: stats.SignFlip(b.differences)}
}
