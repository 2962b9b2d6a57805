package load

import (
	"math"
	"testing"
	"time"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/kube/load/plan"
	"fettle.dev/fettle/kube/load/run"
)

// TestSeries tests that the samples show a run that becomes slower in its second half, and that few
// objects give one sample.
func TestSeries(t *testing.T) {
	l := &plan.Load{Stages: []plan.Stage{{At: "f:1", Prefix: "n", Iterations: 1, PerNamespace: 1, IfExists: plan.Fail, Groups: []plan.Group{{
		At: "f:2", File: "t", Count: 4000, Text: "{apiVersion: v1, kind: ConfigMap, metadata: {name: 'm{{.Replica}}'}}",
	}}}}}
	p, err := plan.Compile(t.Context(), l, "run", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer := func(m *Meter, i int) {
		due := time.Unix(1000, 0).Add(time.Duration(i) * 2 * time.Millisecond)
		took := 10 * time.Millisecond
		if i >= 2000 {
			took = 20 * time.Millisecond
		}
		if i%100 == 99 { // one in a hundred
			took *= 5
		}
		m.Answer(run.Answer{Object: i, Due: due, Sent: due, End: due.Add(took), Was: run.Created})
	}
	m := New(p)
	for i := range 4000 {
		answer(m, i)
	}
	by := map[string]evidence.Series{}
	for _, s := range m.Series() {
		by[s.Name] = s
	}
	median, made := by["create p50"], by["made"]
	if len(by) != 3 || len(median.Samples) != parts || len(by["create p99"].Samples) != parts || len(made.Samples) != parts || !made.More || median.More {
		t.Fatalf("%+v", by)
	}
	for i, want := range []float64{0: 0.01, 9: 0.01, 10: 0.02, 19: 0.02} {
		if want > 0 && math.Abs(median.Samples[i]-want) > 1e-6 {
			t.Errorf("part %d: %v, want %v", i, median.Samples[i], want)
		}
	}
	if s := by["create p99"].Samples; s[0] <= 0.01 || s[0] > 0.05 {
		t.Errorf("%v", s)
	}
	if x := made.Samples[5]; math.Abs(x-500) > 5 {
		t.Errorf("%v a second, want 500", made.Samples)
	}
	few := New(p)
	for i := range 30 {
		answer(few, i)
	}
	if s := few.Series(); len(s) != 2 || len(s[0].Samples) != 1 || s[1].Name != "made" {
		t.Errorf("%+v", s)
	}
	if s := New(p).Series(); len(s) != 0 {
		t.Errorf("of nothing: %+v", s)
	}
}
