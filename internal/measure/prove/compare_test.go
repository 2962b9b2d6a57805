package prove

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/ui"
)

func bench(t *testing.T, at int, series ...evidence.Series) *evidence.Run {
	t.Helper()
	body, err := json.Marshal(map[string]any{"series": series})
	if err != nil {
		t.Fatal(err)
	}
	return &evidence.Run{ID: "12", Kind: "bench-disk", Command: "fettle bench disk", Began: time.Date(2026, 1, 2, at, 0, 0, 0, time.UTC), Body: body,
		Machine: evidence.Machine{Name: "a", CPU: "Xeon", CPUs: 2, Hardware: "0123", Settings: map[string]string{"sysctl:vm.swappiness": "60"}}}
}

func TestSeries(t *testing.T) {
	a := bench(t, 1, evidence.Series{Name: "read", Unit: "MB/s", More: true, Samples: []float64{100, 101, 99}}, evidence.Series{Name: "p99", Unit: "ms", Samples: []float64{10, 10.1, 9.9}},
		evidence.Series{Name: "same", Unit: "ms", Samples: []float64{10, 10.01, 9.99}}, evidence.Series{Name: "wild", Unit: "ms", Samples: []float64{1, 10, 3}}, evidence.Series{Name: "one", Unit: "ms", Samples: []float64{1}},
		evidence.Series{Name: "zero", Unit: "1", Samples: []float64{0, 1}}, evidence.Series{Name: "unit", Unit: "ms", Samples: []float64{1, 2}}, evidence.Series{Name: "gone", Unit: "ms", Samples: []float64{1, 2}})
	b := bench(t, 4, evidence.Series{Name: "read", Unit: "MB/s", More: true, Samples: []float64{120, 121, 119}}, evidence.Series{Name: "p99", Unit: "ms", Samples: []float64{12, 12.1, 11.9}},
		evidence.Series{Name: "same", Unit: "ms", Samples: []float64{10.02, 10.01, 9.99}}, evidence.Series{Name: "wild", Unit: "ms", Samples: []float64{2, 9, 4}}, evidence.Series{Name: "one", Unit: "ms", Samples: []float64{1}},
		evidence.Series{Name: "zero", Unit: "1", Samples: []float64{1, 1}}, evidence.Series{Name: "unit", Unit: "s", Samples: []float64{1, 2}}, evidence.Series{Name: "new", Unit: "ms", Samples: []float64{1, 2}})
	b.Machine.Settings = map[string]string{"sysctl:vm.swappiness": "10", "sysctl:vm.new": "1"}
	c, err := Runs(a, b, 0.02, false)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]FiguresVerdict{"read": FiguresBetter, "p99": FiguresWorse, "same": Alike, "wild": FiguresCannotTell, "one": TooFew, "zero": NoRatio, "unit": OtherUnit}
	for _, s := range c.Series {
		if s.Word != want[s.Name] {
			t.Errorf("%s: %s, want %s: %+v", s.Name, s.Word, want[s.Name], s)
		}
	}
	if s := c.Series[0]; math.Abs(*s.Effect-0.2) > 0.001 || s.Within[0] > 0.2 || s.Within[1] < 0.2 || s.Within[0] < 0.15 {
		t.Errorf("%v %v", *s.Effect, *s.Within)
	}
	if s := c.Series[1]; math.Abs(*s.Effect+0.2) > 0.001 {
		t.Errorf("more time is worse: %v", *s.Effect)
	}
	if len(c.OnlyA) != 1 || c.OnlyA[0] != "gone" || len(c.OnlyB) != 1 || c.OnlyB[0] != "new" || !strings.Contains(c.Caution, "3h0m0s apart") {
		t.Errorf("%+v", c)
	}
	for range 20 { // not in the order of a map
		var out, said bytes.Buffer
		PrintComparison(ui.NewScreen(&out, &said), c)
		if a, b := strings.Index(said.String(), "only A has gone"), strings.Index(said.String(), "only B has new"); a < 0 || b < a {
			t.Fatal(said.String())
		}
	}
	if len(c.Differing) != 2 || c.Differing[0] != (Difference{"sysctl:vm.new", "absent", "1"}) || c.Differing[1] != (Difference{"sysctl:vm.swappiness", "60", "10"}) {
		t.Errorf("%+v", c.Differing)
	}

	b.Machine.Hardware, b.Machine.CPUs = "4567", 4
	if _, err := Runs(a, b, 0.02, false); !errors.Is(err, ErrMachines) {
		t.Error(err)
	}
	if c, err = Runs(a, b, 0.02, true); err != nil || c.Differing[0].Name != "hardware" {
		t.Errorf("%v %+v", err, c)
	}
	b.Kind = "bench-memory"
	if _, err := Runs(a, b, 0.02, true); err == nil || !strings.Contains(err.Error(), "runs of the same kind") {
		t.Error(err)
	}
	if _, err := Runs(a, bench(t, 1, evidence.Series{Name: "x"}), 0.02, true); err == nil || !strings.Contains(err.Error(), "no series in common") {
		t.Error(err)
	}
}

// TestClaim tests the claim of the interval: it is right if only the scatter within the runs
// varies. It is wrong if the machine differs each time by as much as its repeats scatter, which is
// the reason for the caution.
func TestClaim(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	wrong := func(between float64) float64 {
		const experiments = 4000
		n := 0
		for range experiments {
			of := func() evidence.Series {
				s := evidence.Series{Name: "x", Unit: "s"}
				level := between * r.NormFloat64()
				for range 5 {
					s.Samples = append(s.Samples, math.Exp(level+0.02*r.NormFloat64()))
				}
				return s
			}
			c := Comparison{Margin: 0.001, Alpha: 0.05}
			if w := c.one(of(), of()).Word; w == FiguresBetter || w == FiguresWorse {
				n++
			}
		}
		return float64(n) / experiments
	}
	if share := wrong(0); share > 0.06 || share < 0.02 {
		t.Errorf("without any difference between the runs %.3f are said to differ", share)
	}
	if share := wrong(0.02); share < 0.3 {
		t.Errorf("only %.3f are said to differ: then the caution could be milder", share)
	}
}

// experiment is an experiment with a true effect, given as a logarithm, on a machine with 1 %
// noise.
func experiment(t *testing.T, r *rand.Rand, effect float64) *evidence.Run {
	t.Helper()
	d := Defaults(Metric{Name: "time", Unit: "s"})
	d.Seed, d.Most = r.Uint64(), 12
	c := Begin(d)
	var samples []Sample
	for s := c.Next(); s.Phase != Done; s = c.Next() {
		v := Sample{Step: s, Values: Values{"time": math.Exp(0.01 * r.NormFloat64())}}
		if s.Phase == Blocks && s.Arm == With {
			v.Values["time"] *= math.Exp(effect)
		}
		samples = append(samples, v)
		if err := c.Took(v.Values); err != nil {
			t.Fatal(err)
		}
	}
	e := Sum(c, EndedMost, nil, samples)
	e.Asked, e.Work = json.RawMessage("{}"), []string{"make"}
	body, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	return &evidence.Run{ID: "34", Kind: "prove", Body: body, Machine: evidence.Machine{Hardware: "0123"}}
}

// TestEffects tests that the interval of the difference of two effects contains it, whatever the
// machine's speed was each time.
func TestEffects(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	missed, found := 0, 0
	const pairs = 150
	for range pairs {
		c, err := Runs(experiment(t, r, math.Log(0.98)), experiment(t, r, math.Log(0.70)), 0.02, false)
		if err != nil {
			t.Fatal(err)
		}
		truth := 1 - 0.70/0.98
		if i := c.Effects.Interval; i != nil && (i[0] > truth || i[1] < truth) {
			missed++
		}
		if c.Effects.Word == FiguresBetter {
			found++
		}
		if c.Effects.Word == FiguresWorse || c.Effects.Word == Alike {
			t.Errorf("%+v", c.Effects)
		}
	}
	if missed > pairs/20 || found < pairs/2 {
		t.Errorf("of %d the truth was missed in %d, and found in %d", pairs, missed, found)
	}
	a, b := experiment(t, r, 0), experiment(t, r, 0)
	b.Body = json.RawMessage(strings.ReplaceAll(string(b.Body), `"time"`, `"wall"`))
	if _, err := Runs(a, b, 0.02, false); err == nil || !strings.Contains(err.Error(), "measured different things: time in s and wall in s") {
		t.Error(err)
	}
}

// TestNothing tests that a comparison has no ratio if one side is 0 or almost 0. JSON cannot
// represent an infinite ratio.
func TestNothing(t *testing.T) {
	a := bench(t, 1, evidence.Series{Name: "zero", Unit: "ms", Samples: []float64{5, 6}}, evidence.Series{Name: "next", Unit: "ms", Samples: []float64{1e-300, 1e-300}},
		evidence.Series{Name: "wild", Unit: "ms", Samples: []float64{1e-300, 1}})
	b := bench(t, 2, evidence.Series{Name: "zero", Unit: "ms", Samples: []float64{0, 0}}, evidence.Series{Name: "next", Unit: "ms", Samples: []float64{1e300, 1e300}},
		evidence.Series{Name: "wild", Unit: "ms", Samples: []float64{1e-300, 1}})
	c, err := Runs(a, b, 0.02, false)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []FiguresVerdict{NoRatio, NoRatio, FiguresCannotTell} {
		if s := c.Series[i]; s.Word != want || s.Within != nil || want == NoRatio && s.Effect != nil {
			t.Errorf("%+v", s)
		}
	}
	if _, err := json.Marshal(c); err != nil {
		t.Error(err)
	}
	// A change after which nothing is left of the metric.
	r := rand.New(rand.NewPCG(5, 6))
	for _, x := range [][2]*evidence.Run{{experiment(t, r, -60), experiment(t, r, 0)}, {experiment(t, r, 0), experiment(t, r, -60)}, {experiment(t, r, -60), experiment(t, r, -60)}} {
		c, err := Runs(x[0], x[1], 0.02, false)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := json.Marshal(c); err != nil {
			t.Errorf("%v: %+v", err, c.Effects)
		}
		if e := c.Effects; e.Difference == nil && e.Word != NoRatio || e.Difference != nil && math.IsInf(*e.Difference, 0) {
			t.Errorf("%+v", e)
		}
	}
}

// TestCut tests that an incomplete run is listed as a difference.
func TestCut(t *testing.T) {
	a, b := bench(t, 1, evidence.Series{Name: "x", Samples: []float64{1, 2}}), bench(t, 2, evidence.Series{Name: "x", Samples: []float64{1, 2, 3}})
	a.Body = append([]byte(`{"cut":{"finished":25,"planned":60,"of":"measurements"},`), a.Body[1:]...)
	c, err := Runs(a, b, 0.02, false)
	if err != nil || len(c.Differing) != 1 || c.Differing[0] != (Difference{"measured", "interrupted after 25 of 60 measurements", "whole"}) {
		t.Errorf("%+v, %v", c, err)
	}
}

// TestOlderMethod: the effect of a record whose samples this version cannot evaluate is compared as
// it was recorded.
func TestOlderMethod(t *testing.T) {
	read := func(name string) (*evidence.Run, Evidence) {
		t.Helper()
		runs, err := evidence.ReadFile("../../../docs/proofs/" + name + ".json")
		if err != nil {
			t.Fatal(err)
		}
		var e Evidence
		if err := json.Unmarshal(runs[0].Body, &e); err != nil {
			t.Fatal(err)
		}
		e.Method, e.Samples[0].Phase = 2, "placebo"
		if runs[0].Body, err = json.Marshal(e); err != nil {
			t.Fatal(err)
		}
		return runs[0], e
	}
	a, first := read("puma-1-worker")
	b, second := read("puma-3-workers")
	c, err := Runs(a, b, 0.02, true)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		got  Effect
		want Evidence
	}{{c.Effects.A, first}, {c.Effects.B, second}} {
		if x.got.Judged != "evaluated by method 2; its recorded effect is compared" || *x.got.Effect != *x.want.Effect {
			t.Errorf("%+v, want %v", x.got, *x.want.Effect)
		}
	}
}
