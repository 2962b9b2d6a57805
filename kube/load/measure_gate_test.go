package load

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/kube/load/plan"
	"fettle.dev/fettle/kube/load/run"
)

// TestTooFew tests that the forecast for a plan equals the verdict of a run with that many
// measurements.
func TestTooFew(t *testing.T) {
	for _, c := range []struct {
		gate string
		pods int
		want string // "" for enough
	}{
		{"ready p99 <= 5s", 100, "ready p99 <= 5s cannot be judged: cannot tell from 100 answers: 300 are needed; p95 can be"},
		{"ready p99 <= 5s", 299, "cannot tell from 299 answers"},
		{"ready p99 <= 5s", 300, ""},
		{"scheduled p95 < 1s", 59, "p90 can be"},
		{"scheduled p95 < 1s", 60, ""},
		{"create p99 < 1s", 298, "299 answers"}, // with the namespace
		{"create p99 < 1s", 299, ""},
		{"ready p50 < 1s", 2, "ready p50 < 1s will not be met: cannot tell from 2 answers: 6 are needed"},
		{"ready max < 1s", 0, "cannot tell from 0 answers: 1 is needed"},
		{"errors < 1%", 0, ""},
		{"rate > 1/s", 0, ""},
	} {
		l := &plan.Load{Stages: []plan.Stage{{At: "f:1", Prefix: "n", Iterations: 1, PerNamespace: 1, Groups: []plan.Group{{
			At: "f:2", File: "t", Count: c.pods, Template: json.RawMessage(`{"kind":"Template","apiVersion":"v1","parameters":[{"name":"IDENTIFIER"}],"objects":[{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p${IDENTIFIER}"}}]}`),
		}}}}}
		p, err := plan.Compile(t.Context(), l, "r1", nil)
		if err != nil {
			t.Fatal(err)
		}
		g, err := ParseGate(c.gate)
		if err != nil {
			t.Fatal(err)
		}
		got := g.TooFew(AnswersOf(p, nil))
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s of %d pods: %q, want %q", c.gate, c.pods, got, c.want)
		}
		m, now := New(p), time.Unix(1, 0)
		for i := range p.Len() {
			m.Answer(run.Answer{Object: i, Due: now, Sent: now, End: now.Add(time.Millisecond), Was: run.Created})
			k := run.Key{Kind: "Pod", Namespace: p.Namespace(i), Name: p.Name(i)}
			if p.Kind(i).Kind == "Pod" {
				m.Pod(run.Seen{Key: k, What: "scheduled", At: now.Add(time.Millisecond)})
				m.Pod(run.Seen{Key: k, What: "ready", At: now.Add(time.Millisecond)})
			}
		}
		if r := m.Judge([]*Gate{g}, &run.DriveOutcome{Created: p.Len()})[0]; r.Unknown != (got != "") || r.Unknown && !strings.Contains(got, r.Text) {
			t.Errorf("%s of %d pods: foretold %q, judged %+v", c.gate, c.pods, got, r)
		}
	}
}
