package etcd

import (
	"fmt"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/prometheus"
	"fettle.dev/fettle/internal/stats"
)

// percentile is the bucket of a histogram with the 99th percentile, and the number of observations.
// It does not interpolate inside the bucket: for round trips of 26 ms each, Prometheus'
// histogram_quantile returns 50.9 ms.
type percentile struct {
	N int64 `json:"observations"`
	stats.HistogramBucket
	// Unknown is the reason that the percentile is unknown.
	Unknown string `json:"unknown,omitempty"`
}

// round is the only histogram that is judged from one observation on: etcd adds one every 30 s.
const round = "peer"

// percentileOf returns a histogram's 99th percentile. If the histogram is split by remote member,
// it returns the largest.
func percentileOf(short string, all map[string]prometheus.Buckets) (worst percentile) {
	fewest := int64(stats.MinForP99)
	if short == round {
		fewest = 1
	}
	if len(all) == 0 {
		return percentile{Unknown: "metric missing"}
	}
	for _, buckets := range all {
		b, n, err := stats.Histogram(buckets).P99()
		one := percentile{N: n, HistogramBucket: b}
		switch {
		case err != nil:
			return percentile{Unknown: err.Error()}
		case n < fewest:
			one.Unknown = fmt.Sprintf("%d since its start, %d needed", n, fewest)
		}
		if worst.N == 0 && worst.Unknown == "" || one.above(worst) {
			worst = one
		}
	}
	return worst
}

// above reports whether a percentile is larger than o, or the only known one.
func (p percentile) above(o percentile) bool {
	if p.Unknown != "" || o.Unknown != "" {
		return p.Unknown == ""
	}
	return p.Low > o.Low
}

// percentileInputs returns two kinds of input for each histogram: the bucket in words, and its
// bounds.
func percentileInputs() (out []input) {
	for _, x := range []struct{ name, of string }{
		{"fsync", "fdatasync of the log"}, {"commit", "a commit of the backend"}, {round, "the round trip to the slowest other member"},
	} {
		of := func(value func(percentile) any) func(*installed) fact.Answer {
			return func(i *installed) fact.Answer { return percentileAnswer(i, x.name, value) }
		}
		upper := reported(x.name+"_at_most_s", fact.Number, "upper bound of that bucket; 0 without one", of(func(p percentile) any { return p.High }))
		lower := reported(x.name+"_above_s", fact.Number, "lower bound of that bucket", of(func(p percentile) any { return p.Low }))
		upper.Unit, lower.Unit = "s", "s"
		out = append(out, reported(x.name, fact.Text, "bucket of the 99th percentile of "+x.of+" since the start of the member, and the number of observations", of(func(p percentile) any {
			return p.P99Of(p.N)
		})), lower, upper)
	}
	return out
}

// percentileAnswer answers an input with value applied to the histogram's percentile.
func percentileAnswer(i *installed, histogram string, value func(percentile) any) fact.Answer {
	const at = "/metrics of etcd"
	p, ok := i.Report.Percentiles[histogram]
	switch {
	case histogram == round && memberCount(i).Value == 1.0:
		return fact.Answer{At: at} // there is no other member
	case !ok:
		return fact.Answer{Unknown: "another version of fettle recorded this copy, without the buckets of histograms", At: at}
	case p.Unknown != "":
		return fact.Answer{Unknown: p.Unknown, At: at}
	}
	return fact.Answer{Value: value(p), At: at}
}
