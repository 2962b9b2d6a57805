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
