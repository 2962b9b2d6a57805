package stats

import "math"

// Radius returns half the width of an anytime-valid confidence interval for the mean of n
// values with standard deviation sd. With probability 1-alpha, the intervals mean ± Radius
// after every value all contain the true mean. Radius is infinite while n is too small.
//
// It is based on the one-sample Bayes factor of Student's t, with the right-Haar prior for the
// scale and a normal prior of variance g for the standardized effect. Under the null hypothesis
// this is a nonnegative martingale (Ville's inequality; Wang and Ramdas, "Anytime-valid t-tests
// and confidence sequences for Gaussian means with unknown variance", 2023).
func Radius(n int, sd, alpha, g float64) float64 {
	if n < 2 {
		return math.Inf(1)
	}
	nf, r := float64(n), 1+float64(n)*g
	k := math.Pow(math.Sqrt(r)/alpha, 2/nf)
	if k >= r {
		return math.Inf(1)
	}
	return sd / math.Sqrt(nf) * math.Sqrt((nf-1)*(k-1)/(1-k/r))
}

// Needed returns the number of values with standard deviation sd from which Radius is at most
// half. It returns limit if more are needed.
func Needed(half, sd, alpha, g float64, limit int) int {
	// Radius decreases with n once it is finite.
	low, high := 2, limit
	for low < high {
		mid := (low + high) / 2
		if Radius(mid, sd, alpha, g) <= half {
			high = mid
		} else {
			low = mid + 1
		}
	}
	return low
}
