package engine

import (
	"strings"
	"testing"
)

// figures are measured values: percentile p is p milliseconds.
type figures struct {
	n      int64
	errors float64
}

func (f figures) Percentile(p float64) float64 { return p / 1000 }
func (f figures) MeanS() float64               { return 0.05 }
func (f figures) MaxS() float64                { return 0.2 }
func (f figures) Latencies() int64             { return f.n }
func (f figures) Errors() float64              { return f.errors }
func (f figures) Rate() float64                { return 500 }

// Observed returns figures of a server whose network is unknown.
func (f figures) Observed(name string) (float64, bool) {
	v, ok := map[string]float64{CPU: 0.5, RunQueue: 1.5, Memory: 0.9}[name]
	return v, ok
}

func TestGates(t *testing.T) {
	for _, c := range []struct {
		gate string
		of   figures
		met  bool
		text string
	}{
		{"p99 < 200ms", figures{n: 300}, true, "99 ms"},
		{"p99<99ms", figures{n: 300}, false, "99 ms"},
		{"p99 <= 99ms", figures{n: 300}, true, "99 ms"},
		{"p99 < 200ms", figures{n: 299}, false, "cannot tell from 299 answers: 300 are needed"},
		{"p99.9 < 1s", figures{n: 2999}, false, "3,000 are needed"},
		{"p50 > 10 ms", figures{n: 6}, true, "50 ms"},
		{"mean < 60ms", figures{n: 1}, true, "50 ms"},
		{"max < 0.1s", figures{n: 1}, false, "200 ms"},
		{"max < 0.1s", figures{}, false, "cannot tell from 0 answers: 1 is needed"},
		{"p50 < 1s", figures{n: 1}, false, "cannot tell from 1 answer: 6 are needed"},
		{"errors < 1%", figures{errors: 0.009}, true, "0.9 %"},
		{"errors < 1 %", figures{errors: 0.01}, false, "1 %"},
		{"errors <= 0%", figures{}, true, "0 %"},
		{"rate >= 500/s", figures{}, true, "500/s"},
		{"rate > 30001/min", figures{}, false, "500/s"},
		{"cpu < 80%", figures{}, true, "50 %"},
		{"memory <= 80 %", figures{}, false, "90 %"},
		{"runqueue < 2", figures{}, true, "1.5"},
		{"runqueue<1.5", figures{}, false, "1.5"},
		{"network < 100MB/s", figures{}, false, "cannot tell: not observed"},
	} {
		g, err := ParseThreshold(c.gate)
		if err != nil {
			t.Error(err)
			continue
		}
		if r := g.Judge(c.of); r.Met != c.met || !strings.Contains(r.Text, c.text) {
			t.Errorf("%s: %+v, want %t %q", c.gate, r, c.met, c.text)
		}
	}
	for text, want := range map[string]string{
		"": "want a threshold", "p99": "want a threshold", "p99 = 5ms": "want a threshold", "p99 < ": "want a threshold", "latency < 5ms": "want a threshold",
		"p99 < 5": "a time with unit", "p99 < -5ms": "a time with unit", "p0 < 5ms": "a percentile above 0", "p100 < 5ms": "a percentile above 0", "p9.9.9 < 5ms": "a percentile above 0",
		"errors < 1": "a share of the requests", "errors < x%": "a share of the requests", "errors < NaN%": "a share of the requests", "errors < 101%": "a share of the requests",
		"rate > 5": "want a rate", "cpu < 80": "a share of the server's", "memory < 101%": "a share of the server's", "runqueue < -1": "a number of tasks",
		"runqueue < NaN": "a number of tasks", "network < 5": "bytes a second", "network < x/s": "bytes a second",
	} {
		if _, err := ParseThreshold(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
