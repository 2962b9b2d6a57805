package stats

import "math"

// Radius returns half the width that a Sequence has on average after n normally distributed values
// with standard deviation sd: an approximation for planning. It is infinite while n is too small.
//
// It is the anytime-valid interval of the one-sample Bayes factor of Student's t, with a prior of
// variance 1 for the standardized effect (Wang and Ramdas, "Anytime-valid t-tests and confidence
// sequences for Gaussian means with unknown variance", 2023), whose width is nearly the same.
func Radius(n int, sd, alpha float64) float64 {
	if n < 2 {
		return math.Inf(1)
	}
	nf, r := float64(n), 1+float64(n)
	k := math.Pow(math.Sqrt(r)/alpha, 2/nf)
	if k >= r {
		return math.Inf(1)
	}
	return sd / math.Sqrt(nf) * math.Sqrt((nf-1)*(k-1)/(1-k/r))
}

// Needed returns the number of values with standard deviation sd from which Radius is at most
// half. It returns limit if more are needed.
func Needed(half, sd, alpha float64, limit int) int {
	// Radius decreases with n once it is finite.
	low, high := 2, limit
	for low < high {
		mid := (low + high) / 2
		if Radius(mid, sd, alpha) <= half {
			high = mid
		} else {
			low = mid + 1
		}
	}
	return low
}

// Detectable returns the effect that a Sequence of n normally distributed values with standard
// deviation sd finds in about four of five cases: an approximation for planning. It is infinite
// while n is too small.
func Detectable(n int, sd, alpha float64) float64 {
	const (
		fourFifths = 0.84 // quantile of the normal distribution
		wider      = 1.15 // short sequences are wider than Radius
	)
	return wider*Radius(n, sd, alpha) + fourFifths*sd/math.Sqrt(float64(n))
}
