package stats

import (
	"math"
	"slices"
)

// Interval is a confidence interval. Its ends may be infinite.
type Interval struct{ Low, High float64 }

// Contains reports whether x lies in the interval, ends included.
func (i Interval) Contains(x float64) bool { return i.Low <= x && x <= i.High }

// Sequence is an anytime-valid confidence sequence for the center of symmetrically distributed
// values, such as the differences of randomized blocks. Interval may be called after each
// value, and the experiment may stop for any reason. Each value is winsorized to a band around
// the effect under test (Huber's psi). The band's width depends only on earlier values. So one
// spike cannot hide an effect, and no value is discarded.
type Sequence struct {
	alpha, g float64
	least    float64   // minimum half-width of a band
	placebo  []float64 // differences whose center is known to be 0
	values   []float64
	limits   []float64 // half-width of the band of each value
}

// band is the half-width of a band in units of the noise. At 1.5 the efficiency
// under normal noise is 96 % (Huber 1964: 95 % at 1.345).
const band = 1.5

// NewSequence starts a sequence with error rate alpha. placebo has at least two values with
// center 0, which give the scale of the noise. least is an irrelevant difference. It is the
// minimum half-width of a band: coarsely rounded values are often equal, so the noise would
// seem to be 0 and rounding would decide.
func NewSequence(alpha float64, placebo []float64, least float64) *Sequence {
	return &Sequence{alpha: alpha, g: 1, placebo: placebo, least: max(least, 1e-12)}
}

// N returns the number of values.
func (s *Sequence) N() int { return len(s.values) }

// Values returns the original values in order.
func (s *Sequence) Values() []float64 { return s.values }

// Noise returns the standard deviation of one value, estimated from all values so far by the
// median absolute deviation.
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

// Add appends a value and fixes the width of its band.
func (s *Sequence) Add(v float64) {
	limit := max(band*s.Noise(), s.least)
	s.values = append(s.values, v)
	s.limits = append(s.limits, limit)
}

// scores returns the mean and standard deviation of the values around effect, each in units of
// its band and limited to -1 to 1. In these units all values beyond their bands are equal,
// even if the width of the band has changed.
//
// The deviation includes one additional score at each limit. Otherwise values that are all
// beyond their bands on one side would have a deviation of 0. Five such values occur by chance
// once in sixteen times; with the additional scores seven are needed.
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

// Winsorized returns the number of values outside of their band around the estimate.
func (s *Sequence) Winsorized() (n int) {
	center := s.Estimate()
	for i, v := range s.values {
		if math.Abs(v-center) > s.limits[i] {
			n++
		}
	}
	return n
}

// Estimate returns the effect around which the winsorized values balance (Huber's M-estimate
// of location). It is NaN before the first value.
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

// tolerance returns a distance that is negligible compared with the noise.
func (s *Sequence) tolerance() float64 { return 1e-5 * slices.Min(s.limits) }

// Interval returns the set of effects that are compatible with the values.
func (s *Sequence) Interval() Interval {
	n := len(s.values)
	width := Radius(n, 1, s.alpha, s.g) // for a standard deviation of 1
	if math.IsInf(width, 1) {
		return Interval{math.Inf(-1), math.Inf(1)}
	}
	center := s.Estimate()
	kept := func(effect float64) bool {
		m, sd := s.scores(effect)
		return math.Abs(m) <= width*sd
	}
	// edge returns the furthest compatible effect in a direction. Compatible effects may be
	// beyond incompatible ones, because the deviation of the winsorized values changes with
	// the effect. So the search continues until every value is at its limit and nothing
	// changes any more. Steps start at a tenth of the noise of the mean.
	edge := func(direction float64) float64 {
		end := center
		for i, v := range s.values {
			end = max(direction*end, direction*v+s.limits[i]) * direction
		}
		if kept(end) {
			return direction * math.Inf(1)
		}
		step := max(0.1*s.limits[n-1]/math.Sqrt(float64(n)), 1e-12)
		last, beyond := center, end
		for at := center; direction*at < direction*end; step *= 1.1 {
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

// bisect returns the point between a and b, within a distance, at which holds changes. holds
// is true at a, or assumed to be, and false at b.
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

// Needed returns how many more values give an interval of half-width half, at the current
// noise. It returns limit if more are needed.
func (s *Sequence) Needed(half float64, limit int) int {
	noise := s.Noise()
	if len(s.values) > 1 {
		// The standard deviation of a score, divided by the change of the mean score per
		// effect, is the asymptotic deviation of an M-estimate.
		center := s.Estimate()
		_, sd := s.scores(center)
		slope := 0.0
		for i, v := range s.values {
			if math.Abs(v-center) < s.limits[i] {
				slope += 1 / s.limits[i] / float64(len(s.values))
			}
		}
		if slope > 0 {
			noise = sd / slope
		}
	}
	return max(0, min(limit, Needed(half, noise, s.alpha, s.g, limit+len(s.values))-len(s.values)))
}
