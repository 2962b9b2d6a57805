package stats

import (
	"math"
	"slices"
)

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

// split adds the position that divides values low to high-1 of a window best, if it is at least
// weakly significant. Then it splits both parts.
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
