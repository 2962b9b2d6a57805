package cluster

import (
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestPod(t *testing.T) {
	yes := true
	owned := func(kind string) core.Pod {
		return core.Pod{ObjectMeta: meta.ObjectMeta{OwnerReferences: []meta.OwnerReference{{Kind: kind, Controller: &yes}}}}
	}
	static := core.Pod{ObjectMeta: meta.ObjectMeta{Annotations: map[string]string{core.MirrorPodAnnotationKey: "x"}}}
	notController := owned("DaemonSet")
	notController.OwnerReferences[0].Controller = nil
	for _, tt := range []struct {
		pod   core.Pod
		stays bool
	}{{owned("DaemonSet"), true}, {static, true}, {owned("ReplicaSet"), false}, {notController, false}, {core.Pod{}, false}} {
		if got := Stays(&tt.pod); got != tt.stays {
			t.Errorf("%+v stays: %v", tt.pod.ObjectMeta, got)
		}
	}
	for phase, want := range map[core.PodPhase]bool{"": false, core.PodPending: false, core.PodRunning: false, core.PodUnknown: false, core.PodSucceeded: true, core.PodFailed: true} {
		if got := Ended(&core.Pod{Status: core.PodStatus{Phase: phase}}); got != want {
			t.Errorf("%q has ended: %v", phase, got)
		}
	}
}

func TestNode(t *testing.T) {
	node := func(kind core.NodeConditionType, status core.ConditionStatus) *core.Node {
		return &core.Node{Status: core.NodeStatus{Conditions: []core.NodeCondition{{Type: core.NodeDiskPressure, Status: core.ConditionTrue}, {Type: kind, Status: status}}}}
	}
	if !Ready(node(core.NodeReady, core.ConditionTrue)) {
		t.Error("a node that is Ready is not")
	}
	for _, n := range []*core.Node{nil, {}, node(core.NodeReady, core.ConditionUnknown), node(core.NodeMemoryPressure, core.ConditionTrue)} {
		if Ready(n) {
			t.Errorf("it is Ready: %+v", n)
		}
	}
}

func TestNoWay(t *testing.T) {
	var n core.Node
	if got := NoWay(&n); !strings.Contains(got, "no address (status.addresses)") {
		t.Error(got)
	}
	n.Status.Addresses = []core.NodeAddress{{Type: core.NodeInternalIP, Address: "10.0.0.1"}}
	if got := NoWay(&n); got != "" {
		t.Error(got)
	}
}

func TestFirst(t *testing.T) {
	for want, names := range map[string][]string{"": nil, "a": {"a"}, "a, b": {"a", "b"}, "a, b and 1 more": {"a", "b", "c"}} {
		if got := First(names, 2); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
