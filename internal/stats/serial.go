package stats

import "math"

// Slope returns the least-squares slope of equidistant values, per value. For fewer than two
// values it is 0.
func Slope(x []float64) float64 {
	if len(x) < 2 {
		return 0
	}
	at, m := float64(len(x)-1)/2, Mean(x)
	top, bottom := 0.0, 0.0
	for i, v := range x {
		d := float64(i) - at
		top += d * (v - m)
		bottom += d * d
	}
	return top / bottom
}

// Lag1 returns the autocorrelation of neighboring values, -1 to 1. It is NaN for fewer than
// three values, or if all are equal.
func Lag1(x []float64) float64 {
	if len(x) < 3 {
		return math.NaN()
	}
	m := Mean(x)
	top, bottom := 0.0, 0.0
	for i, v := range x {
		if i > 0 {
			top += (v - m) * (x[i-1] - m)
		}
		bottom += (v - m) * (v - m)
	}
	if bottom == 0 {
		return math.NaN()
	}
	return top / bottom
}

// Summary summarizes the measurements of one run.
type Summary struct {
	N    int     `json:"n"`
	Mean float64 `json:"mean"`
	SD   float64 `json:"sd"`
}

// Summarize computes the summary of measurements.
func Summarize(x []float64) Summary { return Summary{len(x), Mean(x), SD(x)} }

// BetweenRuns returns the share (0 to 1) of the variance of single measurements that is
// between runs. At 0 the requests of one run are as informative as requests of many runs. Near
// 1, further requests of the same run add no information. It is NaN if there are too few runs
// or measurements. It is the intraclass correlation of the one-way random-effects model by
// analysis of variance, with Searle's average size for unequal runs.
func BetweenRuns(runs []Summary) float64 {
	n, k, squares, sum := 0.0, 0.0, 0.0, 0.0
	for _, run := range runs {
		if run.N == 0 {
			continue
		}
		size := float64(run.N)
		k++
		n += size
		squares += size * size
		sum += size * run.Mean
	}
	if k < 2 || n <= k {
		return math.NaN()
	}
	between, within := 0.0, 0.0
	for _, run := range runs {
		if run.N == 0 {
			continue
		}
		size := float64(run.N)
		between += size * (run.Mean - sum/n) * (run.Mean - sum/n)
		within += (size - 1) * run.SD * run.SD
	}
	between /= k - 1
	within /= n - k
	size := (n - squares/n) / (k - 1)
	if between+(size-1)*within == 0 {
		return math.NaN()
	}
	return max(0, (between-within)/(between+(size-1)*within))
}
