package prove

import (
	"fmt"
	"math"

	"fettle.dev/fettle/internal/stats"
)

// track is what became of one metric.
type track struct {
	metric   Metric
	alpha    float64
	guards   bool // it is a guard rail's, and does not decide
	scale    scale
	matters  float64 // ratio from which a difference matters
	smallest float64 // value above 0 that was seen
	logs     [4]float64
	placebo  []float64
	sequence *stats.Sequence
	interval stats.Interval // of the sequence, after its last quad
}

// scale is how the values of a guard rail are compared: what the first one decides.
type scale int

const (
	undecided scale = iota
	ratios          // by their logarithms
	counts          // likewise, with one added: there may be none
)

// log is the logarithm of a value. Numbers of errors may be 0, so a guard rail that
// begins with a whole number counts.
func (t *track) log(v Values) (float64, error) {
	value, measured := v[t.metric.Name]
	if t.scale == undecided {
		t.scale = ratios
		if t.guards && t.metric.Unit == "" && value == math.Trunc(value) {
			t.scale = counts
		}
	}
	if value > 0 && (t.smallest == 0 || value < t.smallest) {
		t.smallest = value
	}
	switch {
	case !measured:
		return 0, fmt.Errorf("the work told no %s", t.metric.Name)
	case t.scale == counts && value >= 0 && !math.IsInf(value, 1):
		return math.Log1p(value), nil
	case t.guards && value == 0 && t.smallest > 0:
		// A rate of errors may be 0 at times: it stands for half of the smallest one
		// that was seen, the usual place of what is below the limit of detection.
		return math.Log(t.smallest / 2), nil
	case t.guards && value == 0:
		return 0, fmt.Errorf("%s is 0 from the beginning: there is nothing to compare by a ratio; what must not rise above a value can be a cap (--stop-above)", t.metric.Name)
	case !(value > 0) || math.IsInf(value, 1):
		return 0, fmt.Errorf("%s is %v: a positive number is needed, because values are compared by their ratio", t.metric.Name, value)
	}
	return math.Log(value), nil
}

// least is a difference, as one of logarithms, that is nothing beside one that matters.
func (t *track) least() float64 { return math.Log1p(t.matters) / 10 }

// difference is that of a quad: logarithm with the change less that without it.
func (t *track) difference(order [4]Arm) (d float64) {
	for i, arm := range order {
		if arm == With {
			d += t.logs[i] / 2
		} else {
			d -= t.logs[i] / 2
		}
	}
	return d
}
