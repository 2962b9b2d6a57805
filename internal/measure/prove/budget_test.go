package prove

import (
	"context"
	"errors"
	"math"
	"regexp"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/stats"
	"fettle.dev/fettle/internal/testkit/noise"
)

// known checks that a verdict has what is known after n blocks: an interval, from two blocks on.
func known(t *testing.T, name string, d Design, n int, e *Evidence) {
	t.Helper()
	confidence := 1 - math.Pow(2, float64(1-n))
	text := map[bool]string{true: `^cannot tell yet \[\S+, \S+\] with \S+ % confidence: at least \d+ more runs$`, false: `\[\S+, \S+\]`}
	switch few := e.Provisional; {
	case n == 0:
		text[true] = "^cannot tell yet: no block is complete$"
	case n == 1:
		text[true] = `^cannot tell yet \(\S+ % (faster|slower) in the only block\): at least \d+ more runs$`
	case n >= d.Least:
		if e.Interval == nil || few != nil {
			t.Errorf("%s: %d blocks: %+v", name, n, e.Verdict)
		}
	case few == nil || e.Interval != nil || few.Confidence != confidence || !(few.Interval[0] <= *e.Effect && *e.Effect <= few.Interval[1]) || few.Unsettled:
		t.Errorf("%s: %d blocks: %+v, %+v", name, n, e.Verdict, few)
	}
	if want := text[n < d.Least]; !regexp.MustCompile(want).MatchString(e.Text) {
		t.Errorf("%s: %d blocks: %q, want %s", name, n, e.Text, want)
	}
	warned := strings.Contains(strings.Join(e.Warnings, "\n"), "an interval takes two blocks, which take about")
	if warned != (n < 2 && e.Ending == EndedBudget) {
		t.Errorf("%s: %d blocks, warnings: %v", name, n, e.Warnings)
	}
}

// TestAlwaysAnInterval tests every ending that can come before a verdict, at every moment: what was
// measured until then gives an interval from two blocks on.
func TestAlwaysAnInterval(t *testing.T) {
	for _, x := range []struct {
		name string
		stop func(m *machine, e *Experiment, at int, cancel func())
		want Ending
	}{
		{"budget", func(_ *machine, e *Experiment, at int, _ func()) { e.Design.BudgetS = float64(at) - 0.5 }, EndedBudget},
		{"budget of a comparison", func(_ *machine, e *Experiment, at int, _ func()) {
			e.Design.BudgetS, e.Comparison, e.Shorten = float64(at)-0.5, true, true
		}, EndedBudget},
		{"interrupted", func(m *machine, _ *Experiment, at int, cancel func()) {
			m.fail = func(sample int) error {
				if sample == at {
					cancel()
				}
				return nil
			}
		}, EndedInterrupted},
		{"failed", func(m *machine, _ *Experiment, at int, _ func()) {
			m.fail = func(sample int) error {
				if sample == at {
					return errors.New("exit status 1")
				}
				return nil
			}
		}, EndedFailed},
		{"guard rail", func(m *machine, e *Experiment, at int, _ func()) {
			e.Design.Caps = []Cap{{Metric: Metric{Name: "errors"}, Most: 0}}
			m.also = Values{"errors": 0}
			m.fail = func(sample int) error { m.also["errors"] = float64(sample / at); return nil }
		}, EndedGuard},
	} {
		seen := map[int]bool{}
		for at := 1; at < 45; at++ {
			m := quiet()
			var record []Sample
			e := m.experiment(design(), &record)
			ctx, cancel := context.WithCancel(t.Context())
			x.stop(m, e, at, cancel)
			c, ending, err := e.Run(ctx, nil)
			cancel()
			if m.on || ending != x.want && ending != EndedVerdict {
				t.Fatalf("%s at %d: %s, %v, switch %v", x.name, at, ending, err, m.on)
			}
			seen[c.Counted()] = true
			known(t, x.name, e.Design, c.Counted(), Sum(c, ending, err, record))
			again, err := Replay(e.Design, record)
			if err != nil || again.Verdict().Text != c.Verdict().Text {
				t.Errorf("%s at %d: replayed %v, %v, want %q", x.name, at, again.Verdict().Text, err, c.Verdict().Text)
			}
		}
		for n := range 8 {
			if !seen[n] {
				t.Errorf("%s: never with %d blocks", x.name, n)
			}
		}
	}
}

// TestFewBlocksCount tests the other two reasons for too few blocks: an alpha for which the design's
// blocks are too few, and a warm-up that was too short.
func TestFewBlocksCount(t *testing.T) {
	m, d := quiet(), design()
	d.Alpha, d.Most = 0.001, 9
	c, ending, err := m.experiment(d, nil).Run(t.Context(), nil)
	if v := c.Verdict(); err != nil || ending != EndedMost || v.Provisional == nil || v.Provisional.Confidence != 1-1./256 || c.Fewest() <= 9 || !strings.Contains(v.Text, "with 99.6 % confidence: at least 12 more runs") {
		t.Errorf("%v, %v, %d blocks: %+v", ending, err, c.Fewest(), v)
	}
	m, d = quiet(), design()
	m.effect, m.after, d.Most = 0, []float64{0.05}, 7
	c, ending, err = m.experiment(d, nil).Run(t.Context(), nil)
	v := c.Verdict()
	if err != nil || ending != EndedMost || c.Counted() != 0 || v.Provisional == nil || !v.Provisional.Unsettled || v.Interval != nil || v.Effect != nil ||
		!regexp.MustCompile(`^cannot tell yet \[\S+, \S+\] with 98.4 % confidence and the cost of a switch: at least \d+ more runs$`).MatchString(v.Text) {
		t.Errorf("%v, %v: %+v, %+v", ending, err, v, v.Provisional)
	}
	// Each growth has a smaller share of alpha, so a verdict takes more blocks.
	if want := c.Fewest() * 4; c.Fewest() <= 7 || v.More != want {
		t.Errorf("%d more runs, want %d", v.More, want)
	}
}

// TestProvisionalIntervals tests that the interval of few blocks contains the effect at least as often
// as its confidence says. A disturbance with a period of four runs is the exception: warm-up runs make
// the position of a block in the period depend on the order of the blocks.
func TestProvisionalIntervals(t *testing.T) {
	for _, model := range noise.Models {
		if model.Name == "a period of four runs" {
			continue
		}
		for _, effect := range []float64{0, 0.03} {
			contained := map[int]int{}
			for seed := range count() {
				d := Defaults(Metric{Name: "time", Unit: "s"})
				d.Seed = uint64(seed) + 1
				y := looksOf(t, d, model, effect, 6)
				for n := 2; n <= 6; n++ {
					if p := y[n-1].Provisional.Interval; p[0] <= -math.Expm1(effect) && -math.Expm1(effect) <= p[1] {
						contained[n]++
					}
				}
			}
			for n := 2; n <= 6; n++ {
				p := 1 - math.Pow(2, float64(1-n))
				got, error := float64(contained[n])/float64(count()), math.Sqrt(p*(1-p)/float64(count()))
				if got < p-4*error {
					t.Errorf("%s, effect %v, %d blocks: contained in %.1f %%, want %.1f %%", model.Name, effect, n, 100*got, 100*p)
				}
			}
		}
	}
}

// looksOf returns the verdicts after each of the first blocks.
func looksOf(t *testing.T, d Design, n noise.Model, effect float64, blocks int) (out []Verdict) {
	m := &machine{noise: n.Begin(newRand(d.Seed)), effect: effect}
	e := m.experiment(d, nil)
	e.Progress = func(c *Course, _ Sample) {
		if c.Counted() > len(out) {
			out = append(out, c.Verdict())
		}
		if len(out) == blocks {
			e.Design.BudgetS = 1e-9
		}
	}
	if _, _, err := e.Run(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestShortened tests comparisons whose budget is too short for warm-ups, with a cost of each switch:
// still at most one in twenty finds an effect that does not exist, and a large one is found.
func TestShortened(t *testing.T) {
	run := func(seed uint64, effect float64) (Word, []Sample) {
		r := newRand(seed)
		m := &machine{noise: func(int) float64 { return sigma * r.NormFloat64() }, effect: effect, after: []float64{0.05}}
		d := Defaults(Metric{Name: "time", Unit: "s"})
		d.Seed, d.BudgetS = seed, 24
		var record []Sample
		e := m.experiment(d, &record)
		e.Comparison, e.Shorten = true, true
		c, _, err := e.Run(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		return c.Verdict().Word, record
	}
	wrong, found := 0, 0
	for seed := range uint64(count()) {
		word, record := run(seed, 0)
		if word == Better || word == Worse {
			wrong++
		}
		for i, v := range record[1:] {
			if v.Dropped || !v.Short {
				t.Fatalf("seed %d: sample %d is dropped", seed, i+1)
			}
		}
		if len(record) < 20 {
			t.Errorf("seed %d: %d samples", seed, len(record))
		}
		if word, _ = run(seed, -0.1); word == Better {
			found++
		}
	}
	t.Logf("%d false alarms, %d found, of %d", wrong, found, count())
	if wrong > mostWrong(count()) {
		t.Errorf("%d of %d find an effect", wrong, count())
	}
	if found < count()*9/10 {
		t.Errorf("only %d of %d find 10 %%", found, count())
	}
}

// TestDetectable tests the forecast of what an experiment can detect.
func TestDetectable(t *testing.T) {
	for _, blocks := range []int{10, 20, 60} {
		d := Defaults(Metric{Name: "time", Unit: "s"})
		d.Most = blocks
		effect := stats.Detectable(blocks, math.Sqrt2*sigma, d.Alpha)
		y := many(t, d, noise.Models[0], -effect, count()/2)
		t.Logf("%d blocks, %.1f %%: %v", blocks, 100*effect, y)
		if got := y.share(Better); got < 66 || got > 97 {
			t.Errorf("%d blocks: an effect of %.1f %% is found in %.0f %%", blocks, 100*effect, got)
		}
	}
}
