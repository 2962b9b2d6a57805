package prove

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/testkit/noise"
)

// severalMetrics runs an experiment on three metrics whose noise is partly the same. The change
// affects the third by the logarithm effect. wrong reports whether the interval of any metric ever
// excluded its effect.
func severalMetrics(t *testing.T, seed uint64, model noise.Model, effect float64) (c *Course, wrong bool) {
	r := newRand(seed)
	own := model.Begin(rand.New(rand.NewPCG(seed, 98)))
	m := &machine{noise: model.Begin(r)}
	m.fail = func(visit int) error {
		shared := own(visit - 1)
		m.also = Values{"cpu-time": math.Exp(shared), "rate": math.Exp(shared/2 + sigma*r.NormFloat64())}
		if m.on {
			m.also["rate"] *= math.Exp(effect)
		}
		return nil
	}
	d := Defaults(Metric{Name: "time", Unit: "s"})
	d.Seed, d.Most, d.Also = seed, 30, []Metric{{Name: "cpu-time", Unit: "s"}, {Name: "rate", Unit: "1/s", More: true}}
	e := m.experiment(d, nil)
	e.Progress = func(c *Course, _ Visit) {
		for i, truth := range []float64{0, 0, effect} {
			wrong = wrong || c.Counted() > 0 && !c.tracks[i].interval.Contains(truth)
		}
	}
	c, _, err := e.Run(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return c, wrong
}

// TestSeveralMetrics tests that the intervals of three metrics together are ever wrong in at most one
// of twenty experiments, under every noise model, and that an effect on one of them is found.
func TestSeveralMetrics(t *testing.T) {
	all := count() / 2
	if testing.Short() {
		all = count() / 4
	}
	for i, model := range noise.Models {
		if testing.Short() && i%6 > 0 {
			continue
		}
		alarms, missed, found := 0, 0, 0
		for seed := range uint64(all) {
			c, wrong := severalMetrics(t, seed, model, 0)
			if wrong {
				missed++
			}
			for _, j := range c.Judged() {
				if j.Word == Better || j.Word == Worse {
					alarms++
					break
				}
			}
			if seed%4 == 0 {
				if c, _ = severalMetrics(t, seed, model, 0.1); c.Judged()[2].Word == Better {
					found++
				}
			}
		}
		t.Logf("%s: %.1f %% false alarms, intervals ever wrong in %.1f %%, found %.0f %%", model.Name, 100*float64(alarms)/float64(all), 100*float64(missed)/float64(all), 400*float64(found)/float64(all))
		limit := all / 20
		if testing.Short() {
			limit = all * 9 / 100
		}
		if alarms > limit || missed > limit {
			t.Errorf("%s: %d of %d have a false alarm, in %d an interval is wrong", model.Name, alarms, all, missed)
		}
		if found < all/5 && model.Name == "independent" {
			t.Errorf("%s: an effect of 10 %% is found in %d of %d", model.Name, found, all/4)
		}
	}
}

// TestVerdictsOfSeveral tests the text of several verdicts, and what the experiment ends with.
func TestVerdictsOfSeveral(t *testing.T) {
	little := noise.Model{Begin: func(r *rand.Rand) func(int) float64 {
		return func(int) float64 { return 0.005 * r.NormFloat64() }
	}}
	c, _ := severalMetrics(t, 1, little, 0.1)
	e := Sum(c, EndedVerdict, nil, nil)
	for _, want := range []string{"time: no effect above 2 % [", "]; cpu-time: no effect above 2 % [", "]; rate: faster by "} {
		if !strings.Contains(e.Text, want) {
			t.Errorf("%q not in %q", want, e.Text)
		}
	}
	if e.Word != NoEffect || len(e.Metrics) != 3 || !e.Improved() || e.Unanswered() {
		t.Errorf("%s, %d metrics, improved: %v", e.Word, len(e.Metrics), e.Improved())
	}
	e.Ending, e.Metrics[1].Word = EndedMost, CannotTell
	if e.Improved() || !e.Unanswered() {
		t.Error("one metric is undecided")
	}
	e.Metrics[1].Word = Worse
	if e.Improved() {
		t.Error("one metric is worse")
	}
	h := e.Headline()
	if len(h.Lines) != 4 || h.Figures["metric_3_effect_percent"] < 5 || h.Figures["interval_low_percent"] == h.Figures["metric_3_interval_low_percent"] {
		t.Errorf("%v %v", h.Lines, h.Figures)
	}
}
