package experiment

import (
	"math"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/measure/prove"
)

// TestProgressNamesTheLimit tests the forecast: with little noise it names the approximate number
// of blocks. If the allowed blocks do not suffice, it says that the experiment may stay undecided.
func TestProgressNamesTheLimit(t *testing.T) {
	for spread, limited := range map[float64]bool{0.0001: false, 0.5: true} {
		d := prove.Defaults(prove.Metric{Name: "took", Unit: "s"})
		c := prove.Begin(d)
		for i := 0; c.Counted() < d.Least; i++ {
			value := 100 * (1 + spread*float64(i*i%7))
			if err := c.Took(prove.Values{"took": value}); err != nil {
				t.Fatal(err)
			}
		}
		next, _ := ahead(c, d)
		words := needed(c, d, d.Most)
		if strings.Contains(next, "at most 80") != limited || strings.Contains(words, "may stay undecided") != limited {
			t.Errorf("spread %v: %s; %s", spread, next, words)
		}
	}
}

// TestDetects tests what is said before an experiment about the blocks for which the time suffices.
func TestDetects(t *testing.T) {
	d := prove.Defaults(prove.Metric{Name: "took", Unit: "s"})
	for blocks, want := range map[int]string{
		0:   "not even two blocks of two runs fit, the fewest for an interval; use --budget 91s or more",
		1:   "not even two blocks of two runs fit, the fewest for an interval; use --budget 91s or more",
		3:   "about 3 blocks fit, and a verdict takes 7: ends with an interval of 75 % confidence",
		20:  "about 20 blocks fit: if runs vary by 1 %, these detect 1.5 % in four of five cases",
		999: "about 80 blocks fit: if runs vary by 1 %, these detect 0.7 % in four of five cases",
	} {
		if got := detects(d, blocks, 7, 90*time.Second+1); got != want {
			t.Errorf("%d blocks: %s, want %s", blocks, got, want)
		}
	}
}

// TestDetectsOfSeveral: with several metrics each has a part of the error probability.
func TestDetectsOfSeveral(t *testing.T) {
	d := prove.Defaults(prove.Metric{Name: "took", Unit: "s"})
	d.Also = []prove.Metric{{Name: "a"}, {Name: "b"}}
	if got := detects(d, 20, 9, time.Minute); got != "about 20 blocks fit: if runs vary by 1 %, these detect 1.7 % in four of five cases" {
		t.Error(got)
	}
}

// TestFewestSamples: no order of the blocks has a verdict earlier, and some have it then.
func TestFewestSamples(t *testing.T) {
	least := math.MaxInt
	for seed := range uint64(500) {
		d := prove.Defaults(prove.Metric{Name: "took", Unit: "s"})
		d.Seed = seed
		c, n := prove.Begin(d), 0
		for ; c.Counted() < c.Fewest(); n++ {
			if err := c.Took(prove.Values{"took": 100}); err != nil {
				t.Fatal(err)
			}
		}
		least = min(least, n)
	}
	if want := fewestSamples(prove.Begin(prove.Defaults(prove.Metric{Name: "took", Unit: "s"}))); least != want {
		t.Errorf("%d samples at least, said %d", least, want)
	}
}

// TestLastStart: what earlier processes measured is part of the budget.
func TestLastStart(t *testing.T) {
	p := &Experiment{Machine: &tune.Machine{Engine: &tune.Engine{Host: host.Live()}}, o: Options{Budget: time.Hour}, samples: []prove.Sample{{TookS: 600}, {TookS: 900}}}
	if left := time.Until(p.lastStart()).Round(time.Minute); left != 35*time.Minute {
		t.Errorf("%v left, want 35 min", left)
	}
}

func TestCeil(t *testing.T) {
	for d, want := range map[time.Duration]string{3100 * time.Millisecond: "4s", 99 * time.Second: "99s", 100 * time.Second: "2m", 90 * time.Minute: "90m"} {
		if got := ceil(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}
