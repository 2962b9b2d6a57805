package scenario

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"fettle.dev/fettle/internal/requests/load/ladder"
)

// TestStopWhenFailed tests that a run ends when a threshold is missed for certain, and that
// requests in flight are answered before.
func TestStopWhenFailed(t *testing.T) {
	t.Parallel()
	var came, answered atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		came.Add(1)
		time.Sleep(100 * time.Millisecond)
		answered.Add(1)
	}))
	t.Cleanup(s.Close)
	p := planOf(t, s.URL, `load: {hosts: 5, repeat: 600}
steps: [{name: ask, http: {url: "${web}/"}}]
thresholds: [host max < 50ms]
`)
	p.StopWhenFailed = true
	x, err := Run(t.Context(), p, nil)
	if err != nil {
		t.Fatal(err)
	}
	if x.Duration > 30 || !x.Stopped || x.Cut != nil || x.Whole.Errors > 0 || came.Load() != answered.Load() || x.Steps[0].Runs != came.Load() {
		t.Errorf("%.1f s, stopped %t, cut %v, %d requests of which %d were answered: %+v", x.Duration, x.Stopped, x.Cut, came.Load(), answered.Load(), x.Whole)
	}
	if o, why := x.outcome(); o != ladder.Failed && o != ladder.Limited || !strings.Contains(why, "host max < 50ms not met") || !strings.Contains(why, "stopped after") {
		t.Errorf("%s: %s", o, why)
	}
}

// TestLost tests which runs count as failed before their end.
func TestLost(t *testing.T) {
	for _, c := range []struct {
		gate         string
		good, failed int // of 100 passes; good ones take 2 s
		lost         bool
	}{
		{"host max < 3s", 50, 0, false},
		{"host max < 2s", 1, 0, true},
		{"host max < 3s", 1, 1, true}, // no threshold on errors
		{"host errors < 2%", 9, 1, false},
		{"host errors < 2%", 0, 2, true},
		{"host p90 < 1s", 9, 0, false},
		{"host p90 < 1s", 12, 0, true},
		{"host mean < 1s", 49, 0, false},
		{"host mean < 1s", 51, 0, true},
		{"host rate > 1000/s", 10, 0, false}, // may rise
		{"host p50 > 3s", 90, 0, false},      // not judged
		{"ask max < 1s", 1, 0, true},
		{"ask p90 < 1s", 90, 0, false}, // the number of its runs is not known
		{"ask errors < 1%", 0, 0, false},
	} {
		p := planOf(t, "http://127.0.0.1:1", "load: {hosts: 100}\nsteps: [{name: ask, http: {url: \"${web}/\"}}]\nthresholds: ['"+c.gate+"']\n")
		r := newRun(t.Context(), p)
		for i := range c.good + c.failed {
			var o outcome
			if i >= c.good {
				o.cause = wrongStatus
			}
			r.hosts.add(0, 2*time.Second, &o)
			r.tallies[0].add(0, 2*time.Second, &o)
		}
		if got := r.lost(p.passes()); got != c.lost {
			t.Errorf("%s with %d good and %d failed hosts: %t", c.gate, c.good, c.failed, got)
		}
	}
}
