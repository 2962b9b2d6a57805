package stats

import (
	"math"
	"slices"
)

// likelihoods returns for each position of one change between from and to how probable it is, for
// normally distributed values with unknown levels and variance (Smith, "A Bayesian approach to
// inference about a change-point", 1975). The sum is 1.
func (s *segmenter) likelihoods(from, to int, lag1 float64) []float64 {
	exponent, least := freedom(to-from, lag1)/2, 1e-12*s.scatter(from, to)
	logs := make([]float64, to-from)
	for i := range logs {
		logs[i] = math.Inf(-1)
		if n, m := float64(i), float64(to-from-i); i > 0 {
			rest := max(s.scatter(from, from+i)+s.scatter(from+i, to), least)
			logs[i] = -math.Log(n*m)/2 - exponent*math.Log(rest)
		}
	}
	most, sum := slices.Max(logs), 0.0
	for i := range logs {
		logs[i] = math.Exp(logs[i] - most)
		sum += logs[i]
	}
	for i := range logs {
		logs[i] /= sum
	}
	return logs
}

// mostProbable returns the most probable position of the change between from and to. It returns at
// if the values do not vary.
func (s *segmenter) mostProbable(from, to, at int) int {
	if s.scatter(from, to) == 0 {
		return at
	}
	best := 0.0
	for i, p := range s.likelihoods(from, to, 0) {
		if p > best && i >= ShortestLevel && to-from-i >= ShortestLevel {
			best, at = p, from+i
		}
	}
	return at
}

// change describes the change at cut between from and to.
func (s *segmenter) change(from, cut, to int, lag1 float64) Change {
	c := Change{At: cut, Before: s.mean(from, cut), After: s.mean(cut, to), P: s.p(from, cut, to, lag1)}
	c.Size = c.After - c.Before
	at := s.likelihoods(from, to, lag1)
	c.Earliest, c.Latest = mostLikely(at, cut-from, 1-intervalAlpha)
	c.Earliest, c.Latest = from+c.Earliest, from+c.Latest
	type part struct{ weight, size, se, df float64 }
	var parts []part
	for i, p := range at {
		if p > 1e-6 {
			size, se, df := s.difference(from, from+i, to, lag1)
			parts = append(parts, part{p, size, max(se, 1e-12*math.Abs(size)), df})
		}
	}
	// below returns the probability that the size is below v.
	below := func(v float64) (sum float64) {
		for _, p := range parts {
			t := (v - p.size) / p.se
			if q := studentCDF(math.Abs(t), p.df); t < 0 {
				sum += p.weight * (1 - q)
			} else {
				sum += p.weight * q
			}
		}
		return sum
	}
	edge := func(q, direction float64) float64 {
		step := math.Abs(c.Size)
		for range 60 {
			if end := c.Size + direction*step; (below(end)-q)*direction > 0 {
				return bisect(c.Size, end, 1e-7*math.Abs(c.Size), func(v float64) bool { return (below(v)-q)*direction <= 0 })
			}
			step *= 2
		}
		return math.Inf(int(direction))
	}
	c.Interval = Interval{edge(intervalAlpha/2, -1), edge(1-intervalAlpha/2, 1)}
	return c
}

// mostLikely returns the ends of the smallest interval that contains position at and has at least
// the given probability.
func mostLikely(p []float64, at int, probability float64) (low, high int) {
	low, high = at, at
	for sum := p[at]; sum < probability && (low > 1 || high < len(p)-1); {
		if high == len(p)-1 || low > 1 && p[low-1] >= p[high+1] {
			low--
			sum += p[low]
		} else {
			high++
			sum += p[high]
		}
	}
	return low, high
}
