package prove

import (
	"encoding/json"
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
	m.fail = func(sample int) error {
		shared := own(sample - 1)
		m.also = Values{"cpu-time": math.Exp(shared), "rate": math.Exp(shared/2 + sigma*r.NormFloat64())}
		if m.on {
			m.also["rate"] *= math.Exp(effect)
		}
		return nil
	}
	d := Defaults(Metric{Name: "time", Unit: "s"})
	d.Seed, d.Most, d.Also = seed, 30, []Metric{{Name: "cpu-time", Unit: "s"}, {Name: "rate", Unit: "1/s", More: true}}
	e := m.experiment(d, nil)
	e.Progress = func(c *Course, _ Sample) {
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

// TestZeros tests metrics that are 0 in all samples, next to one that is not, and as the only one.
func TestZeros(t *testing.T) {
	zero := Metric{Name: "allocs/op", Unit: "allocs/op"}
	for name, d := range map[string]Design{"first": Defaults(zero), "second": Defaults(Metric{Name: "time", Unit: "s"})} {
		m := quiet()
		m.also = Values{zero.Name: 0}
		if d.Seed = 42; name == "second" {
			d.Also = []Metric{zero}
		}
		var record []Sample
		c, ending, err := m.experiment(d, &record).Run(t.Context(), nil)
		if err != nil || ending != EndedVerdict {
			t.Fatalf("%s: %v, %v", name, ending, err)
		}
		e := Sum(c, ending, err, record)
		all := e.Judged()
		if j := all[len(all)-1]; j.Word != NoEffect || j.Text != "equal, both 0" || *j.Verdict.Effect != 0 {
			t.Errorf("%s: %+v", name, j)
		}
		if _, err := json.Marshal(e); err != nil {
			t.Error(name, err)
		}
		if err := e.Again(); err != nil {
			t.Error(name, err)
		}
	}
	// 0 on one side, or now and then, has no ratio.
	m, samples := quiet(), 0
	m.also = Values{zero.Name: 0}
	m.fail = func(int) error {
		if samples++; samples == 5 {
			m.also[zero.Name] = 1
		}
		return nil
	}
	if _, ending, err := m.experiment(Defaults(zero), nil).Run(t.Context(), nil); ending != EndedFailed || err == nil || !strings.Contains(err.Error(), "allocs/op was 0 before and is 1 now") {
		t.Errorf("%v, %v", ending, err)
	}
	// Windows of running work may be 0 at times; a time and a rate are never 0.
	live := Defaults(zero)
	live.Live = &Live{WindowS: 1}
	for _, d := range []Design{live, Defaults(Metric{Name: zero.Name, Unit: "s"}), Defaults(Metric{Name: zero.Name, Unit: "1/s", More: true})} {
		if _, err := Begin(d).tracks[0].log(Values{zero.Name: 0}); err == nil || !strings.Contains(err.Error(), "want a positive number") {
			t.Errorf("%+v: %v", d.Metric, err)
		}
	}
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
		if limit := mostWrong(all); alarms > limit || missed > limit {
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
