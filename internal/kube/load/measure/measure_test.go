package measure

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"fettle.dev/fettle/internal/kube/load/drive"
	"fettle.dev/fettle/internal/kube/load/follow"
	"fettle.dev/fettle/internal/kube/load/journal"
	"fettle.dev/fettle/internal/kube/load/plan"
	"fettle.dev/fettle/internal/kube/load/spec"
)

// TestPods: a pod's times begin with the call that made it, with the first one where it is
// not known which; of a pod that was found, nobody knows when they began.
func TestPods(t *testing.T) {
	l := &spec.Load{Stages: []spec.Stage{{At: "f:1", Prefix: "n", Iterations: 1, PerNamespace: 1, IfExists: spec.Fail, Groups: []spec.Group{{
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
		a := drive.Answer{Object: i, Due: at(0), Sent: at(5), End: at(6), Was: journal.Created}
		switch p.Name(i) {
		case "p1":
			a.Asked = at(1)
		case "p2":
			a.Asked, a.Found = at(1), true
		}
		m.Answer(a)
		k := follow.Key{Kind: "Pod", Namespace: p.Namespace(i), Name: p.Name(i)}
		m.Pod(k, "scheduled", at(7))
		m.Pod(k, "ready", at(9))
	}
	x := m.Times()
	if x.Create.N != 2 || math.Abs(x.Create.MaxS-6) > 0.01 || x.Ready.N != 2 || x.Ready.MaxS < 7.9 || x.Ready.MaxS > 8.1 || x.Scheduled.N != 2 || x.Ready.P50S > 4.1 {
		t.Errorf("%+v", x)
	}
}
