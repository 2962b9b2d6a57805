package etcd

import (
	"fmt"
	"strings"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/prometheus"
	"fettle.dev/fettle/internal/stats"
)

// percentile is between which bounds of a histogram's buckets the 99th percentile lies, and
// of how many observations it is. What lies within a bucket nobody knows: a line drawn
// through it, as histogram_quantile of Prometheus does, makes 50.9 ms of round trips that
// all take 26.
type percentile struct {
	N int64 `json:"observations"`
	stats.HistogramBucket
	// Unknown is why it cannot be told.
	Unknown string `json:"unknown,omitempty"`
}

// round are the histograms that are judged however few observations there are: one of a
// round trip is made every half minute.
const round = "peer"

// percentileOf is the percentile of a histogram: the largest where it has several, one for
// each of the other members.
func percentileOf(short string, all map[string]prometheus.Buckets) (worst percentile) {
	fewest := int64(stats.MinForP99)
	if short == round {
		fewest = 1
	}
	if len(all) == 0 {
		return percentile{Unknown: "it is not among its metrics"}
	}
	for _, buckets := range all {
		b, n, err := stats.Histogram(buckets).P99()
		one := percentile{N: n, HistogramBucket: b}
		switch {
		case err != nil:
			return percentile{Unknown: err.Error()}
		case n < fewest:
			one.Unknown = fmt.Sprintf("%d since it was started, and %d are asked for", n, fewest)
		}
		if worst.N == 0 && worst.Unknown == "" || one.above(worst) {
			worst = one
		}
	}
	return worst
}

// above says that a percentile is larger than another, or known where that is not.
func (p percentile) above(o percentile) bool {
	if p.Unknown != "" || o.Unknown != "" {
		return p.Unknown == ""
	}
	return p.Low > o.Low
}

// percentiles are the inputs of a histogram: the bucket in words, and its bounds.
var percentiles = []string{"fsync", "commit", round}

// percentileInputs are those of all histograms.
func percentileInputs() (out []fact.Input) {
	for _, x := range []struct{ name, of string }{
		{"fsync", "fdatasync of the log"}, {"commit", "a commit of the backend"}, {round, "the round trip to the slowest other member"},
	} {
		out = append(out,
			fact.Input{Name: "etcd." + x.name, Type: fact.Text, Doc: "bucket of the 99th percentile of " + x.of + " since it was started, and of how many"},
			fact.Input{Name: "etcd." + x.name + "_above_s", Type: fact.Number, Unit: "s", Doc: "that bucket's lower bound"},
			fact.Input{Name: "etcd." + x.name + "_at_most_s", Type: fact.Number, Unit: "s", Doc: "its upper bound; 0: it has none"})
	}
	return out
}

// percentileAnswer is what is known of an input of a histogram; false for another input.
func (i *installed) percentileAnswer(input, at string) (fact.Answer, bool) {
	for _, short := range percentiles {
		rest, ok := strings.CutPrefix(input, short)
		if !ok || rest != "" && rest != "_above_s" && rest != "_at_most_s" {
			continue
		}
		p, ok := i.asked.Percentiles[short]
		switch {
		case short == round && i.setUp("members").Value == 1.0:
			return fact.Answer{At: at}, true // there is no other
		case !ok:
			return fact.Answer{Unknown: "it was recorded without its histograms' buckets, by another fettle", At: at}, true
		case p.Unknown != "":
			return fact.Answer{Unknown: p.Unknown, At: at}, true
		}
		return fact.Answer{Value: map[string]any{"": fmt.Sprintf("p99 of %d %s", p.N, p.HistogramBucket), "_above_s": p.Low, "_at_most_s": p.High}[rest], At: at}, true
	}
	return fact.Answer{}, false
}
