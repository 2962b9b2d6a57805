package operator

import (
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"fettle.dev/fettle/kube/kubelet"
)

// TestKubeletLife tests a rollout to all nodes, a change of the settings during a rollout, and the
// way back.
func TestKubeletLife(t *testing.T) {
	w := newWorld(t, 3, intstr.FromInt32(2), config("a", `{"maxPods": 50}`))
	w.begin() // no agent has said anything
	if len(w.Kubelets) != 3 || w.Kubelets[0].Spec.Pool != "workers" || w.Kubelets[0].Spec.Turn != 0 {
		t.Fatalf("%+v", w.Kubelets)
	}
	w.says("workers", "Updating False Waiting", "n1: its agent has not reported yet")
	w.begin()
	for i := range w.Kubelets {
		w.Kubelets[i].Status.Phase = kubelet.Settled
	}
	w.begin("n1", "n2")
	k := w.kubelet("n1")
	if string(k.Spec.KubeletConfig.Raw) != `{"maxPods":50}` || k.Spec.Turn != 1 || k.Spec.Digest == "" || !slices.Equal(k.Spec.KubeletConfigs, []string{"a"}) || !k.Spec.Since.Equal(&metav1.Time{Time: noon}) {
		t.Errorf("%+v", k.Spec)
	}
	s := w.Pools[0].Status
	if s.Nodes != 3 || s.Updated != 0 || s.Unavailable != 2 || !slices.Equal(s.Changing, []string{"n1", "n2"}) || s.Digest != k.Spec.Digest || s.ObservedGeneration != 1 {
		t.Errorf("%+v", s)
	}
	w.says("workers", "Updating True RollingOut", "now changing: n1, n2")
	w.begin()
	w.done("n2")
	w.begin("n3")
	w.done("n1", "n3")
	w.begin()
	w.says("workers", "Updated True AllUpdated", "3 of 3")
	w.says("workers", "Updating False NothingDue")
	w.says("workers", "Degraded False AsExpected")
	if c := w.Configs[0].Status; c.ObservedGeneration != 1 || len(c.Conditions) != 2 || c.Conditions[0].Status != metav1.ConditionTrue || c.Conditions[0].Message != "it selects the pools workers" {
		t.Errorf("%+v", c)
	}

	// Other settings while some change: these are ended, and begin again.
	w.Configs[0] = config("a", `{"maxPods": 60}`)
	w.begin("n1", "n2")
	w.done("n1")
	w.Configs[0] = config("a", `{"maxPods": 70}`)
	w.begin("n1")
	w.done("n1", "n2")
	w.begin("n2", "n3")
	w.done("n2", "n3")
	w.begin()
	w.says("workers", "Updated True AllUpdated")

	// The pool goes: nodes get their own back one after the other, and the objects go.
	w.Pools = nil
	w.begin("n1")
	if k := w.kubelet("n1"); k.Spec.Pool != "" || k.Spec.Digest != "" || k.Spec.KubeletConfig != nil || k.Spec.Turn != 4 {
		t.Errorf("%+v", k.Spec)
	}
	w.begin()
	w.done("n1")
	w.begin("n2")
	w.done("n2")
	w.begin("n3")
	w.done("n3")
	w.begin()
	if len(w.Kubelets) != 0 {
		t.Errorf("left: %+v", w.Kubelets)
	}
}

// TestRemoved tests a pool that is Removed: it restores its nodes within its slots, whatever
// settings are requested and however invalid they are, respects a pause, and continues where it was
// when it is Managed again.
func TestRemoved(t *testing.T) {
	w := newWorld(t, 3, intstr.FromInt32(2), config("a", `{"maxPods": 50}`)).started()
	w.begin("n1", "n2")
	w.done("n1", "n2")
	w.begin("n3")
	w.done("n3")
	had := w.kubelet("n3").Status.Has
	w.Configs = append(w.Configs, config("b", `{"cgroupDriver": "systemd"}`))
	w.begin()
	w.says("workers", "Degraded True Refused")
	w.Pools[0].Spec.ManagementState, w.Pools[0].Spec.Paused = kubelet.Removed, true
	w.begin()
	w.says("workers", "Updated False NotAll", "0 of 3 nodes restored")
	w.says("workers", "Updating False Paused")
	w.Pools[0].Spec.Paused = false
	w.begin("n1", "n2")
	if k := w.kubelet("n1"); k.Spec.Digest != "" || k.Spec.KubeletConfig != nil || k.Spec.Pool != "workers" {
		t.Errorf("%+v", k.Spec)
	}
	w.done("n1", "n2")
	w.begin("n3")
	w.done("n3")
	w.begin()
	w.says("workers", "Updated True AllUpdated", "3 of 3 nodes restored")
	w.says("workers", "Degraded False AsExpected")
	w.Pools[0].Spec.ManagementState = kubelet.Managed
	w.Configs = w.Configs[:1]
	w.begin("n1", "n2")
	if d := w.kubelet("n1").Spec.Digest; d != had {
		t.Errorf("managed again: %s, it was %s", d, had)
	}
}

// TestLeftBehind tests nodes with settings of an earlier installation whose objects are gone: they
// are found by the agents' annotations, and restored one by one.
func TestLeftBehind(t *testing.T) {
	w := newWorld(t, 3, intstr.FromInt32(1))
	w.Pools = nil
	for _, n := range []string{"n1", "n2"} {
		w.node(n).Annotations = map[string]string{kubelet.SettingsAnnotation: "0123456789ab"}
	}
	w.ReportOnly = "another controller"
	w.begin()
	if len(w.Kubelets) != 0 {
		t.Errorf("beside another controller: %+v", w.Kubelets)
	}
	w.ReportOnly = ""
	w.begin()
	w.begin() // the agents have not said anything: the objects stay
	if len(w.Kubelets) != 2 {
		t.Fatalf("%+v", w.Kubelets)
	}
	for i := range w.Kubelets {
		w.Kubelets[i].Status = kubelet.NodeKubeletStatus{Phase: kubelet.Settled, Has: "0123456789ab"}
	}
	for _, n := range []string{"n1", "n2"} {
		w.begin(n)
		if k := w.kubelet(n); k.Spec.Digest != "" || k.Spec.Pool != "" {
			t.Errorf("%+v", k.Spec)
		}
		w.node(n).Annotations = nil
		w.done(n)
	}
	w.begin()
	w.begin()
	if len(w.Kubelets) != 0 {
		t.Errorf("left: %+v", w.Kubelets)
	}
}

// TestFailed tests that no node starts after the first failure, until the settings or the retry
// annotation change.
func TestFailed(t *testing.T) {
	w := newWorld(t, 4, intstr.FromInt32(2), config("a", `{"maxPods": 50}`)).started()
	w.begin("n1", "n2")
	w.ended("n1", kubelet.ConditionFailed, "wait for its health: the kubelet has ended")
	w.begin()
	w.says("workers", "Updating True RollingOut", "now changing: n2")
	w.done("n2") // what has begun is ended
	w.begin()
	w.says("workers", "Updating False Stopped", "failed on n1")
	w.says("workers", "Degraded True NodeFailed", "n1: wait for its health: the kubelet has ended. No other node is changed until")
	if s := w.Pools[0].Status; s.Updated != 1 || s.Unavailable != 1 {
		t.Errorf("%+v", s)
	}
	w.Pools[0].Annotations = map[string]string{kubelet.RetryAnnotation: "1"}
	w.begin("n1", "n3")
	w.ended("n1", kubelet.ConditionFailed, "again")
	w.done("n3")
	w.begin()
	w.Configs[0] = config("a", `{"maxPods": 51}`)
	w.begin("n1", "n2")

	// One that runs with neither stops everything, whatever is wanted.
	w.ended("n1", kubelet.ConditionBroken, "it does not start")
	w.done("n2")
	w.begin()
	w.Configs[0] = config("a", `{"maxPods": 52}`)
	w.begin()
	w.says("workers", "Degraded True NodeFailed", "n1: it does not start (the kubelet runs with neither these nor its former settings)")
	w.Pools[0].Annotations[kubelet.RetryAnnotation] = "2"
	w.begin()
	w.ended("n1", kubelet.ConditionFailed, "it was taken back in the end") // the agent has tried again
	w.kubelet("n1").Status.Tried = "former"
	w.begin("n1", "n2")
}

// TestHeld tests that nodes that cannot start are reported with the reason, and that the others
// continue.
func TestHeld(t *testing.T) {
	w := newWorld(t, 4, intstr.FromInt32(1), config("a", `{"maxPods": 50}`)).started()
	w.begin("n1")
	w.ended("n1", kubelet.ConditionBlocked, "nothing changed: the kubelet reads no drop-ins")
	w.begin("n2")
	w.done("n2")
	w.begin("n3")
	w.done("n3")
	w.node("n4").Spec.Unschedulable = true
	w.begin()
	w.says("workers", "Updating False Waiting", "n1: nothing changed: the kubelet reads no drop-ins", "n4: it was cordoned by another user")
	w.says("workers", "Degraded False AsExpected")
	w.node("n4").Spec.Unschedulable = false
	w.Silent["n4"] = true
	w.begin()
	w.says("workers", "Updating False Waiting", "n4: it is not Ready")
	delete(w.Silent, "n4")
	w.begin("n4")
	w.done("n4")
	w.kubelet("n1").Status.Phase = kubelet.Settled // its agent has seen that the way is free
	w.begin("n1")

	// A turn that takes too long; why it does not go on; a node that goes in its turn.
	w.kubelet("n1").Status.Waiting = "nodes is forbidden"
	w.Now = noon.Add(stuckAfter + time.Minute)
	w.begin()
	w.says("workers", "Updating True RollingOut", "n1: nodes is forbidden")
	w.says("workers", "Degraded True Stuck", "n1 changing since 2026-03-04T12:00:00Z")
	w.Nodes = w.Nodes[1:]
	w.begin()
	w.says("workers", "Degraded True Stuck", "and is gone: delete its NodeKubelet")
	if w.kubelet("n1") == nil || w.Pools[0].Status.Unavailable != 1 {
		t.Error("a node that is gone while it changes does not count")
	}
	w.Nodes = w.Nodes[1:] // n2: not changing
	w.begin()
	if w.kubelet("n2") != nil {
		t.Error("the object of a node that is gone is left")
	}
}

// TestUnclear tests that nodes keep their settings if the request is uncertain.
func TestUnclear(t *testing.T) {
	w := newWorld(t, 2, intstr.FromInt32(1), config("a", `{"maxPods": 50}`)).started()
	w.begin("n1")
	w.done("n1")
	w.begin("n2")
	w.done("n2")

	w.Configs = append(w.Configs, config("b", `{"cgroupDriver": "systemd"}`))
	w.begin()
	w.says("workers", "Degraded True Refused", "nodes unchanged: KubeletConfig b: spec.kubeletConfig.cgroupDriver")
	w.says("workers", "Updated Unknown Refused", "unknown, because the requested settings are refused")
	if c := w.Configs[1].Status.Conditions; len(c) != 2 || c[0].Status != metav1.ConditionFalse || c[1].Type != kubelet.Failure || c[1].Status != metav1.ConditionTrue || !strings.Contains(c[1].Message, "cgroupDriver") {
		t.Errorf("%+v", c)
	}
	if c := w.Configs[0].Status.Conditions; c[0].Status != metav1.ConditionTrue {
		t.Errorf("%+v", c)
	}
	w.Configs = w.Configs[:1]

	// Two pools.
	w.Pools = append(w.Pools, kubeletPool("infra", "infra", intstr.FromInt32(1)))
	w.node("n2").Labels["infra"] = ""
	w.Configs[0] = config("a", `{"maxPods": 60}`)
	w.begin("n1")
	w.says("workers", "Degraded True Conflict", "n2: in several pools: infra and workers; only one may select it")
	w.says("infra", "Degraded True Conflict", "n2: ")
	if k := w.kubelet("n2"); k.Spec.Pool != "workers" || k.Spec.Turn != 1 {
		t.Errorf("%+v", k.Spec)
	}
	delete(w.node("n2").Labels, "worker")
	w.done("n1")
	w.begin("n2")
	if k := w.kubelet("n2"); k.Spec.Pool != "infra" {
		t.Errorf("%+v", k.Spec)
	}

	// maxUnavailable that is invalid, paused, a selector that cannot be read.
	w.done("n2")
	many := intstr.FromString("many")
	w.Pools[1].Spec.MaxUnavailable = &many
	w.Pools[0].Spec.Paused = true
	w.Configs[0] = config("a", `{"maxPods": 70}`)
	w.begin()
	w.says("workers", "Degraded True Refused", `maxUnavailable is "many"`)
	w.says("infra", "Updating False Paused", "the pool is paused")
	w.says("infra", "Degraded False AsExpected")
	w.Pools[0].Spec.Paused = false
	w.Pools[0].Spec.NodeSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Like"}}}
	w.begin()
	w.says("infra", "Degraded True Refused", "nodeSelector selects nothing")
	if k := w.kubelet("n2"); k == nil || k.Spec.Pool != "infra" {
		t.Errorf("a selector that cannot be read takes the pool from its nodes: %+v", k)
	}
}

// TestReleaseRefuses tests that no node gets a turn while the kubelet of one node would not start
// with the settings. The rollout continues with a newer kubelet, other settings, or another pool
// for that node.
func TestReleaseRefuses(t *testing.T) {
	const option = `{"cpuManagerPolicy": "static", "reservedSystemCPUs": "0", "cpuManagerPolicyOptions": {"strict-cpu-reservation": "true"}}`
	w := newWorld(t, 3, intstr.FromInt32(3), config("a", `{"maxPods": 50}`)).started()
	for name, version := range map[string]string{"n1": "v1.36.3", "n2": "v1.31.14", "n3": "v1.36.3"} {
		w.node(name).Status.NodeInfo.KubeletVersion = version
	}
	w.begin("n1", "n2", "n3")
	w.done("n1", "n2", "n3")
	w.Configs[0] = config("a", option)
	w.begin()
	w.says("workers", "Degraded True Refused", `nodes unchanged: n2 (kubelet v1.31.14) would not start: cpuManagerPolicyOptions: Kubernetes 1.31 has no option "strict-cpu-reservation"`)
	w.says("workers", "Updated Unknown Refused")
	for _, k := range w.Kubelets {
		if k.Changing() || k.Status.Has == "" {
			t.Errorf("%s: %+v", k.Name, k)
		}
	}
	w.node("n2").Status.NodeInfo.KubeletVersion = "v1.32.13" // it has the option: its gate is the agent's to look at
	w.begin("n1", "n2", "n3")
	w.says("workers", "Degraded False AsExpected")
	w.done("n1", "n2", "n3")

	// A node of an older release joins: those that have the settings keep them.
	w.Nodes = append(w.Nodes, kubeletNode("n4", "worker"))
	w.node("n4").Status.NodeInfo.KubeletVersion = "v1.30.14"
	w.begin()
	w.says("workers", "Degraded True Refused", "n4 (kubelet v1.30.14)")
	delete(w.node("n4").Labels, "worker")
	w.begin()
	w.says("workers", "Updated True AllUpdated", "3 of 3")

	// A node that runs with the settings is not asked again, whatever its version says.
	w.node("n1").Status.NodeInfo.KubeletVersion = "v1.31.14"
	w.begin()
	w.says("workers", "Degraded False AsExpected")

	// A pool that is Removed gives back on any release.
	w.node("n4").Labels["worker"] = ""
	w.Pools[0].Spec.ManagementState = kubelet.Removed
	w.begin("n1", "n2", "n3")
}

// TestAnew tests a machine that was reinstalled under the same name: it has no settings, reports
// this, and gets a turn.
func TestAnew(t *testing.T) {
	w := newWorld(t, 1, intstr.FromInt32(1), config("a", `{"maxPods": 50}`)).started()
	w.begin("n1")
	w.done("n1")
	w.begin()
	w.kubelet("n1").Status.Has = ""
	w.begin("n1")
	if k := w.kubelet("n1"); k.Spec.Turn != 2 {
		t.Errorf("%+v", k.Spec)
	}
}

// TestKubeletReportOnly tests that only the status of pools is written while another controller
// exists.
func TestKubeletReportOnly(t *testing.T) {
	w := newWorld(t, 2, intstr.FromInt32(1), config("a", `{"maxPods": 50}`))
	w.ReportOnly = "the Machine Config Operator (MachineConfigPool worker exists)"
	w.begin()
	if len(w.Kubelets) != 0 {
		t.Errorf("%+v", w.Kubelets)
	}
	w.says("workers", "Updating False ReportOnly", "KubeletConfig objects belong to the Machine Config Operator (MachineConfigPool worker exists)", "--adopt")
	w.ReportOnly = ""
	w.started().begin("n1")
	w.done("n1")
	w.ReportOnly = "somebody"
	w.begin()
	if w.Pools[0].Status.Unavailable != 0 {
		t.Errorf("%+v", w.Pools[0].Status)
	}
}

// TestOrderOfMessages tests that the order of nodes does not change the text, and that a changed
// text is written.
func TestOrderOfMessages(t *testing.T) {
	for reason, do := range map[string]func(w *world){
		Conflict: func(w *world) { w.Pools = append(w.Pools, kubeletPool("too", "worker", intstr.FromInt32(1))) },
		NodeFailed: func(w *world) {
			for _, n := range []string{"n1", "n2", "n3"} {
				w.ended(n, kubelet.ConditionFailed, "the kubelet has ended")
			}
		},
		Stuck: func(w *world) { w.Now = w.Now.Add(stuckAfter + time.Minute) },
	} {
		w := newWorld(t, 3, intstr.FromInt32(3), config("a", `{"maxPods": 50}`)).started()
		w.begin("n1", "n2", "n3")
		do(w)
		text := ""
		for _, order := range [][]int{{0, 1, 2}, {2, 0, 1}, {1, 2, 0}, {2, 1, 0}} {
			in := w.Cluster
			in.Nodes = nil
			for _, i := range order {
				in.Nodes = append(in.Nodes, w.Nodes[i])
			}
			pools := Of(in).Pools
			i := slices.IndexFunc(pools, func(p kubelet.KubeletPool) bool { return p.Name == "workers" })
			c := meta.FindStatusCondition(pools[i].Status.Conditions, kubelet.Degraded)
			if text == "" {
				text = c.Message
			}
			if c.Reason != reason || c.Message != text || !strings.HasPrefix(c.Message, "n1") {
				t.Errorf("%s, nodes %v: %s %q, and it was %q", reason, order, c.Reason, c.Message, text)
			}
		}
	}
}
