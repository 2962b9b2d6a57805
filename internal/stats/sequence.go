package stats

import (
	"math"
	"slices"
)

// Interval is a confidence interval. Its ends may be infinite.
type Interval struct{ Low, High float64 }

// Contains reports whether x lies in the interval, ends included.
func (i Interval) Contains(x float64) bool { return i.Low <= x && x <= i.High }

// Sequence is an anytime-valid confidence sequence for the center of values that are symmetric
// about it, such as the differences of randomized blocks. Interval may be called after each value,
// and the experiment may stop for any reason.
//
// It tests each possible center by betting (Waudby-Smith and Ramdas, "Estimating means of bounded
// random variables by betting", 2024): a gambler starts with 1 and bets a share of the wealth on
// the side of the center on which the next value will be. If the center is right, no bet has an
// advantage, so the wealth ever reaches 1/alpha with a probability of at most alpha (Ville's
// inequality). This holds for every distribution, also if it changes from value to value.
//
// The gain is proportional to the distance from the center, up to the width of a band, which
// depends only on earlier values. So one spike cannot hide an effect, and no value is discarded.
type Sequence struct {
	alpha  float64
	least  float64 // minimum half-width of a band
	values []float64
	limits []float64 // half-width of the band of each value
}

// band is the half-width of a band in units of the noise. With it the estimate has 95 % of the mean's
// efficiency under normal noise (Huber 1964).
const band = 1.345

// NewSequence starts a sequence with error rate alpha. least is an irrelevant difference. It is
// the minimum half-width of a band: coarsely rounded values are often equal, so the noise would
// seem to be 0 and rounding would decide.
func NewSequence(alpha, least float64) *Sequence {
	return &Sequence{alpha: alpha, least: max(least, 1e-12)}
}

// N returns the number of values.
func (s *Sequence) N() int { return len(s.values) }

// Values returns the original values in order.
func (s *Sequence) Values() []float64 { return s.values }

// Noise returns the standard deviation of one value, estimated from all values so far by the
// median absolute deviation. It is NaN with fewer than two values.
func (s *Sequence) Noise() float64 {
	n := float64(len(s.values))
	if n < 2 {
		return math.NaN()
	}
	// The median absolute deviation of few values is too small by about this factor (Croux and
	// Rousseeuw 1992).
	return MAD(s.values) * n / (n - 0.8)
}

// Add appends a value and fixes the width of its band. Only the sides of the first two values
// count, because the noise is not known yet.
func (s *Sequence) Add(v float64) {
	s.limits = append(s.limits, s.limit())
	s.values = append(s.values, v)
}

// score returns the distance of value i from center, in units of its band and limited to -1 to 1.
func (s *Sequence) score(i int, center float64) float64 {
	return max(-1, min(1, (s.values[i]-center)/s.limits[i]))
}

// shares are the shares of the wealth that are bet. Each is bet by one of several gamblers, who
// begin with the same part of the wealth: small shares win most on small effects, large ones on
// large effects. They are quantiles of the arcsine distribution, for which the wealth never stays
// far behind that of the share that turns out to be the best one.
var shares = func() (out [12]float64) {
	for i := range out {
		out[i] = math.Sin((float64(i) + 0.5) / float64(len(out)) * math.Pi / 2)
	}
	return out
}()

// wealth returns the wealth of gamblers who started with 1 and bet that values are above center, or
// below it if side is -1. It decreases if center moves to that side.
func (s *Sequence) wealth(center, side float64) (sum float64) {
	for _, share := range shares {
		wealth := 1 / float64(len(shares))
		for i := range s.values {
			wealth *= 1 + share*side*s.score(i, center)
		}
		sum += wealth
	}
	return sum
}

// Fewest returns the number of values from which Interval is bounded: as many bets as the wealth
// needs if all of them win.
func (s *Sequence) Fewest() int {
	for n := 1; ; n++ {
		sum := 0.0
		for _, share := range shares {
			sum += math.Pow(1+share, float64(n)) / float64(len(shares))
		}
		if sum >= 2/s.alpha {
			return n
		}
	}
}

// Range returns the interval from the smallest to the largest of two or more values, wider by the
// irrelevant difference on both sides, and the probability that it contains the center. Each value
// is as often above the center as below, so all n are on one side with probability 2^(1-n).
func (s *Sequence) Range() (i Interval, confidence float64) {
	return Interval{slices.Min(s.values) - s.least, slices.Max(s.values) + s.least}, 1 - math.Pow(2, float64(1-len(s.values)))
}

// winsorized returns the distances of the values from the estimate, limited to the present band, and
// the number of values that lie outside of it.
func (s *Sequence) winsorized() (distances []float64, outside int) {
	center, limit := s.Estimate(), s.limit()
	for _, v := range s.values {
		distances = append(distances, max(-limit, min(limit, v-center)))
		if math.Abs(v-center) > limit {
			outside++
		}
	}
	return distances, outside
}

// Winsorized returns the number of values outside of the present band around the estimate.
func (s *Sequence) Winsorized() int { _, outside := s.winsorized(); return outside }

// limit returns the half-width of the present band.
func (s *Sequence) limit() float64 {
	if len(s.values) < 2 {
		return s.least
	}
	return max(s.least, band*s.Noise())
}

// Estimate returns the effect around which the values balance, winsorized to the present band
// (Huber's M-estimate of location). It is NaN before the first value.
func (s *Sequence) Estimate() float64 {
	limit := s.limit()
	return s.balance(func(i int, x float64) float64 { return max(-limit, min(limit, s.values[i]-x)) })
}

// balance returns the center at which the sum of the values' scores is 0.
func (s *Sequence) balance(score func(i int, center float64) float64) float64 {
	if len(s.values) == 0 {
		return math.NaN()
	}
	return bisect(slices.Min(s.values), slices.Max(s.values), s.tolerance(), func(x float64) bool {
		sum := 0.0
		for i := range s.values {
			sum += score(i, x)
		}
		return sum > 0
	})
}

// tolerance returns a distance that is negligible compared with the noise.
func (s *Sequence) tolerance() float64 { return 1e-5 * slices.Min(s.limits) }

// Interval returns the set of effects that are compatible with the values.
func (s *Sequence) Interval() Interval {
	if len(s.values) == 0 {
		return Interval{math.Inf(-1), math.Inf(1)}
	}
	// Half of alpha for each side.
	kept := func(side float64) func(float64) bool {
		return func(center float64) bool { return s.wealth(center, side) < 2/s.alpha }
	}
	// edge returns an end of the interval: the lower one for side 1, the upper one for side -1.
	// Beyond it, the bets on that side win. The search ends where every value is outside of its
	// band, because the wealth is constant from there on.
	center := s.balance(s.score) // no bet has won there
	edge := func(side float64) float64 {
		end := s.values[0]
		for i, v := range s.values {
			end = side * min(side*end, side*v-s.limits[i])
		}
		if kept(side)(end) {
			return math.Inf(-int(side))
		}
		return bisect(center, end, s.tolerance(), kept(side))
	}
	return Interval{edge(1), edge(-1)}
}

// bisect returns the point between a and b, within a distance, at which holds changes. holds
// is true at a, or assumed to be, and false at b.
func bisect(a, b, within float64, holds func(float64) bool) float64 {
	for math.Abs(b-a) > within {
		mid := a + (b-a)/2
		if mid == a || mid == b {
			break
		}
		if holds(mid) {
			a = mid
		} else {
			b = mid
		}
	}
	return a + (b-a)/2
}

// Needed returns how many more values give an interval of half-width half, at the current
// noise. It returns limit if more are needed.
func (s *Sequence) Needed(half float64, limit int) int {
	noise := s.Noise()
	if len(s.values) > 2 {
		// The standard deviation of a winsorized value, divided by the share of those that are
		// not, is the asymptotic deviation of an M-estimate.
		distances, outside := s.winsorized()
		if inside := len(distances) - outside; inside > 0 {
			noise = SD(distances) * float64(len(distances)) / float64(inside)
		}
	}
	return max(0, min(limit, Needed(half, noise, s.alpha, limit+len(s.values))-len(s.values)))
}
