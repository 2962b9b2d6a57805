package logs

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestLogsLive tests that the output never exceeds the terminal's lines, for any logs, and shows
// the first rows of each grouping that fits.
func TestLogsLive(t *testing.T) {
	number := func(v float64) *float64 { return &v }
	at := time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)
	for _, groups := range []int{0, 1, 3, 50} {
		for _, timed := range []bool{false, true} {
			r := &Report{Logs: []LogRead{{Path: "/var/log/access.log"}}}
			for _, by := range []string{"method", "requestor", "resource", "status"} {
				g := Grouping{By: []string{by}, Groups: 2 * groups}
				for i := range groups {
					x := Group{Key: []string{fmt.Sprint(by, i, strings.Repeat("x", 3*i))}, Count: 5}
					if timed {
						x.MeanS, x.MaxS, x.Share, x.QuantilesS = number(0.1), number(0.2), number(0.3), map[string]float64{"p50": 0.1}
					}
					g.Top = append(g.Top, x)
				}
				r.By = append(r.By, g)
			}
			if groups > 0 {
				r.Requests, r.First, r.Last = 100, &at, &at
				r.Slowest = []SlowLine{{Time: at, TookS: 3, Line: "GET /\x1b[31m"}, {Time: at, TookS: 2, Line: "GET /"}}
				r.Busy.Minutes, r.Busy.MinuteS = []Minute{{Start: at, Requests: 7, Errors: 1, Busy: 0.5}}, 60
				r.Unread.Lines = 3
			}
			if timed && groups > 0 {
				r.All.MeanS, r.All.QuantilesS = number(0.1), map[string]float64{"p50": 0.1}
				r.WentTo = &r.By[0].Top[0]
			}
			r.Headline = headline(r)
			for height := 1; height < 80; height++ {
				text := LiveScreen(r, 90*time.Second, 80, height)
				lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
				if most := max(height, 6); len(lines) > most {
					t.Fatalf("%d groups, timed %v: %d lines for %d:\n%s", groups, timed, len(lines), height, text)
				}
				if strings.Contains(text, "\x1b") {
					t.Fatalf("%q", text)
				}
				if height == 40 && (groups > 0) != strings.Contains(text, "since 10:00:00Z: 7 requests, 1 error, 0.5 in progress on average") {
					t.Errorf("%s", text)
				}
				if height == 40 {
					for _, by := range r.By {
						if !strings.Contains(text, "\n"+by.By[0]+" ") {
							t.Errorf("no %s:\n%s", by.By[0], text)
						}
					}
				}
			}
		}
	}
}
