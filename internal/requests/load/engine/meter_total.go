package engine

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Total is the sum of slices that follow each other.
type Total struct {
	From, To                    time.Duration
	Starts, Good, Wrong, Failed int64
	Answered, In, Late, Waited  int64
	Statuses                    map[int]int64
	Failures                    map[Failure]int64

	latency, service *hdrhistogram.Histogram
}

// Times is a distribution of times, in seconds.
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

func times(h *hdrhistogram.Histogram) Times {
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

// Sum sums slices up, from the first up to before the last.
func (m *Meter) Sum(from, to int) *Total {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.sum(from, to)
}

func (m *Meter) sum(from, to int) *Total {
	t := &Total{Statuses: map[int]int64{}, Failures: map[Failure]int64{}, latency: m.histogram(), service: m.histogram()}
	if from >= to {
		return t
	}
	t.From, t.To = m.slices[from].From, m.slices[to-1].To
	for _, s := range m.slices[from:to] {
		t.Starts += s.Starts
		t.Good += s.Good
		t.Wrong += s.Wrong
		t.Failed += s.Failed
		t.Answered += s.Answered
		t.In += s.In
		t.Late += s.Late
		t.Waited += s.Waited
		for status, n := range s.Statuses {
			t.Statuses[status] += n
		}
		for f, n := range s.Failures {
			t.Failures[f] += n
		}
		if s.latency != nil {
			s.latency.MergeInto(t.latency)
			s.service.MergeInto(t.service)
		}
	}
	return t
}

// Latency is from the intended start to the end of the answer.
func (t *Total) Latency() Times { return times(t.latency) }

// Service is from the sending of the request to the end of the answer: what a generator
// would tell that waits for one answer before it looks at the clock again.
func (t *Total) Service() Times { return times(t.service) }

// Percentile is one of the latency, in seconds.
func (t *Total) Percentile(p float64) float64 {
	if t.latency.TotalCount() == 0 {
		return 0
	}
	return seconds(t.latency.ValueAtPercentile(p))
}

// Encoded is the histogram of the latency in nanoseconds, as HdrHistogram's V2 encoding
// (compressed, base64), which others read and which can be merged without a loss.
func (t *Total) Encoded() (string, error) {
	text, err := t.latency.EncodeV2()
	if err != nil {
		return "", err
	}
	return string(text), nil
}

// Errors is the share of starts that were not answered as wanted.
func (t *Total) Errors() float64 {
	if t.Starts == 0 {
		return 0
	}
	return float64(t.Wrong+t.Failed) / float64(t.Starts)
}
