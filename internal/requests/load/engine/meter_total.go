package engine

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"fettle.dev/fettle/internal/evidence"
)

// Total is the sum of consecutive slices.
type Total struct {
	From, To time.Duration
	Tally

	latency, service *hdrhistogram.Histogram
}

// Times summarizes a distribution of times, in seconds.
type Times struct {
	N      int64   `json:"n"`
	MeanS  float64 `json:"mean_s"`
	SDS    float64 `json:"sd_s"`
	MinS   float64 `json:"min_s"`
	P50S   float64 `json:"p50_s"`
	P90S   float64 `json:"p90_s"`
	P95S   float64 `json:"p95_s"`
	P99S   float64 `json:"p99_s"`
	P99_9S float64 `json:"p99_9_s"`
	MaxS   float64 `json:"max_s"`
}

// Line returns the percentiles as a line of a chart, in milliseconds.
func (t Times) Line(name string) evidence.Line {
	line := evidence.Line{Name: name}
	for _, p := range []struct{ at, s float64 }{{50, t.P50S}, {90, t.P90S}, {95, t.P95S}, {99, t.P99S}, {99.9, t.P99_9S}} {
		// Rule of three: with fewer than 3 values above it, a percentile is only the maximum.
		if p.s > 0 && float64(t.N)*(100-p.at)/100 >= 3 {
			line.Points = append(line.Points, [2]float64{p.at, 1000 * p.s})
		}
	}
	return line
}

// histogram is a histogram, packed or not.
type histogram interface {
	TotalCount() int64
	Mean() float64
	StdDev() float64
	Min() int64
	Max() int64
	ValueAtPercentilesSlice([]float64) []int64
}

func times(h histogram) Times {
	t := Times{N: h.TotalCount()}
	if t.N == 0 {
		return t
	}
	t.MeanS, t.SDS, t.MinS, t.MaxS = h.Mean()/1e9, h.StdDev()/1e9, seconds(h.Min()), seconds(h.Max())
	at := h.ValueAtPercentilesSlice([]float64{50, 90, 95, 99, 99.9})
	for i, to := range []*float64{&t.P50S, &t.P90S, &t.P95S, &t.P99S, &t.P99_9S} {
		*to = seconds(at[i])
	}
	return t
}

// Sum adds up the slices with from <= index < to.
func (m *Meter) Sum(from, to int) *Total {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.sum(from, to)
}

func (m *Meter) sum(from, to int) *Total {
	t := &Total{Tally: newTally(), latency: m.histogram(), service: m.histogram()}
	if from >= to {
		return t
	}
	t.From, t.To = m.slices[from].From, m.slices[to-1].To
	for _, s := range m.slices[from:to] {
		t.add(&s.Tally)
		if s.latency != nil {
			s.latency.MergeInto(t.latency)
			s.service.MergeInto(t.service)
		}
	}
	return t
}

// Latency returns the times from when a request was due to the end of its answer.
func (t *Total) Latency() Times { return times(t.latency) }

// Service returns the times from sending the request to the end of its answer. Closed-model
// load generators report this figure.
func (t *Total) Service() Times { return times(t.service) }

// Percentile returns a percentile of the latency in seconds, or 0 without latencies.
func (t *Total) Percentile(p float64) float64 {
	if t.latency.TotalCount() == 0 {
		return 0
	}
	return seconds(t.latency.ValueAtPercentile(p))
}

// Encoded returns the histogram of the latency in nanoseconds, in HdrHistogram's V2 encoding
// (compressed, base64), which other tools can read and merge without loss.
func (t *Total) Encoded() (string, error) {
	text, err := t.latency.EncodeV2()
	return string(text), err
}

// Errors returns the share of starts that did not succeed, 0 to 1.
func (t *Total) Errors() float64 {
	if t.Starts == 0 {
		return 0
	}
	return float64(t.Wrong+t.Failed) / float64(t.Starts)
}
