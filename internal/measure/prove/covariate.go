package prove

import "fettle.dev/fettle/internal/stats"

// covariate is a value that the metric depends on but the change does not influence, such as the
// arrival rate of work. It explains part of a block's difference, which is removed.
//
// The slope is learned only from earlier blocks. So the random order of this block reverses the sign
// of both differences or of neither. The remainder is as symmetric about the effect as the
// difference was: the interval stays valid for any slope.
type covariate struct {
	track
	values   []float64 // the covariate's differences, by block
	deciding []float64 // the deciding metric's
}

// slope returns the change of the metric's logarithm per change of the covariate's. Their medians
// are subtracted, because the change may affect both. It is 0 with fewer than three blocks.
func (c *covariate) slope() float64 {
	if len(c.deciding) < 3 {
		return 0
	}
	mx, my := stats.Median(c.values), stats.Median(c.deciding)
	xy, xx := 0.0, 0.0
	for i, x := range c.values {
		xy += (x - mx) * (c.deciding[i] - my)
		xx += (x - mx) * (x - mx)
	}
	if xx == 0 {
		return 0
	}
	return xy / xx
}

// adjust returns a block's difference of the metric minus the part that the covariate explains.
func (c *covariate) adjust(y float64, order [2]Arm) float64 {
	x, slope := c.difference(order), c.slope()
	c.values, c.deciding = append(c.values, x), append(c.deciding, y)
	return y - slope*x
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

// Covariate describes the covariate, or returns nil if the design has none.
func (c *Course) Covariate() *Adjusted {
	if c.covariate == nil || len(c.covariate.values) == 0 {
		return nil
	}
	b := c.covariate
	return &Adjusted{Metric: b.metric, Slope: b.slope(), Difference: stats.Mean(b.values), P: stats.SignFlip(b.values)}
}
