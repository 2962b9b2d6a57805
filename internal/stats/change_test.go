package stats_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"fettle.dev/fettle/internal/stats"
	testkitroot "fettle.dev/fettle/internal/testkit/root"
)

// noises are models of the scatter about a level; each has a standard deviation of about 1.
var noises = map[string]func(*rand.Rand, []float64){
	"independent": func(r *rand.Rand, x []float64) { autoregressive(r, x, 0) },
	"lag1=0.3":    func(r *rand.Rand, x []float64) { autoregressive(r, x, 0.3) },
	"lag1=0.5":    func(r *rand.Rand, x []float64) { autoregressive(r, x, 0.5) },
	"lag1=0.7":    func(r *rand.Rand, x []float64) { autoregressive(r, x, 0.7) },
	// One value in 20 is 10 times as far away, always on the same side.
	"spikes": func(r *rand.Rand, x []float64) {
		for i := range x {
			if x[i] = r.NormFloat64(); r.IntN(20) == 0 {
				x[i] += 10
			}
		}
	},
	"bimodal": func(r *rand.Rand, x []float64) {
		for i := range x {
			x[i] = 0.3*r.NormFloat64() + 2*float64(r.IntN(2)) - 1
		}
	},
}

func autoregressive(r *rand.Rand, x []float64, lag1 float64) {
	last := r.NormFloat64()
	for i := range x {
		last = lag1*last + math.Sqrt(1-lag1*lag1)*r.NormFloat64()
		x[i] = last
	}
}

// falseAlarms returns the share of series without a change in which one is found.
func falseAlarms(noise string, n, series int) float64 {
	r, x, found := rand.New(rand.NewPCG(uint64(n), 7)), make([]float64, n), 0
	for range series {
		if noises[noise](r, x); len(stats.Changes(x, 0.05).Changes) > 0 {
			found++
		}
	}
	return float64(found) / float64(series)
}

// TestChangesWithoutChange: of series of independent, normal values without a change, at most 5 %
// seem to have one.
func TestChangesWithoutChange(t *testing.T) {
	const series = 400
	for _, n := range []int{7, 10, 20, 50} {
		// At a single look it is about 1 %; the limit is 2.5 standard deviations of the count above.
		if share := falseAlarms("independent", n, series); share > 0.01+2.5*0.005 {
			t.Errorf("%d values: %.1f %% of the series seem to have a change", n, 100*share)
		}
	}
	// At any of the looks from 7 to 50 values: 5 %, and 2.5 standard deviations.
	if share := falseLooks("independent", 50, 150); share > 0.05+2.5*0.018 {
		t.Errorf("%.1f %% of the series seem to have a change at some look", 100*share)
	}
}

// TestChangesOdd: series that are short, constant, rounded or far apart have a result, and no change
// at an impossible place.
func TestChangesOdd(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	for n := 0; n < 160; n += 1 + n/8 {
		for _, of := range []func(i int) float64{
			func(int) float64 { return 3 },
			func(i int) float64 { return float64(i) },
			func(i int) float64 { return float64(i / 10) },
			func(int) float64 { return float64(r.IntN(2)) },
			func(int) float64 { return math.Pow(10, float64(r.IntN(8)-4)) },
			func(i int) float64 { return 1e12 + float64(i/40) },
		} {
			x := make([]float64, n)
			for i := range x {
				x[i] = of(i)
			}
			s, last := stats.Changes(x, 0.05), 0
			for _, c := range s.Changes {
				if c.At-last < stats.ShortestLevel || n-c.At < stats.ShortestLevel || c.Earliest > c.At || c.Latest < c.At || c.Latest >= n || c.Earliest < 1 ||
					!c.Interval.Contains(c.Size) || math.IsInf(c.Interval.Low, 0) || math.IsInf(c.Interval.High, 0) || math.IsNaN(c.P) {
					t.Fatalf("%v: %+v", x, c)
				}
				last = c.At
			}
			if math.IsNaN(s.Noise) || math.IsNaN(s.Lag1) || math.IsNaN(s.Visible(10, 5)) {
				t.Fatalf("%v: %+v", x, s)
			}
		}
	}
	steps := make([]float64, 120)
	for i := range steps {
		steps[i] = 1e12 + float64(i/40)
	}
	if s := stats.Changes(steps, 0.05); len(s.Changes) != 2 || s.Changes[0].At != 40 || s.Changes[1].At != 80 || s.Noise != 0 {
		t.Errorf("%+v", s)
	}
}

// falseLooks returns the share of series without a change in which one is found at any look, one
// after each value.
func falseLooks(noise string, n, series int) float64 {
	r, x, found := rand.New(rand.NewPCG(1, 1)), make([]float64, n), 0
	for range series {
		noises[noise](r, x)
		for n := stats.FewestForChanges; n <= len(x); n++ {
			if len(stats.Changes(x[:n], 0.05).Changes) > 0 {
				found++
				break
			}
		}
	}
	return float64(found) / float64(series)
}

// stepped is the result of series with one step.
type stepped struct {
	series, found, exact, extra int
	when, size                  int // intervals that contain the truth, of those found
	distance                    float64
	width                       float64
}

// steps makes series with a step of size after before values, and looks for it.
func steps(noise string, before, after int, size float64, series int) (s stepped) {
	r, x := rand.New(rand.NewPCG(uint64(before), uint64(after))), make([]float64, before+after)
	s.series = series
	for range series {
		noises[noise](r, x)
		for i := before; i < len(x); i++ {
			x[i] += size
		}
		all := stats.Changes(x, 0.05).Changes
		if len(all) == 0 {
			continue
		}
		s.found++
		s.extra += len(all) - 1
		c := slices.MinFunc(all, func(a, b stats.Change) int { return abs(a.At-before) - abs(b.At-before) })
		s.distance += float64(abs(c.At - before))
		s.width += c.Interval.High - c.Interval.Low
		if c.At == before {
			s.exact++
		}
		if c.Earliest <= before && before <= c.Latest {
			s.when++
		}
		if c.Interval.Contains(size) {
			s.size++
		}
	}
	return s
}

func abs(n int) int { return max(n, -n) }

func (s stepped) String() string {
	of := func(n int) float64 { return 100 * float64(n) / float64(max(1, s.found)) }
	return fmt.Sprintf("found %5.1f %%, exact %5.1f %%, when %5.1f %%, size %5.1f %%, distance %.2f, extra %.3f, width %.2f",
		100*float64(s.found)/float64(s.series), of(s.exact), of(s.when), of(s.size), s.distance/float64(max(1, s.found)), float64(s.extra)/float64(s.series), s.width/float64(max(1, s.found)))
}

// TestChangesFindsSteps: steps are found, and the intervals for where and how large they are contain
// the truth in about 95 % of the cases.
func TestChangesFindsSteps(t *testing.T) {
	for _, c := range []struct {
		before, after int
		size          float64
		found         float64
	}{{30, 5, 5, 0.95}, {20, 20, 3, 0.99}, {60, 40, 2, 0.99}, {4, 4, 10, 0.95}} {
		const series = 200
		s := steps("independent", c.before, c.after, c.size, series)
		t.Logf("%+v: %v", c, s)
		if float64(s.found) < c.found*series || float64(s.when) < 0.9*float64(s.found) || float64(s.size) < 0.9*float64(s.found) {
			t.Errorf("%+v: %v", c, s)
		}
	}
}

// TestChangesTable prints the table of docs/runs-trend.md: false alarms and steps by kind of noise.
func TestChangesTable(t *testing.T) {
	testkitroot.Nightly(t, "100,000 simulated series")
	for _, noise := range []string{"independent", "lag1=0.3", "lag1=0.5", "lag1=0.7", "spikes", "bimodal"} {
		line := noise + ":"
		for _, n := range []int{7, 10, 20, 50, 100, 300} {
			line += fmt.Sprintf(" %d values %.1f %%", n, 100*falseAlarms(noise, n, 2000))
		}
		t.Logf("%s; at any look until 30: %.1f %%, 100: %.1f %%", line, 100*falseLooks(noise, 30, 1000), 100*falseLooks(noise, 100, 1000))
		for _, c := range []struct {
			before, after int
			size          float64
		}{{30, 3, 5}, {30, 5, 4}, {30, 10, 3}, {50, 50, 1.5}, {10, 10, 3}, {4, 4, 8}} {
			t.Logf("%s, %d + %d values, step %.1f: %v", noise, c.before, c.after, c.size, steps(noise, c.before, c.after, c.size, 1000))
		}
	}
}
