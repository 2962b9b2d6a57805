package stats

import (
	"math"
	"slices"
)

// Interval is a confidence interval; its ends may be infinite.
type Interval struct{ Low, High float64 }

// Contains says whether x lies in the interval, ends included.
func (i Interval) Contains(x float64) bool { return i.Low <= x && x <= i.High }

// Sequence is an anytime-valid confidence sequence for the centre of values that
// are symmetric about it, as the differences of randomised quads are: Interval may
// be asked after each value, and the experiment may stop for whatever reason. Each
// value is limited to a band about the effect under test (Huber's psi), whose width
// comes from earlier values only: one spike cannot hide an effect, and no value is
// deleted.
type Sequence struct {
	alpha, g float64
	least    float64   // half-width that no band falls below
	placebo  []float64 // differences known to have centre 0
	values   []float64
	limits   []float64 // of each value: the half-width of its band
}

// band is the half-width of the band in units of the noise (Huber 1964: 1.345 has
// 95 % efficiency under normal noise; at 1.5 it is 96 %).
const band = 1.5

// NewSequence begins a sequence with error rate alpha. The placebo's values, of which
// the centre is 0, tell the scale of the noise; at least two are needed. No band becomes
// narrower than least, a difference that does not matter: values in coarse steps are
// mostly equal, their noise seems to be none, and a difference of rounding would decide.
func NewSequence(alpha float64, placebo []float64, least float64) *Sequence {
	return &Sequence{alpha: alpha, g: 1, placebo: placebo, least: max(least, 1e-12)}
}

// N is the number of values.
func (s *Sequence) N() int { return len(s.values) }

// Values are the values in the order in which they came, unlimited.
func (s *Sequence) Values() []float64 { return s.values }

// Noise is the scale of one value's noise as all values so far tell it: a standard
// deviation by the median absolute deviation.
func (s *Sequence) Noise() float64 {
	dev := make([]float64, 0, len(s.placebo)+len(s.values))
	for _, v := range s.placebo {
		dev = append(dev, math.Abs(v))
	}
	if len(s.values) > 1 {
		m := Median(s.values)
		for _, v := range s.values {
			dev = append(dev, math.Abs(v-m))
		}
	}
	return 1.4826 * Median(dev)
}

// Add takes the next value.
func (s *Sequence) Add(v float64) {
	limit := max(band*s.Noise(), s.least)
	s.values = append(s.values, v)
	s.limits = append(s.limits, limit)
}

// scores are the mean and the standard deviation of the values about effect, each in
// units of its band and limited to it: -1 to 1. In these units all values beyond
// their bands are alike, however the bands have changed meanwhile.
//
// The deviation counts one more score at either limit. Values that all lie beyond
// their bands on one side have none of their own, and five of these come by chance
// once in sixteen times; so it takes seven.
func (s *Sequence) scores(effect float64) (mean, sd float64) {
	sum, squares := 0.0, 2.0
	for i, v := range s.values {
		h := max(-1, min(1, (v-effect)/s.limits[i]))
		sum += h
		squares += h * h
	}
	n := float64(len(s.values))
	mean = sum / n
	return mean, math.Sqrt((squares - n*mean*mean) / (n + 1))
}

// Winsorized counts the values that lie outside of their band about the estimate.
func (s *Sequence) Winsorized() (n int) {
	centre := s.Estimate()
	for i, v := range s.values {
		if math.Abs(v-centre) > s.limits[i] {
			n++
		}
	}
	return n
}

// Estimate is the effect at which the limited values balance (Huber's M-estimate
// of location); NaN before the first value.
func (s *Sequence) Estimate() float64 {
	if len(s.values) == 0 {
		return math.NaN()
	}
	low, high := s.values[0], s.values[0]
	for _, v := range s.values {
		low, high = min(low, v), max(high, v)
	}
	return bisect(low, high, s.tolerance(), func(x float64) bool { m, _ := s.scores(x); return m > 0 })
}

// tolerance is a distance that does not matter beside the noise.
func (s *Sequence) tolerance() float64 { return 1e-5 * slices.Min(s.limits) }

// Interval is the set of effects that the values do not contradict.
func (s *Sequence) Interval() Interval {
	n := len(s.values)
	width := Radius(n, 1, s.alpha, s.g) // of a standard deviation of 1
	if math.IsInf(width, 1) {
		return Interval{math.Inf(-1), math.Inf(1)}
	}
	centre := s.Estimate()
	kept := func(effect float64) bool {
		m, sd := s.scores(effect)
		return math.Abs(m) <= width*sd
	}
	// edge is the furthest effect that is not contradicted. A contradicted one may
	// have others behind it (the limited values' spread changes with the effect), so
	// the search goes on until every value lies at its limit; from there on nothing
	// changes. Its steps begin at a tenth of the noise of the mean.
	edge := func(direction float64) float64 {
		end := centre
		for i, v := range s.values {
			end = max(direction*end, direction*v+s.limits[i]) * direction
		}
		if kept(end) {
			return direction * math.Inf(1)
		}
		step := max(0.1*s.limits[n-1]/math.Sqrt(float64(n)), 1e-12)
		last, beyond := centre, end
		for at := centre; direction*at < direction*end; step *= 1.1 {
			next := direction * min(direction*(at+direction*step), direction*end)
			if kept(at) {
				last, beyond = at, next
			}
			at = next
		}
		return bisect(last, beyond, s.tolerance(), kept)
	}
	return Interval{edge(-1), edge(1)}
}

// bisect is the place between a, where holds is true (or taken to be), and b, where
// it is false, at which it changes, to within a distance.
func bisect(a, b, within float64, holds func(float64) bool) float64 {
	for math.Abs(b-a) > within {
		mid := a + (b-a)/2
		if mid == a || mid == b {
			break
		}
		if holds(mid) {
			a = mid
		} else {
			b = mid
		}
	}
	return a + (b-a)/2
}

// Needed is the number of further values after which an interval of the half-width
// half can be expected, with the noise seen so far; limit when it is more.
func (s *Sequence) Needed(half float64, limit int) int {
	noise := s.Noise()
	if len(s.values) > 1 {
		// The standard deviation of a score, over by how much the mean score moves
		// with the effect: the asymptotic one of an M-estimate.
		centre := s.Estimate()
		_, sd := s.scores(centre)
		slope := 0.0
		for i, v := range s.values {
			if math.Abs(v-centre) < s.limits[i] {
				slope += 1 / s.limits[i] / float64(len(s.values))
			}
		}
		if slope > 0 {
			noise = sd / slope
		}
	}
	return max(0, min(limit, Needed(half, noise, s.alpha, s.g, limit+len(s.values))-len(s.values)))
}
