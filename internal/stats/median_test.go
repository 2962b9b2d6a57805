package stats

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestMedianInterval(t *testing.T) {
	x := []float64{8, 1, 7, 2, 6, 3, 5, 4}
	// R: 1-2*pbinom(0, 8, .5) is 0.9921875, 1-2*pbinom(1, 8, .5) is 0.9296875.
	for alpha, want := range map[float64]Interval{0.05: {1, 8}, 0.008: {1, 8}, 0.0078: {math.Inf(-1), math.Inf(1)}, 0.08: {2, 7}} {
		if got := MedianInterval(x, alpha); got != want {
			t.Errorf("alpha %v: %v, want %v", alpha, got, want)
		}
	}
	if got := MedianInterval(nil, 0.05); !math.IsInf(got.High, 1) {
		t.Errorf("of nothing: %v", got)
	}
	// R: qbinom(.025, 100, .5) is 40: the 40th and the 61st.
	var many []float64
	for i := range 100 {
		many = append(many, float64(i+1))
	}
	if got := MedianInterval(many, 0.05); got != (Interval{40, 61}) {
		t.Errorf("of 1 to 100: %v", got)
	}
}

// TestMedianIntervalHolds: the interval misses the median in at most 5 % of the
// cases, also for a skewed distribution.
func TestMedianIntervalHolds(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	const cases = 4000
	for _, n := range []int{6, 8, 11, 20} {
		wrong := 0
		for range cases {
			x := make([]float64, n)
			for i := range x {
				x[i] = r.ExpFloat64()
			}
			if !MedianInterval(x, 0.05).Contains(math.Ln2) {
				wrong++
			}
		}
		if share := float64(wrong) / cases; share > 0.06 || share < 0.002 {
			t.Errorf("%d values: wrong in %.1f %%", n, 100*share)
		}
	}
}

func TestSpread(t *testing.T) {
	near(t, "spread", Spread([]float64{2, 2.5, 2.2}), 0.25, 1e-12)
	near(t, "spread of one", Spread([]float64{2}), 0, 0)
}
