package prove

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// quiet is a machine with a noise of half a percent, and a change that saves 8 %.
func quiet() *machine {
	r := rand.New(rand.NewPCG(1, 2))
	return &machine{noise: func(int) float64 { return 0.005 * r.NormFloat64() }, effect: math.Log(0.92)}
}

func design() Design {
	d := Defaults(Metric{Name: "time", Unit: "s"})
	d.Seed = 42
	return d
}

func TestRun(t *testing.T) {
	m := quiet()
	var record []Sample
	c, ending, err := m.experiment(design(), &record).Run(t.Context(), nil)
	if err != nil || ending != EndedVerdict {
		t.Fatal(ending, err)
	}
	v := c.Verdict()
	if v.Word != Better || !strings.HasPrefix(v.Text, "faster by ") || math.Abs(*v.Effect-0.08) > 0.01 || v.Interval[0] > 0.08 || v.Interval[1] < 0.08 {
		t.Errorf("%+v", v)
	}
	if m.on || m.applied == 0 || m.applied != m.undone {
		t.Errorf("switch %v, applied %d, undone %d", m.on, m.applied, m.undone)
	}
	if len(record) != m.samples {
		t.Errorf("%d samples recorded of %d", len(record), m.samples)
	}
	// Two of a block count, and after each switch one is dropped.
	counted := 0
	for i, r := range record {
		if r.Dropped != r.Switch {
			t.Errorf("sample %d: %+v", i, r.Step)
		}
		if !r.Dropped {
			counted++
		}
	}
	if counted != 14 {
		t.Errorf("counted %d", counted)
	}
}

// TestCutOff tests that an experiment that is interrupted at any sample leaves the machine without
// the change. It continues later from its record, also after another interruption, as if the
// interrupted block had not begun.
func TestCutOff(t *testing.T) {
	for at := 1; ; at++ {
		m := quiet()
		var record []Sample
		ctx, cancel := context.WithCancel(t.Context())
		m.fail = func(sample int) error {
			if sample%7 == 0 && sample > at || sample == at {
				cancel()
			}
			return nil
		}
		c, ending, err := m.experiment(design(), &record).Run(ctx, nil)
		if err != nil || m.on {
			t.Fatalf("cut at %d: %v, switch %v", at, err, m.on)
		}
		if ending == EndedVerdict {
			cancel()
			return
		}
		if ending != EndedInterrupted || len(record) != at {
			t.Fatalf("cut at %d: %s, %d samples", at, ending, len(record))
		}
		_ = c.Verdict()
		for round := 0; ending == EndedInterrupted; round++ {
			if round > 50 {
				m.fail = nil // a block takes longer than seven samples now and then
			}
			before := len(record)
			ctx, cancel = context.WithCancel(t.Context())
			c, ending, err = m.experiment(design(), &record).Run(ctx, record)
			if err != nil || m.on {
				t.Fatalf("cut at %d, again after %d: %v, switch %v", at, before, err, m.on)
			}
		}
		cancel()
		if v := c.Verdict(); v.Word != Better {
			t.Fatalf("cut at %d: %+v", at, v)
		}
	}
}

func TestEndings(t *testing.T) {
	broken := errors.New("exit status 1")
	for name, x := range map[string]struct {
		machine func(*machine, *Design)
		ending  Ending
		says    string
		stuck   bool
	}{
		"the work fails with the change": {machine: func(m *machine, _ *Design) {
			m.fail = func(int) error {
				if m.on {
					return broken
				}
				return nil
			}
		}, ending: EndedFailed, says: "the measured work failed with the change: exit status 1"},
		"the work fails at once": {machine: func(m *machine, _ *Design) {
			m.fail = func(int) error { return broken }
		}, ending: EndedFailed, says: "the measured work failed without the change"},
		"the budget is over": {machine: func(m *machine, d *Design) { d.BudgetS = 20 }, ending: EndedBudget},
		"the change stays":   {machine: func(m *machine, _ *Design) { m.stuck = broken }, ending: EndedFailed, says: "the change is not undone", stuck: true},
		"noise without end": {machine: func(m *machine, _ *Design) {
			r := rand.New(rand.NewPCG(3, 3))
			m.noise = func(int) float64 { return 0.5 * r.NormFloat64() }
		}, ending: EndedMost},
		"a value of 0": {machine: func(m *machine, _ *Design) {
			m.noise = func(int) float64 { return math.Inf(-1) }
		}, ending: EndedFailed, says: "time is 0; want a positive number"},
		"no such metric": {machine: func(_ *machine, d *Design) { d.Metric.Name = "p99" }, ending: EndedFailed, says: "did not report p99"},
		"a guard rail": {machine: func(m *machine, d *Design) {
			d.Guards = []Guard{{Metric: Metric{Name: "errors"}, Most: 0.5}}
			m.also = Values{"errors": 0}
			m.fail = func(int) error {
				m.also["errors"] = 0
				if m.on {
					m.also["errors"] = 20
				}
				return nil
			}
			m.effect = math.Log(0.999) // so that the verdict takes its time
		}, ending: EndedGuard, says: "errors is at least"},
		"a bad design": {machine: func(_ *machine, d *Design) { d.Margin = 0 }, ending: EndedFailed, says: "--margin"},
	} {
		t.Run(name, func(t *testing.T) {
			m, d := quiet(), design()
			if x.machine != nil {
				x.machine(m, &d)
			}
			e := m.experiment(d, nil)
			_, ending, err := e.Run(t.Context(), nil)
			if ending != x.ending {
				t.Errorf("ended with %q, %v", ending, err)
			}
			if (x.says == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), x.says) {
				t.Errorf("said %v, want %q", err, x.says)
			}
			if m.on != x.stuck {
				t.Errorf("the switch is %v", m.on)
			}
			if s := (*Stuck)(nil); errors.As(err, &s) != x.stuck {
				t.Errorf("stuck: %v", err)
			}
		})
	}
}

// TestRecordFails tests that an experiment ends and restores the machine if a sample cannot be
// recorded.
func TestRecordFails(t *testing.T) {
	m := quiet()
	e := m.experiment(design(), nil)
	n := 0
	e.Record = func(Sample) error {
		if n++; n == 20 {
			return errors.New("no space left on device")
		}
		return nil
	}
	if _, ending, err := e.Run(t.Context(), nil); ending != EndedFailed || err == nil || err.Error() != "cannot record the run: no space left on device" || m.on {
		t.Error(ending, err, m.on)
	}
}

// TestForeignRecord tests that a record of another design is rejected.
func TestForeignRecord(t *testing.T) {
	m := quiet()
	var record []Sample
	if _, _, err := m.experiment(design(), &record).Run(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	d := design()
	d.Seed++
	if _, _, err := quiet().experiment(d, nil).Run(t.Context(), record); err == nil || !strings.Contains(err.Error(), "does not match") {
		t.Error(err)
	}
}

// TestWashout tests that the warm-up grows until the last dropped sample is like those that count,
// if the cost of a switch is the same on both sides or what is left of the other side.
func TestWashout(t *testing.T) {
	for _, x := range []struct {
		after []float64
		want  int
	}{
		{nil, 1},
		{[]float64{0.05}, 2},
		{[]float64{0.06, 0.04, 0.02}, 4},
	} {
		m := quiet()
		m.effect, m.after = 0, x.after
		c, ending, err := m.experiment(design(), nil).Run(t.Context(), nil)
		if err != nil || ending != EndedVerdict || c.Verdict().Word != NoEffect {
			t.Errorf("%v: %s, %v, %+v", x.after, ending, err, c.Verdict())
		}
		// One in fifty grows once more by chance.
		if n := c.washout; n < x.want || n > x.want+1 {
			t.Errorf("%v: %d samples dropped after a switch, want %d", x.after, n, x.want)
		}
	}
}

// TestCostOfTheSwitch tests a slower first run after the change only: it does not count as an effect if it is dropped, but does if nothing is dropped.
func TestCostOfTheSwitch(t *testing.T) {
	for washout, want := range map[int]Word{0: Worse, 1: NoEffect} {
		m, d := quiet(), design()
		m.effect, m.after, m.afterOn, d.Washout = 0, []float64{0.05}, true, washout
		c, _, err := m.experiment(d, nil).Run(t.Context(), nil)
		if err != nil || c.Verdict().Word != want {
			t.Errorf("%d dropped: %v, %+v, want %s", washout, err, c.Verdict(), want)
		}
		if washout > 0 && math.Abs(c.Carried(With)-0.05) > 0.01 {
			t.Errorf("carried over: %v", c.Carried(With))
		}
	}
}

func TestOrderIsACoin(t *testing.T) {
	d := design()
	n := 0
	for q := range 1000 {
		if d.Order(q)[0] == With {
			n++
		}
	}
	if n < 450 || n > 550 {
		t.Errorf("%d of 1000 blocks begin with the change", n)
	}
	other := d
	other.Seed++
	same := 0
	for q := range 1000 {
		if d.Order(q) == other.Order(q) {
			same++
		}
	}
	if same < 400 || same > 600 {
		t.Errorf("%d of 1000 blocks are the same with another seed", same)
	}
}

// TestLooks tests that each look is the verdict on its blocks, and the last look the final verdict.
func TestLooks(t *testing.T) {
	var record []Sample
	c, _, err := quiet().experiment(design(), &record).Run(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	looks, err := Looks(design(), record)
	if err != nil || len(looks) != 7 || !cmp.Equal(looks[6], c.Verdict()) {
		t.Fatalf("%d looks, %v: %+v, want %+v", len(looks), err, looks[len(looks)-1], c.Verdict())
	}
	for i, v := range looks[:6] {
		if v.Word != CannotTell || v.Effect == nil {
			t.Errorf("after block %d: %+v", i+1, v)
		}
	}
	record[3].Arm = With
	record[3].Place = 1 - record[3].Place
	if _, err := Looks(design(), record); err == nil {
		t.Error("samples in another order than the design's are no such experiment")
	}
}

// TestCoarseSteps tests a metric in coarse steps, whose values are mostly equal: a rounding
// difference is not an effect, and a real effect is found.
func TestCoarseSteps(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 9))
		m := &machine{noise: func(int) float64 {
			if r.IntN(20) == 0 {
				return math.Log(11. / 10)
			}
			return 0
		}}
		d := design()
		d.Seed = seed
		c, _, err := m.experiment(d, nil).Run(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if v := c.Verdict(); v.Word == Better || v.Word == Worse {
			t.Errorf("seed %d: %s", seed, v.Text)
		}
		m.effect = math.Log(9. / 10)
		if c, _, err = m.experiment(d, nil).Run(t.Context(), nil); err != nil || c.Verdict().Word != Better {
			t.Errorf("seed %d: %v, %v", seed, c.Verdict().Text, err)
		}
	}
}

// TestTailIsNotNothing tests that the verdict is not "no effect" if most runs are alike and a few
// with the change take four times as long.
func TestTailIsNotNothing(t *testing.T) {
	none := 0
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 9))
		m := &machine{}
		m.noise = func(int) float64 {
			at := 0.003 * r.NormFloat64()
			if m.on && r.Float64() < 0.06 {
				at += math.Log(4)
			}
			return at
		}
		d := design()
		d.Seed = seed
		c, _, err := m.experiment(d, nil).Run(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		v := c.Verdict()
		slow := 0
		for _, q := range c.tracks[0].sequence.Values() {
			if q > 0.3 {
				slow++
			}
		}
		if v.Word == NoEffect {
			none++
			if slow > 0 {
				t.Errorf("seed %d: %s with %d slow blocks", seed, v.Text, slow)
			}
		}
	}
	// In seven runs none is slow in 65 of a hundred experiments: that cannot be seen.
	if none > 48 {
		t.Errorf("%d of 60 see nothing", none)
	}
}
