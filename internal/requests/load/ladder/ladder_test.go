package ladder

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// server returns a run function: fails returns the probability of a failure at a concurrency.
func server(r *rand.Rand, fails func(hosts int) float64) func(context.Context, int) (Outcome, string, error) {
	return func(_ context.Context, hosts int) (Outcome, string, error) {
		if r.Float64() < fails(hosts) {
			return Failed, "errors", nil
		}
		return Passed, "", nil
	}
}

// logistic is a server whose failures rise around an edge, over a relative width.
func logistic(edge, spread float64) func(int) float64 {
	return func(hosts int) float64 {
		return 1 / (1 + math.Exp(-math.Log(float64(hosts)/edge)/spread))
	}
}

func sharp(edge int) func(int) float64 {
	return func(hosts int) float64 {
		if hosts > edge {
			return 1
		}
		return 0
	}
}

// TestCoverage simulates searches on servers with a known edge. At least 95 of 100 intervals
// must contain it, however a search ended.
func TestCoverage(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	wide := Range{Lowest: 100, Highest: 5000}
	for _, c := range []struct {
		name  string
		edge  float64
		fails func(int) float64
		in    Range
		found int // of 1,000 searches must find a narrow interval
		runs  int // the median may be at most this
	}{
		{"sharp", 700.5, sharp(700), wide, 1000, 20},
		{"sharp, small", 12.5, sharp(12), Range{Lowest: 1, Highest: 100}, 1000, 20},
		{"sharp, far", 70000.5, sharp(70000), Range{Lowest: 1, Highest: 100000}, 1000, 34},
		{"gradual over 5 %", 700, logistic(700, 0.025), wide, 990, 32},
		{"gradual over 20 %", 700, logistic(700, 0.1), wide, 980, 36},
		{"3 of 100 runs fail by chance", 700.5, func(n int) float64 { return max(0.03, sharp(700)(n)) }, wide, 990, 20},
	} {
		searches := 1000
		if testing.Short() {
			searches = 200
		}
		covered, found := 0, 0
		var runs []int
		for range searches {
			x, err := Find(t.Context(), c.in, server(r, c.fails))
			if err != nil {
				t.Fatal(err)
			}
			runs = append(runs, len(x.Runs))
			if x.Edge == nil {
				t.Fatalf("%s: %s", c.name, x.Answer)
			}
			if float64(x.Edge.Low) <= c.edge && (x.Edge.High == 0 || c.edge <= float64(x.Edge.High)) {
				covered++
			}
			if x.Answer == Found {
				found++
			}
		}
		slices.Sort(runs)
		t.Logf("%s: found %d, covered %d; runs median %d, p97 %d", c.name, found, covered, runs[searches/2], runs[searches*97/100])
		if covered < searches*95/100 {
			t.Errorf("%s: %d of %d intervals contain the edge", c.name, covered, searches)
		}
		if found*1000 < c.found*searches || runs[searches/2] > c.runs {
			t.Errorf("%s: %d found, want %d; a median of %d runs, want at most %d", c.name, found, c.found, runs[searches/2], c.runs)
		}
	}
}

func TestAnswers(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	broken := false
	for name, c := range map[string]struct {
		run           func(context.Context, int) (Outcome, string, error)
		want          Answer
		highest, most int
	}{
		"never fails":  {server(r, sharp(1<<30)), NotLimited, 1000, 8},
		"always fails": {server(r, sharp(0)), FailsAtLowest, 0, 4},
		"the generator ends first": {func(_ context.Context, hosts int) (Outcome, string, error) {
			if hosts > 500 {
				return Limited, "", nil
			}
			return Passed, "", nil
		}, GeneratorFirst, 400, 5},
		"a server that stays broken": {func(_ context.Context, hosts int) (Outcome, string, error) {
			if broken = broken || hosts > 700; broken {
				return Failed, "", nil
			}
			return Passed, "", nil
		}, NotRecovered, 0, 60},
	} {
		t.Run(name, func(t *testing.T) {
			x, err := Find(t.Context(), Range{Lowest: 100, Highest: 1000}, c.run)
			if err != nil {
				t.Fatal(err)
			}
			if x.Answer != c.want || len(x.Runs) > c.most || c.want != NotRecovered && x.Highest != c.highest {
				t.Errorf("got %s, highest %d, %d runs: %v", x.Answer, x.Highest, len(x.Runs), x.Runs)
			}
		})
	}
}

// TestSharp is a server with a fixed limit.
func TestSharp(t *testing.T) {
	x, err := Find(t.Context(), Range{Lowest: 100, Highest: 1000}, server(rand.New(rand.NewPCG(1, 1)), sharp(700)))
	if err != nil {
		t.Fatal(err)
	}
	if x.Answer != Found || x.Highest > 700 || x.Highest < 650 || x.FirstFailed < 701 || x.FirstFailed > 750 || x.Edge.Low > 700 || x.Edge.High < 701 {
		t.Errorf("got %+v, edge %v", x, x.Edge)
	}
}

// TestMaxRuns ends each phase of a search after a number of runs.
func TestMaxRuns(t *testing.T) {
	for most := 1; most < 18; most++ {
		x, err := Find(t.Context(), Range{Lowest: 100, Highest: 5000, MaxRuns: most}, server(rand.New(rand.NewPCG(1, 1)), sharp(700)))
		if err != nil || x.Answer != TooFewRuns || len(x.Runs) != most {
			t.Errorf("%d runs: %s after %d: %v", most, x.Answer, len(x.Runs), err)
		}
	}
}

func TestErrors(t *testing.T) {
	failed := errors.New("unreachable")
	x, err := Find(t.Context(), Range{Lowest: 1, Highest: 8}, func(_ context.Context, hosts int) (Outcome, string, error) {
		if hosts == 4 {
			return "", "", failed
		}
		return Passed, "", nil
	})
	if !errors.Is(err, failed) || len(x.Runs) != 2 {
		t.Errorf("got %v after %d runs", err, len(x.Runs))
	}
	for _, in := range []Range{{0, 5, 0}, {5, 4, 0}} {
		if _, err := Find(t.Context(), in, nil); err == nil {
			t.Errorf("%v is accepted", in)
		}
	}
}

// TestEdge checks intervals that can be computed by hand: the first run at a concurrency is no
// evidence, and the next five are 1.67, 1.8, 1.86, 1.89 and 1.91, together 20.1.
func TestEdge(t *testing.T) {
	many := func(hosts, passed, failed int) (all []Run) {
		for range passed {
			all = append(all, Run{Hosts: hosts, Outcome: Passed})
		}
		for range failed {
			all = append(all, Run{Hosts: hosts, Outcome: Failed})
		}
		return all
	}
	for name, c := range map[string]struct {
		runs []Run
		want Interval
	}{
		"nothing":                   {nil, Interval{}},
		"five runs decide nothing":  {slices.Concat(many(100, 5, 0), many(200, 0, 5)), Interval{}},
		"six decide":                {slices.Concat(many(100, 6, 0), many(200, 0, 6)), Interval{100, 200}},
		"levels above count too":    {slices.Concat(many(50, 3, 0), many(100, 6, 0), many(200, 0, 3)), Interval{100, 0}},
		"no upper bound":            {many(100, 6, 0), Interval{100, 0}},
		"limited runs are left out": {slices.Concat(many(100, 6, 0), []Run{{Hosts: 150, Outcome: Limited}}, many(200, 0, 6)), Interval{100, 200}},
	} {
		if got := edgeOf(c.runs); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
