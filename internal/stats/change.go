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

// segmenter holds a series with its sums: that of values i to j-1 is sums[j] - sums[i].
type segmenter struct{ x, sums, squares []float64 }

// newSegmenter returns the segmenter of values about a center, which keeps the digits of the squares.
func newSegmenter(x []float64, center float64) *segmenter {
	s := &segmenter{x: make([]float64, len(x)), sums: make([]float64, len(x)+1), squares: make([]float64, len(x)+1)}
	for i, v := range x {
		v -= center
		s.x[i] = v
		s.sums[i+1], s.squares[i+1] = s.sums[i]+v, s.squares[i]+v*v
	}
	return s
}

func (s *segmenter) mean(from, to int) float64 {
	return (s.sums[to] - s.sums[from]) / float64(to-from)
}

// scatter returns the sum of the squared distances from the mean.
func (s *segmenter) scatter(from, to int) float64 {
	sum := s.sums[to] - s.sums[from]
	return max(0, s.squares[to]-s.squares[from]-sum*sum/float64(to-from))
}

// candidates returns the positions at which the level may change, in order.
func (s *segmenter) candidates() (cuts []int) {
	n := len(s.x)
	for from := 0; ; from += changeWindow / 2 {
		if last := from+changeWindow >= n; last {
			from = max(0, n-changeWindow)
			cuts = s.split(newDistances(s.x[from:]), from, 0, n-from, cuts)
			break
		}
		cuts = s.split(newDistances(s.x[from:from+changeWindow]), from, 0, changeWindow, cuts)
	}
	slices.Sort(cuts)
	return slices.Compact(cuts)
}

// split adds the position that divides values low to high-1 of a window best, if it is at all
// significant, and those that divide both parts.
func (s *segmenter) split(d distances, window, low, high int, cuts []int) []int {
	best, at, end := math.Inf(-1), 0, 0
	for cut := low + ShortestLevel; cut <= high-ShortestLevel; cut++ {
		for to := cut + ShortestLevel; to <= high; to++ {
			if q := d.divergence(low, cut, to); q > best {
				best, at, end = q, cut, to
			}
		}
	}
	if at == 0 || s.p(window+low, window+at, window+end, 0) >= weak {
		return cuts
	}
	cuts = append(cuts, window+at)
	cuts = s.split(d, window, low, at, cuts)
	return s.split(d, window, at, high, cuts)
}

// distances holds sums of the distances of all pairs of a window: [i][j] is the sum over the first
// i and the first j values.
type distances [][]float64

func newDistances(x []float64) distances {
	d := make(distances, len(x)+1)
	d[0] = make([]float64, len(x)+1)
	for i := range x {
		d[i+1] = make([]float64, len(x)+1)
		for j := range x {
			d[i+1][j+1] = d[i][j+1] + d[i+1][j] - d[i][j] + math.Abs(x[i]-x[j])
		}
	}
	return d
}

func (d distances) between(from, to, low, high int) float64 {
	return d[to][high] - d[from][high] - d[to][low] + d[from][low]
}

// divergence returns how much values from to cut-1 differ from values cut to to-1: Q of Matteson and
// James, section 2.2, with exponent 1.
func (d distances) divergence(from, cut, to int) float64 {
	n, m := float64(cut-from), float64(to-cut)
	return n * m / (n + m) * (2*d.between(from, cut, cut, to)/(n*m) - d.between(from, cut, from, cut)/(n*(n-1)) - d.between(cut, to, cut, to)/(m*(m-1)))
}

// neighbors returns the limits of the two levels at cut i.
func (s *segmenter) neighbors(cuts []int, i int) (from, to int) {
	to = len(s.x)
	if i > 0 {
		from = cuts[i-1]
	}
	if i+1 < len(cuts) {
		to = cuts[i+1]
	}
	return from, to
}

// significant removes the least significant cut until all are significant.
func (s *segmenter) significant(cuts []int, significance float64) []int {
	for len(cuts) > 0 {
		lag1, worst, least := s.lag1(cuts), 0, -1.0
		for i := range cuts {
			from, to := s.neighbors(cuts, i)
			if p := s.p(from, cuts[i], to, lag1); p > least {
				worst, least = i, p
			}
		}
		if least < significance {
			break
		}
		cuts = slices.Delete(cuts, worst, worst+1)
	}
	return cuts
}

// p returns the two-sided p-value of Student's t test that the levels before and after a cut are
// equal, for values with autocorrelation lag1. It is 1 if one level is too short.
func (s *segmenter) p(from, cut, to int, lag1 float64) float64 {
	if cut-from < ShortestLevel || to-cut < ShortestLevel {
		return 1
	}
	size, se, df := s.difference(from, cut, to, lag1)
	if size == 0 {
		return 1
	}
	return 2 * (1 - studentCDF(math.Abs(size)/se, df))
}

// difference returns the difference of the levels after and before a cut, its standard error with
// equal variances, and its degrees of freedom.
func (s *segmenter) difference(from, cut, to int, lag1 float64) (size, se, df float64) {
	n, m := float64(cut-from), float64(to-cut)
	a, b := inflation(cut-from, lag1), inflation(to-cut, lag1)
	variance := (s.scatter(from, cut) + s.scatter(cut, to)) / (n + m - a - b)
	return s.mean(cut, to) - s.mean(from, cut), math.Sqrt(variance * (a/n + b/m)), freedom(to-from, lag1)
}

// inflation returns by which factor autocorrelation increases the variance of the mean of n values
// of a first-order autoregressive process.
func inflation(n int, lag1 float64) float64 {
	sum, power := 1.0, 1.0
	for k := 1; k < n && power > 1e-6; k++ {
		power *= lag1
		sum += 2 * (1 - float64(k)/float64(n)) * power
	}
	return max(1, min(sum, float64(n)-0.5))
}

// freedom returns the degrees of freedom of the variance of n values about two levels (Bartlett's
// effective number of values).
func freedom(n int, lag1 float64) float64 {
	return max(1, float64(n)*(1-lag1*lag1)/(1+lag1*lag1)-2)
}

// lag1 returns the autocorrelation of neighboring values about their levels, 0 to 0.9. It corrects
// the bias of each level's mean (Kendall 1954).
func (s *segmenter) lag1(cuts []int) float64 {
	products, squares, from := 0.0, 0.0, 0
	for _, to := range append(slices.Clone(cuts), len(s.x)) {
		m := s.mean(from, to)
		for i := from; i < to; i++ {
			squares += (s.x[i] - m) * (s.x[i] - m)
			if i > from {
				products += (s.x[i] - m) * (s.x[i-1] - m)
			}
		}
		from = to
	}
	if squares == 0 {
		return 0
	}
	n, levels := float64(len(s.x)), float64(len(cuts)+1)
	if n <= 4*levels {
		return 0
	}
	return max(0, min(0.9, (products/squares+levels/n)/(1-3*levels/n)))
}

func (s *segmenter) noise(cuts []int) float64 {
	sum, from := 0.0, 0
	for _, to := range append(slices.Clone(cuts), len(s.x)) {
		sum += s.scatter(from, to)
		from = to
	}
	if len(s.x) <= len(cuts)+1 {
		return 0
	}
	return math.Sqrt(sum / float64(len(s.x)-len(cuts)-1))
}

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

// mostLikely returns the ends of the smallest interval around at which has the probability.
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
