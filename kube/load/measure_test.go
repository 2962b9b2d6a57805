package load

import (
	"encoding/json"
	"fmt"
	"math"
	"testing"
	"time"

	"fettle.dev/fettle/kube/load/plan"
	"fettle.dev/fettle/kube/load/run"
)

// TestPods tests that a pod's times begin with the call that created it, or with the first call if
// that is unknown. For a pod that existed already, the beginning is unknown.
func TestPods(t *testing.T) {
	l := &plan.Load{Stages: []plan.Stage{{At: "f:1", Prefix: "n", Iterations: 1, PerNamespace: 1, IfExists: plan.Fail, Groups: []plan.Group{{
		At: "f:2", File: "t", Count: 3, Template: json.RawMessage(`{"kind":"Template","apiVersion":"v1","parameters":[{"name":"IDENTIFIER"}],"objects":[{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p${IDENTIFIER}"}}]}`),
	}}}}}
	p, err := plan.Compile(t.Context(), l, "run", nil)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Unix(1000, 0)
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	m := New(p)
	for i := range p.Len() {
		if p.Kind(i).Kind != "Pod" {
			continue
		}
		a := run.Answer{Object: i, Due: at(0), Sent: at(5), End: at(6), Was: run.Created}
		switch p.Name(i) {
		case "p1":
			a.Asked = at(1)
		case "p2":
			a.Asked, a.Found = at(1), true
		}
		m.Answer(a)
		k := run.Key{Kind: "Pod", Namespace: p.Namespace(i), Name: p.Name(i)}
		m.Pod(run.Seen{Key: k, What: "scheduled", At: at(7)})
		m.Pod(run.Seen{Key: k, What: "ready", At: at(9)})
	}
	x := m.Times()
	if x.Create.N != 2 || math.Abs(x.Create.MaxS-6) > 0.01 || x.Ready.N != 2 || x.Ready.MaxS < 7.9 || x.Ready.MaxS > 8.1 || x.Scheduled.N != 2 || x.Ready.P50S > 4.1 {
		t.Errorf("%+v", x)
	}
}

// TestControllersPods tests that pods of controllers are measured with the API's whole seconds, and
// that values below their accuracy are not reported.
func TestControllersPods(t *testing.T) {
	l := &plan.Load{Stages: []plan.Stage{{At: "f:1", Prefix: "n", Iterations: 1, PerNamespace: 1, Groups: []plan.Group{{At: "f:2", Count: 1, Manifest: json.RawMessage(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d"},"spec":{"replicas":400}}`)}}}}}
	p, err := plan.Compile(t.Context(), l, "r1", nil)
	if err != nil {
		t.Fatal(err)
	}
	gate := func(text string) *Gate {
		g, err := ParseGate(text)
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	if a := AnswersOf(p, nil); a.Pods != 400 || gate("ready p99 < 5s").TooFew(a) != "" {
		t.Errorf("%+v", a)
	}
	m := New(p)
	for i := range 400 {
		took := 3 * time.Second
		if i > 390 {
			took = 4 * time.Second
		}
		k := run.Key{Kind: "Pod", Namespace: "n0", Name: fmt.Sprint("d-", i)}
		m.Pod(run.Seen{Key: k, What: "scheduled", At: time.Unix(9, 0), Owned: true, Took: 0})
		m.Pod(run.Seen{Key: k, What: "ready", At: time.Unix(9, 0), Owned: true, Took: took})
	}
	m.Pod(run.Seen{What: "ready", At: time.Unix(9, 0), Owned: true, Took: -1}) // no timestamps
	times := m.Times()
	if times.Ready.N != 400 || times.Scheduled.N != 400 || times.WholeSeconds != (WholeSeconds{400, 400}) || times.Ready.MaxS < 3.9 || times.Ready.MaxS > 4.1 {
		t.Errorf("%+v", times)
	}
	for text, want := range map[string]string{
		"ready p99 <= 5s": "met", "ready p99 < 5s": "met", "ready p99 <= 4s": "unknown", "ready p99 < 4500ms": "unknown", "ready p99 <= 3500ms": "unknown", "ready p99 < 2s": "missed",
		"ready p50 <= 4s": "met", "scheduled max < 1s": "met", "scheduled max < 500ms": "unknown",
	} {
		r := m.Judge([]*Gate{gate(text)}, &run.DriveOutcome{Created: 2})[0]
		got := map[[2]bool]string{{true, false}: "met", {false, true}: "unknown", {false, false}: "missed"}[[2]bool{r.Met, r.Unknown}]
		if got != want {
			t.Errorf("%s: %s (%s), want %s", text, got, r.Text, want)
		}
	}
}
