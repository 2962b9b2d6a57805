// Package stats computes descriptive statistics, confidence intervals and tests from slices of
// measured values. It is robust to the noise of real machines, and pure: it has no clock, no
// input or output, and randomness only with a fixed seed. Benchmarks, load tests and
// experiments use it.
package stats

import (
	"math"
	"slices"
)

// Mean returns the arithmetic mean, or NaN if x is empty.
func Mean(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}

// SD returns the sample standard deviation (divisor n-1), or 0 for fewer than two values.
func SD(x []float64) float64 {
	if len(x) < 2 {
		return 0
	}
	m, sum := Mean(x), 0.0
	for _, v := range x {
		sum += (v - m) * (v - m)
	}
	return math.Sqrt(sum / float64(len(x)-1))
}

// Quantile returns the p-quantile (p from 0 to 1), or NaN if x is empty. It interpolates
// linearly between the order statistics (Hyndman and Fan's type 7, the default of R and NumPy).
func Quantile(x []float64, p float64) float64 {
	s := slices.Sorted(slices.Values(x))
	if len(s) == 0 {
		return math.NaN()
	}
	at := p * float64(len(s)-1)
	low := int(math.Floor(at))
	if low >= len(s)-1 {
		return s[len(s)-1]
	}
	return s[low] + (at-float64(low))*(s[low+1]-s[low])
}

// Median returns the middle value, or NaN if x is empty.
func Median(x []float64) float64 { return Quantile(x, 0.5) }

// MAD returns the median absolute deviation from the median, times 1.4826, or NaN if x is
// empty. For normally distributed values it estimates the standard deviation.
func MAD(x []float64) float64 {
	m := Median(x)
	dev := make([]float64, len(x))
	for i, v := range x {
		dev[i] = math.Abs(v - m)
	}
	return 1.4826 * Median(dev)
}

// MedianInterval returns a confidence interval for the median of any distribution, with a
// coverage of at least 1-alpha. Its ends are order statistics, from the inverted sign test. It
// is valid only if the number of values was fixed beforehand, and infinite with too few values.
func MedianInterval(x []float64, alpha float64) Interval {
	s := slices.Sorted(slices.Values(x))
	n := len(s)
	// tail is the probability that at most k values lie below the median.
	term := math.Pow(0.5, float64(n))
	k, tail := -1, 0.0
	for i := 0; i < n/2; i++ {
		if tail += term; 2*tail > alpha {
			break
		}
		k = i
		term *= float64(n-i) / float64(i+1)
	}
	if k < 0 {
		return Interval{math.Inf(-1), math.Inf(1)}
	}
	return Interval{s[k], s[n-1-k]}
}

// Spread returns the ratio of the largest to the smallest of positive values, minus 1. For
// fewer than two values it returns 0.
func Spread(x []float64) float64 {
	if len(x) < 2 {
		return 0
	}
	return slices.Max(x)/slices.Min(x) - 1
}
