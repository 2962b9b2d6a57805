package ladder

import (
	"cmp"
	"math"
	"slices"
)

// rejected is the log of the evidence from which an edge is rejected. By Ville's inequality the
// evidence against the true edge reaches 20 with a probability of at most 5 %, no matter how
// often it is looked at, and how the concurrencies were chosen.
var rejected = math.Log(20)

// prior is the weight of two imaginary runs that a prediction adds to the real ones: one that
// failed and one that passed.
const prior = 0.25

// edgeOf returns the 95 % confidence interval of the concurrency at which half of the runs
// fail. Low is 0 if the edge can be below the lowest concurrency that ran, High is 0 if it can
// be above the highest.
//
// The search looks at the interval after each run and ends when it is narrow, so an interval
// for a fixed number of runs would be wrong far more often than 5 % (27 % in a simulation).
// Instead each possible edge is a bet: below the edge a run fails with at most one half, above
// it with at least one half. Where the runs so far predict the contrary, the evidence is
// multiplied by the predicted probability of what happened, divided by one half. Its
// expectation does not exceed 1 if the edge is true (a test martingale; Waudby-Smith and
// Ramdas, Estimating means of bounded random variables by betting, 2024).
func edgeOf(runs []Run) Interval {
	runs = slices.DeleteFunc(slices.Clone(runs), func(r Run) bool { return r.Outcome == Limited })
	var levels []int
	for _, r := range runs {
		levels = append(levels, r.Hosts)
	}
	slices.Sort(levels)
	levels = slices.Compact(levels)
	fails := make([]float64, len(runs))
	for i, r := range runs {
		fails[i] = predict(runs[:i], r.Hosts)
	}
	var in Interval
	found := false
	for gap := 0; gap <= len(levels); gap++ { // the edge lies above the first gap levels
		low, high := 0, 0
		if gap > 0 {
			low = levels[gap-1]
		}
		if gap < len(levels) {
			high = levels[gap]
		}
		if evidence(runs, fails, low) >= rejected {
			continue
		}
		if !found {
			found, in.Low = true, low
		}
		in.High = high
	}
	return in
}

// evidence returns the log of the evidence against an edge above a concurrency. fails holds the
// predicted probability of failure of each run.
func evidence(runs []Run, fails []float64, low int) float64 {
	sum := 0.0
	for i, r := range runs {
		below := r.Hosts <= low
		if below == (fails[i] <= 0.5) {
			continue // the prediction does not contradict the edge
		}
		p := fails[i]
		if r.Outcome == Passed {
			p = 1 - p
		}
		sum += math.Log(p / 0.5)
	}
	return sum
}

// predict returns the probability that a run at a concurrency fails, given the runs before it. It
// is the maximum likelihood estimate among probabilities that do not decrease with the concurrency.
func predict(runs []Run, hosts int) float64 {
	levels := levelsOf(runs)
	i, ok := slices.BinarySearchFunc(levels, hosts, func(l level, hosts int) int { return cmp.Compare(l.hosts, hosts) })
	if !ok {
		levels = slices.Insert(levels, i, level{hosts: hosts})
	}
	levels[i].failed += prior
	levels[i].passed += prior
	return isotonic(levels)[i]
}

// level is a concurrency with the number of its runs by outcome.
type level struct {
	hosts          int
	failed, passed float64
}

// levelsOf returns the levels of runs in ascending order.
func levelsOf(runs []Run) (all []level) {
	for _, r := range runs {
		i, ok := slices.BinarySearchFunc(all, r.Hosts, func(l level, hosts int) int { return cmp.Compare(l.hosts, hosts) })
		if !ok {
			all = slices.Insert(all, i, level{hosts: r.Hosts})
		}
		if r.Outcome == Failed {
			all[i].failed++
		} else {
			all[i].passed++
		}
	}
	return all
}

// isotonic returns the probability of failure of each level with the highest likelihood among
// those that do not decrease: neighbors whose shares decrease are pooled.
func isotonic(levels []level) []float64 {
	type block struct {
		failed, runs float64
		levels       int
	}
	var blocks []block
	for _, l := range levels {
		b := block{l.failed, l.failed + l.passed, 1}
		for len(blocks) > 0 {
			last := blocks[len(blocks)-1]
			if last.failed*b.runs < b.failed*last.runs {
				break
			}
			b = block{b.failed + last.failed, b.runs + last.runs, b.levels + last.levels}
			blocks = blocks[:len(blocks)-1]
		}
		blocks = append(blocks, b)
	}
	p := make([]float64, 0, len(levels))
	for _, b := range blocks {
		for range b.levels {
			p = append(p, b.failed/b.runs)
		}
	}
	return p
}

// middle returns the most likely edge: the geometric mean of the highest concurrency at which
// at most half of the runs fail, and the lowest at which more do.
func middle(runs []Run) float64 {
	levels := levelsOf(runs)
	p := isotonic(levels)
	low, high := 0, 0
	for i, l := range levels {
		if p[i] <= 0.5 {
			low = l.hosts
		} else if high == 0 {
			high = l.hosts
		}
	}
	switch {
	case low == 0:
		return float64(high)
	case high == 0:
		return float64(low)
	}
	return math.Sqrt(float64(low) * float64(high))
}
