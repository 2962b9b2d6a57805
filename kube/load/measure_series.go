package load

import (
	"math"
	"time"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/stats"
)

// single is one time, in seconds, and when it was known, in seconds since the run began.
type single struct{ at, took float32 }

func (m *Meter) single(at time.Time, took time.Duration) single {
	return single{float32(at.Sub(m.began).Seconds()), float32(took.Seconds())}
}

// A run is cut into parts that follow each other, of as many times each; a part has
// leastInPart at least, and leastForP99 for its 99th percentile to be one.
const (
	parts       = 20
	leastInPart = 25
	leastForP99 = 100
)

// Series are what was measured, each with a sample of every part of the run: a median and a
// 99th percentile of the times, and how many objects were made in a second. Those of which
// there are too few for two parts have one sample.
func (m *Meter) Series() []evidence.Series {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := []evidence.Series{}
	add := func(s evidence.Series) {
		if len(s.Samples) > 0 {
			all = append(all, s)
		}
	}
	for _, x := range []struct {
		name  string
		times []single
	}{{"create", m.creates}, {"scheduled", m.schedules}, {"ready", m.readies}} {
		median := evidence.Series{Name: x.name + " p50", Unit: "s"}
		tail := evidence.Series{Name: x.name + " p99", Unit: "s"}
		for _, part := range cut(x.times) {
			median.Samples = append(median.Samples, quantile(part, 0.5))
			if len(part) >= leastForP99 {
				tail.Samples = append(tail.Samples, quantile(part, 0.99))
			}
		}
		add(median)
		add(tail)
	}
	made := evidence.Series{Name: "made", Unit: "1/s", More: true}
	last := float32(0)
	for _, part := range cut(m.creates) {
		end := last
		for _, s := range part {
			end = max(end, s.at)
		}
		if end > last {
			made.Samples = append(made.Samples, float64(len(part))/float64(end-last))
		}
		last = end
	}
	add(made)
	return all
}

// cut cuts into parts, as many as there is enough for.
func cut(times []single) [][]single {
	if len(times) == 0 {
		return nil
	}
	n := max(1, min(parts, len(times)/leastInPart))
	var all [][]single
	for i := range n {
		all = append(all, times[len(times)*i/n:len(times)*(i+1)/n])
	}
	return all
}

func quantile(part []single, q float64) float64 {
	values := make([]float64, len(part))
	for i, s := range part {
		values[i] = math.Round(float64(s.took)*1e7) / 1e7
	}
	return stats.Quantile(values, q)
}
