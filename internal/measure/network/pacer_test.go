package network

import (
	"slices"
	"testing"
	"time"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/stats"
)

// TestPaced: requests at half of the rate take about as long as one after the other, and probes
// leave at their times: neither has the granularity of a timer.
func TestPaced(t *testing.T) {
	p, key, _ := peer(t)
	c, err := Dial(t.Context(), host.Live(), p.Address(), key)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var medians, late []float64
	for range 50 { // until one is good: other programs may be at work
		r, err := c.request(t.Context(), 400*time.Millisecond, 1)
		if err != nil {
			t.Fatal(err)
		}
		medians = append(medians, stats.Median(r.timesS)*r.rate)
		u, err := c.probes(t.Context(), 200*time.Millisecond, time.Millisecond, DefaultSize)
		if err != nil {
			t.Fatal(err)
		}
		v, err := u.sample()
		if err != nil {
			t.Fatal(err)
		}
		late = append(late, v[lateStarts])
		if slices.Min(medians) <= 3 && slices.Min(late) <= 0.5 {
			break
		}
	}
	if least := slices.Min(medians); least > 3 {
		t.Errorf("the median of paced requests is %.1f times the mean of unpaced ones", least)
	}
	if least := slices.Min(late); least > 0.5 {
		t.Errorf("%.2f of the probes left late", least)
	}
	t.Logf("requests %.2f, late probes %.2f", medians, late)
}
