package stats

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"fettle.dev/fettle/internal/unit"
)

// Histogram maps upper bounds in seconds to cumulative counts of observations.
type Histogram map[float64]float64

// Check returns an error if the counts are not a cumulative histogram.
func (h Histogram) Check() error {
	last := 0.0
	for _, bound := range slices.Sorted(maps.Keys(h)) {
		n := h[bound]
		if math.IsNaN(bound) || bound <= 0 || math.IsNaN(n) || math.IsInf(n, 0) || n != math.Trunc(n) || n < last {
			return fmt.Errorf("invalid histogram: %v observations up to %v s, but %v up to a smaller bound", n, bound, last)
		}
		last = n
	}
	if _, has := h[math.Inf(1)]; !has {
		return errors.New("invalid histogram: the bucket +Inf is missing")
	}
	return nil
}

// ErrCounterReset is returned if a counter decreased.
var ErrCounterReset = errors.New("counters decreased; the process was restarted in between")

// Since returns the observations added since an earlier state of the histogram.
func (h Histogram) Since(earlier Histogram) (Histogram, error) {
	if len(h) != len(earlier) {
		return nil, ErrCounterReset
	}
	out := Histogram{}
	for bound, n := range h {
		before, had := earlier[bound]
		if !had || n < before {
			return nil, ErrCounterReset
		}
		out[bound] = n - before
	}
	return out, out.Check()
}

// HistogramBucket is the range of a quantile: above Low and at most High, in seconds. A High
// of 0 means no upper bound.
type HistogramBucket struct {
	Low  float64 `json:"above_s"`
	High float64 `json:"at_most_s,omitempty"`
}

// Quantile returns the bucket of the q-quantile: the smallest observation that at least a
// share q of the observations does not exceed. The histogram must not be empty.
func (h Histogram) Quantile(q float64) HistogramBucket {
	rank := math.Ceil(q*h[math.Inf(1)] - 1e-9)
	low := 0.0
	for _, bound := range slices.Sorted(maps.Keys(h)) {
		if h[bound] >= rank && h[bound] > 0 {
			if math.IsInf(bound, 1) {
				return HistogramBucket{Low: low}
			}
			return HistogramBucket{low, bound}
		}
		low = bound
	}
	return HistogramBucket{Low: low} // unreachable: the last bucket counts all
}

// P99 returns the bucket of the 99th percentile and the number of observations, or zeros
// without observations. It returns the error of Check.
func (h Histogram) P99() (b HistogramBucket, n int64, err error) {
	if err := h.Check(); err != nil {
		return b, 0, err
	}
	if n = int64(min(h.Total(), 1<<53)); n > 0 {
		b = h.Quantile(0.99)
	}
	return b, n, nil
}

// String returns, for example, "between 4 and 8 ms".
func (b HistogramBucket) String() string {
	switch {
	case b.High == 0:
		return "above " + Milliseconds(b.Low)
	case b.Low == 0:
		return "at most " + Milliseconds(b.High)
	}
	return "between " + unit.Digits(1000*b.Low) + " and " + Milliseconds(b.High)
}

// P99Of describes the 99th percentile of n observations: "p99 of 90,000 between 1 and 2 ms".
func (b HistogramBucket) P99Of(n int64) string {
	return "p99 of " + unit.Digits(float64(n)) + " " + b.String()
}

// Milliseconds formats a time of s seconds in milliseconds.
func Milliseconds(s float64) string { return unit.Digits(1000*s) + " ms" }

// MinForP99 is the minimum number of observations for judging a 99th percentile. With fewer,
// less than ten observations decide.
const MinForP99 = 1000

// Total returns the number of observations.
func (h Histogram) Total() float64 { return h[math.Inf(1)] }
