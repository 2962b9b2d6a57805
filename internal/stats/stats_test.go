package stats

import (
	"math"
	"math/rand/v2"
	"testing"
)

func near(t *testing.T, what string, got, want, within float64) {
	t.Helper()
	if math.IsNaN(want) != math.IsNaN(got) || math.Abs(got-want) > within {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func TestDescription(t *testing.T) {
	x := []float64{2, 4, 4, 4, 5, 5, 7, 9}
	near(t, "mean", Mean(x), 5, 0)
	near(t, "sd", SD(x), 2.13809, 1e-5)
	near(t, "median", Median(x), 4.5, 0)
	near(t, "first quartile", Quantile(x, 0.25), 4, 0)
	near(t, "p90", Quantile(x, 0.9), 7.6, 1e-12) // R: quantile(x, 0.9)
	near(t, "maximum", Quantile(x, 1), 9, 0)
	near(t, "mad", MAD(x), 1.4826*0.5, 1e-12)
	near(t, "sd of one", SD(x[:1]), 0, 0)
	near(t, "median of nothing", Median(nil), math.NaN(), 0)
}

// TestRadius: the forecast is near the width that a sequence has with normal values.
func TestRadius(t *testing.T) {
	for _, n := range []int{8, 12, 24, 40, 200} {
		var widths []float64
		for seed := range uint64(200) {
			r := rand.New(rand.NewPCG(seed, 5))
			s := NewSequence(0.05, 0)
			for range n {
				s.Add(r.NormFloat64())
			}
			i := s.Interval()
			widths = append(widths, (i.High-i.Low)/2)
		}
		if ratio := Median(widths) / Radius(n, 1, 0.05); ratio < 0.8 || ratio > 1.25 {
			t.Errorf("n = %d: the median of the half-widths is %.2f times the forecast", n, ratio)
		}
	}
	if !math.IsInf(Radius(3, 1, 0.05), 1) || !math.IsInf(Radius(1, 1, 0.05), 1) {
		t.Error("three values exclude nothing yet")
	}
	n := Needed(0.5, 1, 0.05, 1000)
	if Radius(n, 1, 0.05) > 0.5 || Radius(n-1, 1, 0.05) <= 0.5 {
		t.Errorf("needed: %d", n)
	}
	if n := Needed(1e-6, 1, 0.05, 1000); n != 1000 {
		t.Errorf("beyond the limit: %d", n)
	}
}

func TestSignFlip(t *testing.T) {
	near(t, "all on one side", SignFlip([]float64{1, 2, 3, 4, 5}), 2.0/32, 0)
	near(t, "in balance", SignFlip([]float64{1, -1}), 1, 0)
	near(t, "two of three", SignFlip([]float64{1, 2, -0.5}), 4.0/8, 0) // ±2.5 and ±3.5 reach |2.5|
	near(t, "nothing", SignFlip(nil), 1, 0)
	x := make([]float64, 24)
	for i := range x {
		x[i] = 1
	}
	near(t, "drawn", SignFlip(x), 1.0/100_001, 0)
	x = append(x[:10:10], -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1)
	near(t, "drawn, in balance", SignFlip(x), 1, 0)
	// 14 of 21: both tails of the binomial distribution.
	for i := range x {
		x[i] = 1
		if i >= 14 {
			x[i] = -1
		}
	}
	near(t, "drawn against the binomial", SignFlip(x), 0.18925, 0.005)
}

func TestSerial(t *testing.T) {
	near(t, "slope", Slope([]float64{1, 3, 5, 7}), 2, 1e-12)
	near(t, "no slope", Slope([]float64{4}), 0, 0)
	near(t, "alternating", Lag1([]float64{1, -1, 1, -1, 1, -1, 1, -1}), -7.0/8, 1e-12)
	if got := Lag1([]float64{3, 3, 3}); !math.IsNaN(got) {
		t.Errorf("constant: %v is no autocorrelation", got)
	}
	r := rand.New(rand.NewPCG(1, 1))
	x := make([]float64, 20_000)
	for i := 1; i < len(x); i++ {
		x[i] = 0.7*x[i-1] + r.NormFloat64()
	}
	near(t, "AR(1) of 0.7", Lag1(x), 0.7, 0.02)
}

func summaries(runs ...[]float64) (out []Summary) {
	for _, r := range runs {
		out = append(out, Summarize(r))
	}
	return out
}

func TestBetweenRuns(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	for _, share := range []float64{0, 0.3, 0.9} {
		runs := make([][]float64, 400)
		for i := range runs {
			level := math.Sqrt(share) * r.NormFloat64()
			for range 10 + i%20 {
				runs[i] = append(runs[i], level+math.Sqrt(1-share)*r.NormFloat64())
			}
		}
		near(t, "share between runs", BetweenRuns(summaries(runs...)), share, 0.04)
	}
	near(t, "one run", BetweenRuns(summaries([]float64{1, 2, 3})), math.NaN(), 0)
	near(t, "one measurement each", BetweenRuns(summaries([]float64{1}, []float64{2})), math.NaN(), 0)
	near(t, "all equal", BetweenRuns(summaries([]float64{1, 1}, []float64{1, 1})), math.NaN(), 0)
	near(t, "runs alone differ", BetweenRuns(summaries([]float64{1, 1}, []float64{2, 2}, nil)), 1, 0)
}

// TestSequence: small cases with obvious results.
func TestSequence(t *testing.T) {
	s := NewSequence(0.05, 0.001)
	if i := s.Interval(); !math.IsInf(i.Low, -1) || !math.IsInf(i.High, 1) {
		t.Errorf("of nothing: %v", i)
	}
	for i := range 12 {
		s.Add(-0.08 + 0.01*float64(i%3-1))
		if i := s.Interval(); math.IsInf(i.Low, -1) != (s.N() < 7) || math.IsInf(i.High, 1) != (s.N() < 7) {
			t.Errorf("of %d values: %v", s.N(), i)
		}
	}
	i := s.Interval()
	if !i.Contains(-0.08) || i.Contains(0) || i.Low < -0.1 || i.High > -0.06 {
		t.Errorf("an effect of -0.08: %v", i)
	}
	near(t, "estimate", s.Estimate(), -0.08, 0.003)
	before := i
	s.Add(3) // a spike
	if i = s.Interval(); i.Contains(0) || i.High-before.High > 0.02 {
		t.Errorf("one spike: %v, before %v", i, before)
	}
	if s.Winsorized() == 0 {
		t.Error("the spike is not counted")
	}

	// A metric without noise is exact.
	s = NewSequence(0.05, 0)
	for range 8 {
		s.Add(0.05)
	}
	if i := s.Interval(); i.Contains(0) || math.Abs(i.Low-0.05) > 1e-6 || math.Abs(i.High-0.05) > 1e-6 {
		t.Errorf("without noise: %v", i)
	}
	s = NewSequence(0.05, 0)
	for range 8 {
		s.Add(0)
	}
	if i := s.Interval(); !i.Contains(0) || i.Low < -1e-6 || i.High > 1e-6 {
		t.Errorf("without noise and effect: %v", i)
	}
	if n := s.Needed(0.01, 1000); n != 0 {
		t.Errorf("needs %d more", n)
	}
}

// TestWealthIsFair: with the true center, the average wealth over all orders of sides is 1 at most
// (exactly: it is what makes the interval valid), whatever the distances are.
func TestWealthIsFair(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 1))
	for range 20 {
		distances := make([]float64, 10)
		for i := range distances {
			distances[i] = math.Exp(3 * r.NormFloat64())
		}
		for _, side := range []float64{1, -1} {
			mean := 0.0
			for signs := range 1 << len(distances) {
				s := NewSequence(0.05, 0.01)
				for i, d := range distances {
					if signs>>i&1 == 1 {
						d = -d
					}
					s.Add(5 + d)
				}
				mean += s.wealth(5, side) / float64(int(1)<<len(distances))
			}
			near(t, "average wealth", mean, 1, 1e-9)
		}
	}
}

// TestIntervalIsTheInversion: the interval's ends are where the test of an effect changes its
// result, on a fine grid.
func TestIntervalIsTheInversion(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 50 {
		s := NewSequence(0.05, 0.01)
		for i := range 30 {
			v := r.NormFloat64()
			if i%7 == 0 {
				v *= 10
			}
			s.Add(v + 1)
		}
		got := s.Interval()
		low, high := math.Inf(1), math.Inf(-1)
		for x := -20.0; x <= 20; x += 0.002 {
			if max(s.wealth(x, 1), s.wealth(x, -1)) < 2/0.05 {
				low, high = math.Min(low, x), math.Max(high, x)
			}
		}
		near(t, "low", got.Low, low, 0.004)
		near(t, "high", got.High, high, 0.004)
	}
}

// TestFewest tests that an interval is bounded from Fewest values on, whatever they are.
func TestFewest(t *testing.T) {
	for _, alpha := range []float64{0.2, 0.05, 0.045, 0.00125, 0.001} {
		s := NewSequence(alpha, 0.01)
		for n := 1; n <= s.Fewest()+1; n++ {
			s.Add(math.Sin(float64(n)))
			if bounded := !math.IsInf(s.Interval().High-s.Interval().Low, 0); bounded != (n >= s.Fewest()) {
				t.Errorf("alpha %v: after %d values, of %d, bounded: %v", alpha, n, s.Fewest(), bounded)
			}
		}
	}
	if n := NewSequence(0.045, 0).Fewest(); n != 7 {
		t.Errorf("the design's first verdict takes %d blocks", n)
	}
}

// TestRange tests the interval of few values.
func TestRange(t *testing.T) {
	s := NewSequence(0.05, 0.1)
	for i, want := range []float64{0.5, 0.75, 0.875} {
		for s.N() < i+2 {
			s.Add(float64(s.N()))
		}
		if got, confidence := s.Range(); got.Low != -0.1 || got.High != float64(i+1)+0.1 || confidence != want {
			t.Errorf("%d values: %v with %v", s.N(), got, confidence)
		}
	}
}
