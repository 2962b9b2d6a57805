package nodestatus

import (
	"encoding/json"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fettle.dev/fettle/kube/agent"
	"fettle.dev/fettle/kube/tuned"
)

func conditions(applied, appliedReason, degraded string) []tuned.StatusCondition {
	return []tuned.StatusCondition{
		{Type: tuned.Applied, Status: metav1.ConditionStatus(applied), Reason: appliedReason},
		{Type: tuned.Degraded, Status: metav1.ConditionStatus(degraded)},
	}
}

func TestState(t *testing.T) {
	for _, c := range []struct {
		name       string
		applied    string
		generation int64
		conditions []tuned.StatusCondition
		want       State
	}{
		{"nothing said", "", 0, nil, Pending},
		{"all is well", "p", 2, conditions("True", "AsExpected", "False"), OK},
		{"of the generation before", "p", 1, conditions("True", "AsExpected", "False"), Pending},
		{"without a generation", "p", 0, conditions("True", "AsExpected", "False"), OK},
		{"of the profile before", "o", 0, conditions("True", "AsExpected", "False"), Pending},
		{"some values", "p", 2, conditions("True", "AsExpected", "True"), Degraded},
		{"at the next boot", "o", 2, conditions("False", "Deferred", "True"), Deferred},
		{"refused", "o", 2, conditions("False", "Failed", "True"), Failed},
		{"not known", "p", 2, conditions("Unknown", "", "False"), Pending},
		{"without Degraded", "p", 2, conditions("True", "AsExpected", "False")[:1], OK},
	} {
		p := &tuned.Profile{ObjectMeta: metav1.ObjectMeta{Generation: 2}}
		p.Spec.Config.TunedProfile = "p"
		p.Status = tuned.ProfileStatus{TunedProfile: c.applied, ObservedGeneration: c.generation, Conditions: c.conditions}
		if got := stateOf(p); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestLook(t *testing.T) {
	priority := uint64(10)
	object := &tuned.Tuned{ObjectMeta: metav1.ObjectMeta{Name: "o"}}
	object.Spec.Profile = []tuned.TunedProfile{{Name: "p", Data: "[vm]\n"}}
	object.Spec.Recommend = []tuned.TunedRecommend{{Profile: "p", Priority: &priority, Match: []tuned.TunedMatch{{Label: "a"}}}}
	profile := func(name string, annotations map[string]string) tuned.Profile {
		p := tuned.Profile{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations}}
		p.Spec.Config.TunedProfile = "p"
		p.Status = tuned.ProfileStatus{TunedProfile: "p", Conditions: conditions("True", "AsExpected", "True")}
		return p
	}
	d := Look(Cluster{
		Namespace: "ns", Tuneds: []*tuned.Tuned{object},
		Nodes: []tuned.RecommendedNode{{Name: "n3"}, {Name: "n2", Labels: map[string]string{"a": ""}}, {Name: "n1", Labels: map[string]string{"a": "x"}}},
		Profiles: []tuned.Profile{
			profile("n2", nil), profile("gone", nil),
			profile("n1", map[string]string{
				"fettle.dev/rule": "the operator's words", tuned.DeferredAnnotation: "update",
				"fettle.dev/values":  `{"schema":"fettle/node-values/v1","profile":"p","values":[{"setting":"sysctl:a","verdict":"drifted","want":"1","now":"2"},{"setting":"sysctl:b","verdict":"ok"}]}`,
				"fettle.dev/history": `{"schema":"fettle/node-history/v1","switches":[{"time":"2026-11-21T08:00:00Z","to":"p","transaction":3,"by":"agent of node n1","why":"w"}]}`,
			}),
		},
	})
	if len(d.Nodes) != 3 || d.Nodes[0].Node != "n1" || d.Nodes[1].Node != "n2" || d.Nodes[2].Node != "n3" {
		t.Fatalf("%+v", d.Nodes)
	}
	n := d.Nodes[0]
	if n.State != Degraded || n.Rule != "the operator's words" || n.Computed || n.Deferred != tuned.DeferUpdate || n.Wanted != "p" || n.Applied != "p" {
		t.Errorf("%+v", n)
	}
	if len(n.Values) != 1 || n.Values[0] != (agent.Value{Setting: "sysctl:a", Verdict: "drifted", Want: "1", Now: "2"}) {
		t.Errorf("%+v", n.Values)
	}
	if len(n.History) != 1 || n.History[0].To != "p" || n.History[0].Transaction != 3 || n.History[0].Time.Hour() != 8 || len(d.Nodes[1].History) != 0 || d.Nodes[1].History == nil {
		t.Errorf("%+v", n.History)
	}
	if n := d.Nodes[1]; !n.Computed || n.Rule != `Tuned o, recommend[0] (priority 10): match[0]: node has a=""` {
		t.Errorf("%+v", n)
	}
	if n := d.Nodes[2]; n.State != None || n.Rule != "no rule of any Tuned object matches" {
		t.Errorf("%+v", n)
	}
	if d.Counts[Degraded] != 2 || d.Counts[None] != 1 || len(d.Stray) != 1 || d.Stray[0] != "gone" || d.Management != tuned.Managed {
		t.Errorf("%+v", d)
	}
	if d := Look(Cluster{Namespace: "ns", Nodes: []tuned.RecommendedNode{{Name: "n1"}}}); d.Nodes[0].Rule != "ns has no Tuned object" {
		t.Errorf("%+v", d.Nodes)
	}
	if got := values("{"); got == nil || len(got) != 0 {
		t.Errorf("%v", got)
	}
}

// TestSameWords tests that an annotation that the agents write is read.
func TestSameWords(t *testing.T) {
	text, err := json.Marshal(agent.Values{Values: []agent.Value{{Setting: "s", Verdict: "rejected", Want: "a", Now: "b", Why: "c"}, {Setting: "t", Verdict: "ok"}}})
	if err != nil {
		t.Fatal(err)
	}
	if got := values(string(text)); len(got) != 1 || got[0] != (agent.Value{Setting: "s", Verdict: "rejected", Want: "a", Now: "b", Why: "c"}) {
		t.Errorf("%s: %+v", text, got)
	}
}

// FuzzAnnotations tests that any text of an annotation is limited, and never causes an error.
func FuzzAnnotations(f *testing.F) {
	f.Add(`{"switches":[{"time":"2026-11-21T08:00:00Z","from":"a","to":"b","transaction":1}]}`)
	f.Add(`{"values":[{"setting":"a","verdict":"drifted"}]}`)
	f.Add(`{"switches":null}`)
	f.Fuzz(func(t *testing.T, text string) {
		if h := history(text); h == nil || len(h) > maxSwitches {
			t.Errorf("%d", len(h))
		}
		if v := values(text); v == nil {
			t.Error("nil")
		}
	})
}
