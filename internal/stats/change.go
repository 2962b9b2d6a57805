package stats

import (
	"math"
	"slices"
)

// Limits of Changes, in values.
const (
	FewestForChanges = 7  // fewer values show nothing
	ShortestLevel    = 3  // fewest values before and after a change
	changeWindow     = 50 // size of a window
)

// weak is the significance at which a position becomes a candidate for a change.
const weak = 0.1

// power is the probability with which a change of the size that Visible returns is found.
const power = 0.8

// intervalAlpha is the error rate of each interval of a Change.
const intervalAlpha = 0.05

// Change is a lasting change of the level of a series.
type Change struct {
	// At is the index of the first value at the new level. It is from Earliest to Latest with a
	// confidence of 95 %.
	At, Earliest, Latest int
	// Before and After are the levels, the means of the values between the neighboring changes.
	Before, After float64
	// Size is After minus Before, and Interval its interval with a confidence of 95 %, which allows for
	// At not being known exactly.
	Size     float64
	Interval Interval
	P        float64 // of Student's t test
}

// Segmentation divides a series into levels.
type Segmentation struct {
	Changes []Change // in order; empty if nothing is significant
	// Noise is the standard deviation of a value about its level. Lag1 is the autocorrelation of
	// neighboring values about their levels, corrected for its bias: 0 to 0.9.
	Noise, Lag1 float64

	significance float64
}

// Changes finds where the level of a series changes. alpha limits the probability of ever finding a
// change in a growing series of independent, normally distributed values without one, if it is called
// after each value; TestChangesTable measures it.
//
// It is E-divisive with means (Matteson and James, "A nonparametric approach for multiple change
// point analysis of multivariate data", 2014) with the adaptations of Hunter (Fleming and others,
// "Hunter: using change point detection to hunt for performance regressions", 2023): overlapping
// windows, so that an old change does not hide a recent one; many candidates, of which the least
// significant is removed until all are significant; and Student's t test, whose result is the same
// each time. Other than there, the p-value must be below alpha / (2 n^1.5) for n values: there are n
// positions, and the calls count too; the test allows for autocorrelation; and values that are far
// from those around them are limited.
func Changes(x []float64, alpha float64) Segmentation {
	center := Median(x)
	s := newSegmenter(withoutSpikes(x), center)
	out := Segmentation{significance: alpha / (2 * math.Pow(float64(len(x)), 1.5))}
	var cuts []int
	if len(x) >= FewestForChanges {
		cuts = s.significant(s.candidates(), out.significance)
	}
	for found := -1; found != len(cuts); {
		found = len(cuts)
		for range 2 { // each position depends on its neighbors
			for i := range cuts {
				from, to := s.neighbors(cuts, i)
				cuts[i] = s.mostProbable(from, to, cuts[i])
			}
		}
		// The levels are known now, so what is far from its neighbors but not from its level counts.
		s = newSegmenter(nearLevels(x, cuts), center)
		cuts = s.significant(cuts, out.significance)
	}
	lag1 := s.lag1(cuts)
	for i := range cuts {
		from, to := s.neighbors(cuts, i)
		c := s.change(from, cuts[i], to, lag1)
		c.Before, c.After = c.Before+center, c.After+center
		out.Changes = append(out.Changes, c)
	}
	out.Noise, out.Lag1 = s.noise(cuts), lag1
	return out
}

// Visible returns the size of a change that is found with a probability of 80 % once there are after
// values at the new level, and before at the old one. It is infinite if these are too few.
func (s *Segmentation) Visible(before, after int) float64 {
	if before < ShortestLevel || after < ShortestLevel || before+after < FewestForChanges {
		return math.Inf(1)
	}
	df := freedom(before+after, s.Lag1)
	need := StudentQuantile(1-s.significance/2, df) + StudentQuantile(power, df)
	return s.Noise * need * math.Sqrt(inflation(before, s.Lag1)/float64(before)+inflation(after, s.Lag1)/float64(after))
}

// spike is the distance in standard deviations to which values are limited (winsorized), so that a
// few far ones are not a change and do not hide one.
const spike = 3

// withoutSpikes limits each value to its distance from the median of the values around it. Steps
// stay as they are, as such a median is on the same side of a step as its value.
func withoutSpikes(x []float64) []float64 {
	if len(x) < FewestForChanges {
		return x
	}
	steps := make([]float64, len(x)-1)
	for i := range steps {
		steps[i] = x[i+1] - x[i]
	}
	noise := MAD(steps) / math.Sqrt2
	if noise == 0 { // rounded values
		return x
	}
	out := make([]float64, len(x))
	for i, v := range x {
		m := Median(x[max(0, i-3):min(len(x), i+4)])
		out[i] = max(m-spike*noise, min(m+spike*noise, v))
	}
	return out
}

// nearLevels limits each value to its distance from the median of its level.
func nearLevels(x []float64, cuts []int) []float64 {
	distance, out, from := make([]float64, len(x)), make([]float64, len(x)), 0
	for _, to := range append(slices.Clone(cuts), len(x)) {
		m := Median(x[from:to])
		for i := from; i < to; i++ {
			out[i], distance[i] = m, x[i]-m
		}
		from = to
	}
	noise, n := MAD(distance), float64(len(x)-2*(len(cuts)+1))
	if noise == 0 || n <= 0 {
		return x
	}
	limit := spike * noise * float64(len(x)) / n // the medians are fitted
	for i, d := range distance {
		out[i] += max(-limit, min(limit, d))
	}
	return out
}
