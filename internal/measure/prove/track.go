package prove

import (
	"fmt"
	"math"
	"slices"

	"fettle.dev/fettle/internal/stats"
)

// track is the history of one metric.
type track struct {
	metric   Metric
	alpha    float64
	guards   bool // a guard rail; does not decide
	mayBe0   bool // all values may be 0
	scale    scale
	matters  float64 // smallest relevant difference, as a ratio
	smallest float64 // smallest positive value so far
	logs     [2]float64
	last     float64           // logarithm of the last warm-up run; NaN after its comparison
	after    map[Arm][]float64 // last warm-up run minus the first counted one, with this warm-up
	sequence *stats.Sequence
	interval stats.Interval // of the sequence, after its last block
	// unsettled has the blocks that do not count, because the warm-up was too short; nil if all do.
	unsettled *stats.Sequence
}

func newTrack(m Metric, alpha, matters float64) *track {
	t := &track{metric: m, alpha: alpha, matters: matters}
	t.begin(firstShare)
	return t
}

// Shares of the error probability: of the blocks with the design's warm-up, and of the blocks after
// each growth of the warm-up. Each has a separate chance of an error.
const (
	firstShare = 0.9
	laterShare = (1 - firstShare) / maxGrowth
)

// begin begins to count blocks, with a share of the error probability.
func (t *track) begin(share float64) {
	t.sequence = stats.NewSequence(share*t.alpha, t.least())
	t.interval = t.sequence.Interval()
	t.last, t.after = math.NaN(), map[Arm][]float64{}
}

// carriesOver reports whether the last warm-up run differs significantly from the next sample, by
// more than half of the noise: in the same direction on both sides (the cost of a switch) or in
// opposite directions (what is left of the other side).
func (t *track) carriesOver() bool {
	cost, left := slices.Clone(t.after[Without]), slices.Clone(t.after[Without])
	for _, d := range t.after[With] {
		cost, left = append(cost, d), append(left, -d)
	}
	differs := func(d []float64) bool {
		return len(d) > 0 && math.Abs(stats.Median(d)) > t.sequence.Noise()/2 && stats.SignFlip(d) < 0.01
	}
	return differs(cost) || differs(left)
}

// scale is the scale for comparing values of a guard rail. The first value selects it.
type scale int

const (
	undecided scale = iota
	ratios          // by the values' logarithms
	counts          // by the logarithms of value plus one: 0 is possible
	zeros           // all values are 0: equal
)

// log returns the logarithm of a value. A guard rail that begins with a whole number is a count,
// because numbers of errors may be 0.
func (t *track) log(v Values) (float64, error) {
	value, measured := v[t.metric.Name]
	if t.scale == undecided {
		t.scale = ratios
		if t.guards && t.metric.Unit == "" && value == math.Trunc(value) {
			t.scale = counts
		}
		if t.mayBe0 && measured && value == 0 {
			t.scale = zeros
		}
	}
	if value > 0 && (t.smallest == 0 || value < t.smallest) {
		t.smallest = value
	}
	switch {
	case !measured:
		return 0, fmt.Errorf("the work did not report %s", t.metric.Name)
	case t.scale == counts && value >= 0 && !math.IsInf(value, 1):
		return math.Log1p(value), nil
	case t.guards && value == 0 && t.smallest > 0:
		// A rate of errors may be 0 at times. Use half of the smallest positive value so far, the
		// usual substitute below the limit of detection.
		return math.Log(t.smallest / 2), nil
	case t.guards && value == 0:
		return 0, fmt.Errorf("%s is 0 from the beginning, so ratios cannot be calculated; use --stop-above to limit a metric that starts at 0", t.metric.Name)
	case t.scale == zeros && value == 0:
		return 0, nil
	case t.scale == zeros:
		return 0, fmt.Errorf("%s was 0 before and is %v now; values are compared by ratio, so either all or none may be 0", t.metric.Name, value)
	case !(value > 0) || math.IsInf(value, 1):
		return 0, fmt.Errorf("%s is %v; want a positive number, because values are compared by ratio", t.metric.Name, value)
	}
	return math.Log(value), nil
}

// least returns the largest negligible difference of logarithms.
func (t *track) least() float64 { return math.Log1p(t.matters) / 10 }

// difference returns a block's difference of logarithms, with the change minus without it.
func (t *track) difference(order [2]Arm) float64 {
	if order[0] == With {
		return t.logs[0] - t.logs[1]
	}
	return t.logs[1] - t.logs[0]
}
