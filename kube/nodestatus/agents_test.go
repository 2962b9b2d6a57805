package nodestatus

import (
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fettle.dev/fettle/kube/agent"
	"fettle.dev/fettle/kube/tuned"
)

var (
	morning = metav1.NewTime(time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC))
	noon    = metav1.NewTime(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC))
)

// agentPod returns an agent's pod; ready is the status of its condition Ready, "" for none.
func agentPod(name, node string, ready core.ConditionStatus, made metav1.Time) core.Pod {
	p := core.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: made}, Spec: core.PodSpec{NodeName: node}}
	p.Status.Phase = core.PodRunning
	if ready != "" {
		p.Status.Conditions = []core.PodCondition{{Type: core.PodInitialized, Status: core.ConditionTrue}, {Type: core.PodReady, Status: ready, LastTransitionTime: noon, Reason: "ContainersNotReady"}}
	}
	return p
}

func TestAgents(t *testing.T) {
	loop := agentPod("loop", "n2", core.ConditionFalse, morning)
	loop.Status.ContainerStatuses = []core.ContainerStatus{{State: core.ContainerState{Waiting: &core.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off 5m0s"}}}}
	evicted := agentPod("evicted", "n4", core.ConditionTrue, morning)
	evicted.Status.Phase = core.PodFailed
	got := Agents([]core.Pod{
		agentPod("a", "n1", core.ConditionTrue, morning), agentPod("b", "n1", core.ConditionFalse, noon), // a roll-out of the agents
		agentPod("old", "n2", core.ConditionFalse, metav1.NewTime(morning.Add(-time.Hour))), loop, agentPod("older", "n2", core.ConditionFalse, metav1.NewTime(morning.Add(-time.Minute))),
		agentPod("new", "n3", "", morning),
		evicted, agentPod("nowhere", "", core.ConditionFalse, noon),
	})
	want := map[string]Agent{
		"n1": {Pod: "a", Ready: true, Since: noon.Time},
		"n2": {Pod: "loop", Since: noon.Time, Why: "CrashLoopBackOff: back-off 5m0s"},
		"n3": {Pod: "new", Since: morning.Time},
	}
	if len(got) != len(want) {
		t.Errorf("%+v", got)
	}
	for node, a := range want {
		if got[node] != a {
			t.Errorf("%s: %+v, want %+v", node, got[node], a)
		}
	}
}

// TestAttend tests that a node whose agent has reported but does not run is not ok, whatever the
// report was.
func TestAttend(t *testing.T) {
	spoken := func(applied, degraded string) tuned.Profile {
		p := tuned.Profile{ObjectMeta: metav1.ObjectMeta{Name: "n1", Annotations: map[string]string{agent.ValuesAnnotation: `{"values":[]}`}}}
		p.Spec.Config.TunedProfile, p.Status.TunedProfile = "p", "p"
		p.Status.Conditions = conditions(applied, "", degraded)
		return p
	}
	// What another program says, which writes no annotation, is not an agent's.
	other := spoken("True", "False")
	other.Annotations = nil
	silent := tuned.Profile{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	ready := map[string]Agent{"n1": {Pod: "a", Ready: true}}
	ill := map[string]Agent{"n1": {Pod: "a", Since: noon.Time, Why: "Error"}}
	for _, c := range []struct {
		name    string
		profile *tuned.Profile
		agents  map[string]Agent
		want    State
		absent  string
	}{
		{"it runs", new(spoken("True", "False")), ready, OK, ""},
		{"nobody may look", new(spoken("True", "False")), nil, OK, ""},
		{"no pod", new(spoken("True", "False")), map[string]Agent{}, NoAgent, "its agent has no pod"},
		{"not Ready", new(spoken("True", "False")), ill, NoAgent, "its agent is not running: pod a is not Ready since 2026-11-21T12:00:00Z: Error"},
		{"degraded before", new(spoken("True", "True")), ill, NoAgent, "its agent is not running: pod a is not Ready since 2026-11-21T12:00:00Z: Error"},
		{"it was to be applied", new(spoken("Unknown", "False")), map[string]Agent{}, NoAgent, "its agent has no pod"},
		{"nothing was said yet", &silent, map[string]Agent{}, Pending, "its agent has no pod"},
		{"nothing was said yet, and it runs", &silent, ready, Pending, ""},
		{"another program", &other, map[string]Agent{}, OK, ""},
		{"no Profile", nil, map[string]Agent{}, None, ""},
	} {
		in := Cluster{Namespace: "ns", Nodes: []tuned.RecommendedNode{{Name: "n1"}}, Agents: c.agents}
		if c.profile != nil {
			in.Profiles = []tuned.Profile{*c.profile}
		}
		d := Look(in)
		n := d.Nodes[0]
		if n.State != c.want || n.Absent() != c.absent || d.Counts[c.want] != 1 {
			t.Errorf("%s: %s %q %v, want %s %q", c.name, n.State, n.Absent(), d.Counts, c.want, c.absent)
		}
	}
}
