package stats

import (
	"math"
	"math/bits"
	"math/rand/v2"
)

// SignFlip returns the exact two-sided p-value of the hypothesis that the values are symmetric
// around 0. It is the share of sign patterns whose sum is at least as far from 0 as the
// observed sum. For up to 20 values all patterns are counted. For more, 100,000 patterns are
// drawn with a fixed seed, and the observed one is added, so p is never too small. It is valid
// only if the number of values was fixed beforehand.
func SignFlip(x []float64) float64 {
	n := len(x)
	if n == 0 {
		return 1
	}
	observed := 0.0
	for _, v := range x {
		observed += v
	}
	bound := math.Abs(observed) * (1 - 1e-12) // tolerates another summation order
	if n <= 20 {
		// Gray code: each step flips only one sign.
		sum := observed
		sign := make([]float64, n)
		for i := range sign {
			sign[i] = 1
		}
		extreme, all := 0, 1<<n
		for i := 1; ; i++ {
			if math.Abs(sum) >= bound {
				extreme++
			}
			if i == all {
				return float64(extreme) / float64(all)
			}
			k := bits.TrailingZeros(uint(i))
			sign[k] = -sign[k]
			sum += 2 * sign[k] * x[k]
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	const draws = 100_000
	extreme := 1
	for range draws {
		sum := 0.0
		for _, v := range x {
			if r.Uint64()&1 == 0 {
				sum += v
			} else {
				sum -= v
			}
		}
		if math.Abs(sum) >= bound {
			extreme++
		}
	}
	return float64(extreme) / (draws + 1)
}
