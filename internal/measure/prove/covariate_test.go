package prove

import (
	"context"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/testkit/noise"
)

// loaded is a machine whose samples also report the rate of arriving work, on which the time
// depends.
type loaded struct {
	*machine
	rate float64 // logarithm, of the sample made last
}

// arriving returns a machine with a drifting rate of work, whose time depends on the rate by the
// power slope, in addition to the model's noise. moves is the effect of the change on the rate.
func arriving(d Design, model noise.Model, slope, effect, moves float64) *loaded {
	r := rand.New(rand.NewPCG(d.Seed, 77))
	l := &loaded{}
	at, own := 0.0, model.Begin(r)
	l.machine = &machine{effect: effect, noise: func(i int) float64 {
		at = 0.9*at + 0.1*r.NormFloat64()
		l.rate = at
		if l.machine.on {
			l.rate += moves
		}
		return slope*l.rate + own(i)
	}}
	return l
}

func (l *loaded) Measure(ctx context.Context, s Step) (Measurement, error) {
	m, err := l.machine.Measure(ctx, s)
	if m.Values != nil {
		m.Values["rate"] = math.Exp(l.rate)
	}
	return m, err
}

func (l *loaded) run(t *testing.T, d Design) *Course {
	t.Helper()
	e := l.experiment(d, nil)
	e.Workload = l
	c, _, err := e.Run(t.Context(), nil)
	if err != nil || l.on {
		t.Fatalf("switch %v, %v", l.on, err)
	}
	return c
}

// TestCovariate tests that with the rate of arriving work removed, false alarms and wrong intervals
// stay within 5 % under each noise model, and that an effect is found that the rate would hide.
func TestCovariate(t *testing.T) {
	design := Defaults(Metric{Name: "time", Unit: "s"})
	design.Covariate = &Metric{Name: "rate", Unit: "1/s", More: true}
	n := count() / 4
	for _, m := range noise.Models {
		// Of the slope nothing depends: what is left is the same with any.
		wrong, missed := 0, 0
		for i := range n {
			d := design
			d.Seed = uint64(i) + 1
			c := arriving(d, m, 0.8, 0, 0).run(t, d)
			if w := c.Verdict().Word; w == Better || w == Worse {
				wrong++
			}
			if !c.tracks[0].interval.Contains(0) {
				missed++
			}
		}
		t.Logf("%s: %.1f %% false alarms", m.Name, 100*float64(wrong)/float64(n))
		if w := max(wrong, missed); w > mostWrong(n) {
			t.Errorf("%s: %d of %d wrong", m.Name, w, n)
		}
	}
	found := func(with bool) (share float64) {
		for i := range n {
			d := design
			if !with {
				d.Covariate = nil
			}
			d.Seed = uint64(i) + 1
			if c := arriving(d, noise.Models[0], 0.8, math.Log(0.95), 0).run(t, d); c.Verdict().Word == Better {
				share += 100 / float64(n)
			}
		}
		return share
	}
	with, without := found(true), found(false)
	t.Logf("an effect of 5 %% is found in %.0f %%, without the covariate in %.0f %%", with, without)
	if with < 97 || without > with-15 {
		t.Error("the covariate is of no use")
	}
}

// TestCovariateThatMoves tests that a covariate that the change affects is reported, and that the
// evidence describes the covariate.
func TestCovariateThatMoves(t *testing.T) {
	d := Defaults(Metric{Name: "time", Unit: "s"})
	d.Covariate = &Metric{Name: "rate", Unit: "1/s", More: true}
	d.Seed = 5
	var record []Sample
	l := arriving(d, noise.Models[0], 0.8, 0.5, 0.4)
	e := l.experiment(d, &record)
	e.Workload = l
	c, ending, err := e.Run(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	sum := Sum(c, ending, nil, record)
	if x := sum.Covariate; x == nil || math.Abs(x.Slope-0.8) > 0.2 || math.Abs(x.Difference-0.4) > 0.15 || x.P > 0.02 {
		t.Errorf("%+v", x)
	}
	if len(sum.Warnings) == 0 || !strings.Contains(strings.Join(sum.Warnings, "; "), "the change also affects the covariate rate") {
		t.Errorf("%q", sum.Warnings)
	}
	// From its record it comes to the same.
	again, err := Replay(d, record)
	if err != nil || again.Verdict().Text != c.Verdict().Text {
		t.Errorf("%v, %v", again.Verdict(), err)
	}
	delete(record[3].Values, "rate")
	if _, err := Replay(d, record); err == nil || !strings.Contains(err.Error(), "did not report rate") {
		t.Error(err)
	}
}

// TestCaps tests that a cap ends the experiment at once, also before its first verdict, and that the rate of
// a guard rail may be 0 at times.
func TestCaps(t *testing.T) {
	for name, x := range map[string]struct {
		errors  func(sample int) float64
		ending  Ending
		says    string
		samples int
	}{
		"never above":             {func(int) float64 { return 2 }, EndedVerdict, "", 0},
		"above early":             {func(i int) float64 { return float64(max(i, 1)) }, EndedGuard, "errors/s exceeds the limit of --stop-above: 6 > 5", 6},
		"none for most of a time": {func(i int) float64 { return max(0, 0.5-float64(i%3)) }, EndedVerdict, "", 0},
		"none in the first run":   {func(i int) float64 { return float64(i) }, EndedFailed, "so ratios cannot be calculated", 1},
	} {
		t.Run(name, func(t *testing.T) {
			m := quiet()
			d := design()
			rate := Metric{Name: "errors/s", Unit: "1/s"}
			d.Caps = []Cap{{rate, 5}}
			d.Guards = []Guard{{rate, 100}}
			m.also = Values{"errors/s": x.errors(0)}
			e := m.experiment(d, nil)
			e.Progress = func(*Course, Sample) { m.also["errors/s"] = x.errors(m.samples + 1) }
			_, ending, err := e.Run(t.Context(), nil)
			if ending != x.ending || (err == nil) != (x.says == "") || err != nil && !strings.Contains(err.Error(), x.says) || m.on {
				t.Errorf("%s, %v, switch %v", ending, err, m.on)
			}
			if x.samples > 0 && m.samples != x.samples {
				t.Errorf("%d samples", m.samples)
			}
		})
	}
	// The work itself may say so before the sample is over.
	m := quiet()
	d := design()
	d.Caps = []Cap{{Metric{Name: "errors"}, 5}}
	m.fail = func(sample int) error {
		if sample == 20 {
			return d.Exceeded(Values{"errors": 9})
		}
		return nil
	}
	m.also = Values{"errors": 1}
	if _, ending, err := m.experiment(d, nil).Run(t.Context(), nil); ending != EndedGuard || m.samples != 20 || m.on || err == nil || strings.Contains(err.Error(), "failed") {
		t.Errorf("%s after %d samples: %v", ending, m.samples, err)
	}
}
