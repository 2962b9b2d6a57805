// Package etcd judges how fast a running etcd writes: by the histograms that it keeps
// of itself, as buckets and without interpolation, and by writes of its own where
// these are asked for.
package etcd

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

// check refuses counts that cannot be those of a histogram.
func (h Histogram) check() error {
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

// errRestarted is that a counter has gone back.
var errRestarted = errors.New("its counters have gone back: it was restarted meanwhile")

// since is what has come to a histogram after an earlier one.
func (h Histogram) since(earlier Histogram) (Histogram, error) {
	if len(h) != len(earlier) {
		return nil, errRestarted
	}
	out := Histogram{}
	for bound, n := range h {
		before, had := earlier[bound]
		if !had || n < before {
			return nil, errRestarted
		}
		out[bound] = n - before
	}
	return out, out.check()
}

// Bucket is between which bounds a quantile lies, in seconds: above Low, and at most
// High, which is 0 where there is no bound.
type Bucket struct {
	Low  float64 `json:"above_s"`
	High float64 `json:"at_most_s,omitempty"`
}

// quantile is the bucket in which the q-quantile lies: the observation of which a share
// q is not larger. The histogram is not empty.
func (h Histogram) quantile(q float64) Bucket {
	rank := math.Ceil(q*h[math.Inf(1)] - 1e-9)
	low := 0.0
	for _, bound := range slices.Sorted(maps.Keys(h)) {
		if h[bound] >= rank && h[bound] > 0 {
			if math.IsInf(bound, 1) {
				return Bucket{Low: low}
			}
			return Bucket{low, bound}
		}
		low = bound
	}
	return Bucket{Low: low} // not reached: the last bucket counts all
}

// P99 is the bucket in which the 99th percentile lies, and how many observations there
// are; of none the bucket is zero. The error is that of counts which are no histogram's.
func (h Histogram) P99() (b Bucket, n int64, err error) {
	if err := h.check(); err != nil {
		return b, 0, err
	}
	if n = int64(min(h.all(), 1<<53)); n > 0 {
		b = h.quantile(0.99)
	}
	return b, n, nil
}

// String is "between 4 and 8 ms".
func (b Bucket) String() string {
	switch {
	case b.High == 0:
		return "above " + milliseconds(b.Low)
	case b.Low == 0:
		return "at most " + milliseconds(b.High)
	}
	return fmt.Sprintf("between %s and %s", strconv.FormatFloat(1000*b.Low, 'g', 4, 64), milliseconds(b.High))
}

func milliseconds(s float64) string { return strconv.FormatFloat(1000*s, 'g', 4, 64) + " ms" }

// Word is a verdict in short.
type Word string

// The verdicts.
const (
	Pass       Word = "pass"
	Fail       Word = "fail"
	CannotTell Word = "cannot-tell"
)

// Judgement is what a histogram says of a limit.
type Judgement struct {
	What string `json:"what"` // fsync, commit
	When string `json:"when"` // since-start, window
	N    int64  `json:"observations"`
	P50  Bucket `json:"p50"`
	P99  Bucket `json:"p99"`
	// LimitS is below what the 99th percentile has to be.
	LimitS float64 `json:"limit_s"`
	Word   Word    `json:"verdict"`
	Text   string  `json:"text"`
}

// Few is the number of observations below which no 99th percentile is judged: it is
// decided by the ten largest then.
const Few = 1000

// judge holds the 99th percentile against a limit in seconds.
func judge(what, when string, h Histogram, limit float64) Judgement {
	j := Judgement{What: what, When: when, N: int64(min(h[math.Inf(1)], 1<<53)), LimitS: limit, Word: CannotTell}
	if j.N == 0 {
		j.Text = "it has seen none"
		return j
	}
	j.P50, j.P99 = h.quantile(0.5), h.quantile(0.99)
	switch p := j.P99; {
	case j.N < Few:
		j.Text = fmt.Sprintf("p99 %s, but of %d only: %d are asked for", p, j.N, Few)
	case p.High > 0 && p.High <= limit:
		j.Word, j.Text = Pass, fmt.Sprintf("p99 %s, below %s", p, milliseconds(limit))
	case p.Low >= limit:
		j.Word, j.Text = Fail, fmt.Sprintf("p99 %s, not below %s", p, milliseconds(limit))
	default:
		j.Text = fmt.Sprintf("p99 %s, and the limit %s lies between", p, milliseconds(limit))
	}
	return j
}

// all is the number of observations.
func (h Histogram) all() float64 { return h[math.Inf(1)] }
