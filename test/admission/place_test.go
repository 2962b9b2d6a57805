package admission

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"fettle.dev/fettle/kube/pod/admission"
	"fettle.dev/fettle/kube/pod/admission/podfile"
	"fettle.dev/fettle/test/admission/upstream"
)

// requirement is one of a node's labels, or of its name.
func (d dice) requirement(key string) v1.NodeSelectorRequirement {
	r := v1.NodeSelectorRequirement{Key: key, Operator: one(d, v1.NodeSelectorOpIn, v1.NodeSelectorOpNotIn, v1.NodeSelectorOpExists, v1.NodeSelectorOpDoesNotExist, v1.NodeSelectorOpGt, v1.NodeSelectorOpLt)}
	if key == "metadata.name" {
		r.Operator, r.Values = one(d, v1.NodeSelectorOpIn, v1.NodeSelectorOpNotIn), []string{one(d, "n1", "n2")}
		return r
	}
	switch r.Operator {
	case v1.NodeSelectorOpIn, v1.NodeSelectorOpNotIn:
		r.Values = []string{one(d, "1", "2", "x"), one(d, "3", "")}
	case v1.NodeSelectorOpGt, v1.NodeSelectorOpLt:
		r.Values = []string{one(d, "0", "1", "2")}
	}
	return r
}

// restricted is a pod that is particular about its node.
func (d dice) restricted() *v1.Pod {
	p := &v1.Pod{ObjectMeta: meta.ObjectMeta{Name: "p", Namespace: "default", UID: "p"}}
	if d.chance(20) {
		p.Spec.NodeName = one(d, "n1", "n1", "n2")
	}
	if d.chance(30) {
		p.Spec.NodeSelector = map[string]string{one(d, "a", "b", "c"): one(d, "1", "2", "x", "")}
	}
	if d.chance(40) {
		s := &v1.NodeSelector{}
		for range d.between(0, 2) {
			var t v1.NodeSelectorTerm
			for range d.between(0, 2) {
				t.MatchExpressions = append(t.MatchExpressions, d.requirement(one(d, "a", "b", "c")))
			}
			if d.chance(20) {
				t.MatchFields = append(t.MatchFields, d.requirement("metadata.name"))
			}
			s.NodeSelectorTerms = append(s.NodeSelectorTerms, t)
		}
		p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: s}}
	}
	for range d.between(0, 2) {
		p.Spec.Tolerations = append(p.Spec.Tolerations, v1.Toleration{
			Key: one(d, "k", "l", ""), Operator: one(d, v1.TolerationOpEqual, v1.TolerationOpExists, ""), Value: one(d, "", "v"),
			Effect: one(d, v1.TaintEffectNoSchedule, v1.TaintEffectNoExecute, ""),
		})
	}
	c := v1.Container{Name: "c"}
	if d.chance(30) {
		c.Ports = []v1.ContainerPort{{ContainerPort: 80, HostPort: one(d, int32(0), 80, 81), HostIP: one(d, "", "0.0.0.0", "10.0.0.1"), Protocol: one(d, v1.ProtocolTCP, v1.ProtocolUDP)}}
	}
	c.Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse(one(d, "0", "1", "3"))}
	p.Spec.Containers = []v1.Container{c}
	if d.chance(10) {
		p.Spec.OS = &v1.PodOS{Name: one(d, v1.Linux, v1.Windows)}
	}
	return p
}

// TestPlace holds the prediction of whether a pod belongs on a node against the kubelet's own
// predicates.
func TestPlace(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(3000) {
		d := newDice(seed + 1<<40)
		node := &v1.Node{ObjectMeta: meta.ObjectMeta{Name: "n1", Labels: map[string]string{"kubernetes.io/os": "linux"}}}
		for range d.between(0, 3) {
			node.Labels[one(d, "a", "b")] = one(d, "1", "2", "x", "")
		}
		for range d.between(0, 2) {
			node.Spec.Taints = append(node.Spec.Taints, v1.Taint{Key: one(d, "k", "l", v1.TaintNodeNotReady), Value: one(d, "", "v"), Effect: one(d, v1.TaintEffectNoSchedule, v1.TaintEffectNoExecute, v1.TaintEffectPreferNoSchedule)})
		}
		node.Status.Allocatable = v1.ResourceList{v1.ResourceCPU: resource.MustParse("4"), v1.ResourcePods: resource.MustParse("10")}
		other, pod := d.restricted(), d.restricted()
		other.UID, other.Name = "o", "o"
		// As plug-in DefaultTolerationSeconds has it.
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, v1.Toleration{Key: v1.TaintNodeNotReady, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute})
		in := admission.Input{
			Settings: admission.Settings{Release: upstream.Release},
			Node:     admission.Node{Name: "n1", CPUs: []admission.Processor{{Uncore: -1}}, NUMA: []admission.NUMANode{{MemoryBytes: 1 << 30}}},
			Place:    &admission.Place{Labels: node.Labels, Taints: node.Spec.Taints, Ports: podfile.HostPorts(&other.Spec)},
			Capacity: admission.CapacityOf(podfile.Resources(node.Status.Allocatable), []admission.Pod{podfile.Of(&other.Spec)}),
			Pod:      podfile.Of(&pod.Spec),
		}
		p, err := admission.Predict(in)
		if err != nil {
			t.Fatal(err)
		}
		r := upstream.Predicate(node, []*v1.Pod{other}, pod, func(*framework.NodeInfo, *lifecycle.PodAdmitAttributes) error { return nil })
		seen[fmt.Sprintf("%t %s", r.Admit, r.Reason)]++
		if (p.Verdict.Outcome == admission.Admitted) != r.Admit || p.Verdict.Reason != r.Reason {
			t.Fatalf("seed %d: the kubelet: %t %s %s; here %+v\n%+v\n%+v", seed, r.Admit, r.Reason, r.Message, p.Verdict, pod.Spec, node)
		}
		// The scheduler may put it there only where the kubelet takes it.
		if p.Scheduler == nil && !r.Admit && pod.Spec.NodeName == "" && r.Reason != admission.ReasonOS {
			t.Fatalf("seed %d: the kubelet refuses it (%s), and the scheduler would choose the node", seed, r.Reason)
		}
		taint, found := upstream.Untolerated(node.Spec.Taints, pod.Spec.Tolerations, v1.TaintEffectNoSchedule)
		if found && pod.Spec.NodeName == "" && p.Scheduler == nil {
			t.Fatalf("seed %d: the scheduler does not choose a node with %s", seed, taint.ToString())
		}
	}
	for _, want := range []string{"true ", "false OutOfcpu", "false NodeAffinity", "false NodeName", "false NodePorts", "false TaintToleration", "false PodOSNotSupported"} {
		if seen[want] < 10 {
			t.Errorf("%q is in the cases %d times: %v", want, seen[want], seen)
		}
	}
	compared(t, "nodes to belong on or not", 3000)
}
