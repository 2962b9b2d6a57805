package cli

import (
	"testing"
	"time"
)

// TestProgressLine checks the share done and the time left.
func TestProgressLine(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		done, all int64
		took      time.Duration
		want      string
	}{
		{25, 100, 4 * time.Second, "reading: 25 %, about 12 s left"},
		{99, 100, 4 * time.Second, "reading: 99 %, about 1 s left"},
		{1, 1000, 3 * time.Second, "reading: 0 %, about 50 min left"},
		{5000, 0, 3 * time.Second, "reading, for 3 s so far"},
		{0, 100, 3 * time.Second, "reading, for 3 s so far"},
	} {
		if got := progressLine("reading", c.done, c.all, c.took); got != c.want {
			t.Errorf("%d of %d: %q, want %q", c.done, c.all, got, c.want)
		}
	}
}
