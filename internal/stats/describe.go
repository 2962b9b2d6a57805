// Package stats is the mathematics of measured values: description, and tests that
// stay right under the noise of a real machine. It is pure: no clock, no randomness
// but what is handed in, no input and output.
package stats

import (
	"math"
	"slices"
)

// Mean is the arithmetic mean; NaN of nothing.
func Mean(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}

// SD is the standard deviation of a sample (divisor n-1); 0 of fewer than two values.
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

// Quantile is the p-quantile (0 to 1), linear between the order statistics
// (Hyndman and Fan's type 7, the default of R and NumPy); NaN of nothing.
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

// Median is the middle value; NaN of nothing.
func Median(x []float64) float64 { return Quantile(x, 0.5) }

// MAD is the median absolute deviation from the median, times 1.4826, which makes
// it the standard deviation where values are normally distributed; NaN of nothing.
func MAD(x []float64) float64 {
	m := Median(x)
	dev := make([]float64, len(x))
	for i, v := range x {
		dev[i] = math.Abs(v - m)
	}
	return 1.4826 * Median(dev)
}

// MedianInterval contains the median of the distribution that the values are drawn
// from with probability 1-alpha at least, whatever that distribution is: the order
// statistics between which it lies (the sign test, inverted). It holds where the
// number of values was fixed beforehand, and is infinite where they are too few.
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

// Spread is by what ratio the largest value exceeds the smallest, of positive values;
// 0 of fewer than two.
func Spread(x []float64) float64 {
	if len(x) < 2 {
		return 0
	}
	return slices.Max(x)/slices.Min(x) - 1
}
