package engine

import (
	"sync"
	"testing"
	"time"
)

// TestDistribution tests that percentiles are within the documented error, with concurrent writers
// too.
func TestDistribution(t *testing.T) {
	d := NewDistribution(time.Hour)
	if d.Percentile(50) != 0 || d.Times().N != 0 {
		t.Error("an empty one has times")
	}
	var wait sync.WaitGroup
	for first := range 4 {
		wait.Go(func() {
			for i := first; i < 1000; i += 4 {
				d.Add(time.Duration(i+1) * time.Millisecond)
			}
		})
	}
	wait.Wait()
	d.Add(-time.Second)
	d.Add(2 * time.Hour)
	x := d.Times()
	if x.N != 1002 || x.P50S < 0.499 || x.P50S > 0.502 || x.P99S < 0.99 || x.P99S > 0.993 || x.MaxS < 3590 || x.MaxS > 3610 || d.Percentile(50) != x.P50S {
		t.Errorf("%+v", x)
	}
	if text, err := d.Encoded(); err != nil || len(text) < 20 {
		t.Errorf("%q %v", text, err)
	}
}
