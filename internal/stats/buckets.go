package stats

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
)

// Histogram is how many observations took at most so long, by the bound in seconds.
type Histogram map[float64]float64

// Check refuses counts that cannot be those of a histogram.
func (h Histogram) Check() error {
	last := 0.0
	for _, bound := range slices.Sorted(maps.Keys(h)) {
		n := h[bound]
		if math.IsNaN(bound) || bound <= 0 || math.IsNaN(n) || math.IsInf(n, 0) || n != math.Trunc(n) || n < last {
			return fmt.Errorf("its buckets contradict each other: %v observations of at most %v s, after %v of less", n, bound, last)
		}
		last = n
	}
	if _, has := h[math.Inf(1)]; !has {
		return errors.New("it has no bucket +Inf, which counts all")
	}
	return nil
}

// ErrCounterReset is that a counter has gone back.
var ErrCounterReset = errors.New("its counters have gone back: it was restarted meanwhile")

// Since is what has come to a histogram after an earlier one.
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

// HistogramBucket is between which bounds a quantile lies, in seconds: above Low, and at most
// High, which is 0 where there is no bound.
type HistogramBucket struct {
	Low  float64 `json:"above_s"`
	High float64 `json:"at_most_s,omitempty"`
}

// Quantile is the bucket in which the q-quantile lies: the observation of which a share
// q is not larger. The histogram is not empty.
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
	return HistogramBucket{Low: low} // not reached: the last bucket counts all
}

// P99 is the bucket in which the 99th percentile lies, and how many observations there
// are; of none the bucket is zero. The error is that of counts which are no histogram's.
func (h Histogram) P99() (b HistogramBucket, n int64, err error) {
	if err := h.Check(); err != nil {
		return b, 0, err
	}
	if n = int64(min(h.Total(), 1<<53)); n > 0 {
		b = h.Quantile(0.99)
	}
	return b, n, nil
}

// String is "between 4 and 8 ms".
func (b HistogramBucket) String() string {
	switch {
	case b.High == 0:
		return "above " + Milliseconds(b.Low)
	case b.Low == 0:
		return "at most " + Milliseconds(b.High)
	}
	return fmt.Sprintf("between %s and %s", strconv.FormatFloat(1000*b.Low, 'g', 4, 64), Milliseconds(b.High))
}

// Milliseconds writes a time of s seconds in milliseconds.
func Milliseconds(s float64) string { return strconv.FormatFloat(1000*s, 'g', 4, 64) + " ms" }

// MinForP99 is the number of observations below which no 99th percentile is judged: it is
// decided by the ten largest then.
const MinForP99 = 1000

// Total is the number of observations.
func (h Histogram) Total() float64 { return h[math.Inf(1)] }
