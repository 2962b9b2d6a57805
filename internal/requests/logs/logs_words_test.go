package logs

import (
	"strings"
	"testing"
	"time"
)

// TestLogsHeadline tests that a mean covers only requests with a duration, and that simultaneous
// requests have no rate.
func TestLogsHeadline(t *testing.T) {
	share, mean, at := 0.225, 0.6, time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	g := Group{Key: []string{"GET", "/"}, Count: 45, Untimed: 27, TotalS: 10.8, Share: &share, MeanS: &mean}
	r := &Report{Requests: 500, First: &at, Last: &at, WentTo: &g, All: Group{Count: 500, Untimed: 300, TotalS: 21.6, MeanS: &mean}}
	text := strings.Join(headline(r).Lines, "\n")
	for _, want := range []string{"45 requests, the 18 with a duration of 600 ms each", "; 300 without a duration", "22.5 % of the time"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q: want %q", text, want)
		}
	}
	if got := rate(&g); got != "-" {
		t.Errorf("the rate of requests at one time is %s", got)
	}
}

// TestLogsNoUnit tests that the command that reads the durations is quoted for sh, and stands at
// the end of the line.
func TestLogsNoUnit(t *testing.T) {
	said := NoUnit([]LogRead{{Path: "it's one.log", UnitUnknown: "took"}, {Path: "b.log"}})
	if len(said) != 1 || !strings.HasSuffix(said[0], `fettle logs 'it'\''s one.log' --duration took --unit s`) {
		t.Errorf("%q", said)
	}
}
