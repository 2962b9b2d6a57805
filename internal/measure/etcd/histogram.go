// Package etcd judges the write speed of a running etcd from the histograms in its metrics (as
// buckets, without interpolation). On request it adds fettle's own writes.
package etcd

import (
	"fmt"
	"math"

	"fettle.dev/fettle/internal/stats"
	"fettle.dev/fettle/internal/text"
)

// Word is a verdict in one word.
type Word string

// The verdicts.
const (
	Pass       Word = "pass"
	Fail       Word = "fail"
	CannotTell Word = "cannot-tell"
)

// Judgement compares a histogram with a limit.
type Judgement struct {
	What string                `json:"what"` // fsync, commit
	When string                `json:"when"` // since-start, window
	N    int64                 `json:"observations"`
	P50  stats.HistogramBucket `json:"p50"`
	P99  stats.HistogramBucket `json:"p99"`
	// LimitS is the limit of the 99th percentile in seconds.
	LimitS float64 `json:"limit_s"`
	Word   Word    `json:"verdict"`
	Text   string  `json:"text"`
}

// judge compares the 99th percentile with a limit in seconds.
func judge(what, when string, h stats.Histogram, limit float64) Judgement {
	j := Judgement{What: what, When: when, N: int64(min(h[math.Inf(1)], 1<<53)), LimitS: limit, Word: CannotTell}
	if j.N == 0 {
		j.Text = "nothing was observed"
		return j
	}
	j.P50, j.P99 = h.Quantile(0.5), h.Quantile(0.99)
	switch p := j.P99; {
	case j.N < stats.MinForP99:
		j.Text = text.Sprintf("p99 %s from only %s; %d are needed", p, text.Count(j.N, "observation"), stats.MinForP99)
	case p.High > 0 && p.High <= limit:
		j.Word, j.Text = Pass, fmt.Sprintf("p99 %s, below %s", p, stats.Milliseconds(limit))
	case p.Low >= limit:
		j.Word, j.Text = Fail, fmt.Sprintf("p99 %s, not below %s", p, stats.Milliseconds(limit))
	default:
		j.Text = fmt.Sprintf("p99 %s, which includes the limit %s", p, stats.Milliseconds(limit))
	}
	return j
}
