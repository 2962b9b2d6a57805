package logs

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/logformat"
	"fettle.dev/fettle/internal/requests/source"
	"fettle.dev/fettle/internal/text"
)

// TestCompareHoldsItsError tests unchanged logs whose requests are slow together for minutes: the
// interval excludes 1 in at most 7 % of all cases (nominally 5 %, for a normal distribution). With
// requests as samples it does in more than half.
func TestCompareHoldsItsError(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	const times = 600
	wrong, wrongOfRequests := 0, 0
	for range times {
		var sides [2]*sums
		var requests [2][2]float64 // mean, variance of the mean
		for k := range sides {
			s := &sums{}
			n, sum, squares := 0.0, 0.0, 0.0
			for i := range s.count {
				load := 0.0
				for range 10 { // minutes of a slice
					load = 0.8*load + r.NormFloat64()*0.4
					for range 5 + r.IntN(20) {
						d := math.Exp(load + r.NormFloat64()*0.5)
						s.count[i]++
						s.total[i] += d
						n, sum, squares = n+1, sum+d, squares+d*d
					}
				}
			}
			sides[k] = s
			requests[k] = [2]float64{sum / n, (squares/n - sum*sum/n/n) / n}
		}
		one := 1.0
		g := &Group{MeanS: &one}
		c := change(nil, g, g, sides[0], sides[1])
		if c.Verdict == "slower" || c.Verdict == "faster" {
			wrong++
		}
		if math.Abs(requests[0][0]-requests[1][0]) > 1.96*math.Sqrt(requests[0][1]+requests[1][1]) {
			wrongOfRequests++
		}
	}
	t.Logf("%d of %d wrong; as samples of requests %d", wrong, times, wrongOfRequests)
	if wrong > times*7/100 || wrongOfRequests < times/2 {
		t.Errorf("%d of %d wrong; as samples of requests %d", wrong, times, wrongOfRequests)
	}
}

// TestCompare tests logs in which catalogs take a fifth longer, files are requested half as often,
// and reports are new.
func TestCompare(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, seed uint64, catalog float64, files int) string {
		r := rand.New(rand.NewPCG(seed, 9))
		var b bytes.Buffer
		at := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
		for i := range 24_000 {
			at = at.Add(250 * time.Millisecond)
			line := func(url string, took float64) {
				fmt.Fprintf(&b, "::1 - - [%s] \"GET %s HTTP/1.1\" 200 1 %d \"-\" \"-\"\n", at.Format("02/Jan/2006:15:04:05 -0700"), url, int(took*math.Exp(r.NormFloat64()*0.3)))
			}
			if i%10 == 0 {
				line("/puppet/v3/catalog/a?environment=production", 1e6*catalog)
			}
			if i%10 < files {
				line("/puppet/v3/file_metadata/modules/a/b?environment=production", 5e3)
			}
			if name == "after" && i%100 == 0 {
				line("/puppet/v3/report/a?environment=production", 1e5)
			}
		}
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	before, after := write("before", 1, 1, 8), write("after", 2, 1.2, 4)
	open := func(set *source.Set) (all []*logformat.Format, err error) {
		for i := range set.Logs {
			head, err := set.Head(i, 1<<16)
			if err != nil {
				return nil, err
			}
			f, err := logformat.Detect(head, nil)
			if err != nil {
				return nil, err
			}
			all = append(all, f)
		}
		return all, nil
	}
	c, err := Compare(context.Background(), host.Live(), []string{before}, []string{after}, open, Options{By: [][]string{{"indirector"}}, Groups: 1e6, Workers: 2}, "total", 0)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]Change{}
	for _, g := range c.Groups {
		got[strings.Join(g.Key, " ")] = g
	}
	if g := got["catalog"]; g.Verdict != "slower" || *g.Low > 1.2 || *g.High < 1.2 || *g.Low < 1.15 {
		t.Errorf("catalog: %s", g.Text)
	}
	if g := got["file_metadata"]; g.Verdict != "undecided" || *g.Low > 1 || *g.High < 1 {
		t.Errorf("file_metadata: %s", g.Text)
	}
	if g := got["report"]; g.Verdict != "only after" {
		t.Errorf("report: %s", g.Text)
	}
	// Means of 1.046 s and 5.23 ms: 1:8 before, 10:40:1 after.
	change := *c.All.After.MeanS - *c.All.Before.MeanS
	if math.Abs(*c.MixS+*c.LatencyS-change) > 1e-9 || *c.MixS < 0.08 || *c.MixS > 0.1 || *c.LatencyS < 0.035 || *c.LatencyS > 0.05 {
		t.Errorf("of %g s the mix is %g and the durations %g", change, *c.MixS, *c.LatencyS)
	}
	if c.Groups[0].Key[0] != "catalog" {
		t.Errorf("ordered by total: %s first", c.Groups[0].Key)
	}
	if c.Before.Missing != nil || c.After.Missing != nil {
		t.Errorf("%+v, %+v", c.Before.Missing, c.After.Missing)
	}
	// With fewer groups than there are, it says what may be missing, and does not take that for new.
	c, err = Compare(context.Background(), host.Live(), []string{before}, []string{after}, open, Options{By: [][]string{{"indirector"}}, Groups: 2, Workers: 1}, "total", 0)
	if err != nil || c.Before.Missing != nil || c.After.Missing == nil {
		t.Fatalf("%v: %+v, %+v", err, c.Before.Missing, c.After.Missing)
	}
	says := fmt.Sprintf("after: more groups than --groups; each group may lack up to %s", text.CountPlural(c.After.Missing.Requests, "request", "requests"))
	if notes := strings.Join(comparedNotes(c), "\n"); !strings.Contains(notes, says) {
		t.Errorf("%q is missing: %s", says, notes)
	}
	for _, g := range c.Groups {
		if g.After == nil && (g.Verdict != "cannot tell" || !strings.Contains(g.Text, "after, it may have had up to ")) || g.Before == nil && g.Verdict != "only after" {
			t.Errorf("%s: %s", g.Key, g.Text)
		}
	}
}
