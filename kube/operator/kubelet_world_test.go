package operator

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"fettle.dev/fettle/kube/kubelet"
)

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

func config(name, fields string) kubelet.KubeletConfig {
	return kubelet.KubeletConfig{
		ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 1},
		Spec: kubelet.KubeletConfigSpec{
			MachineConfigPoolSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubelet": "large"}},
			KubeletConfig:             &runtime.RawExtension{Raw: []byte(fields)},
		},
	}
}

func kubeletPool(name, label string, most intstr.IntOrString) kubelet.KubeletPool {
	return kubelet.KubeletPool{
		ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 1, Labels: map[string]string{"kubelet": "large"}},
		Spec: kubelet.KubeletPoolSpec{
			NodeSelector:   &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: label, Operator: metav1.LabelSelectorOpExists}}},
			MaxUnavailable: &most,
		},
	}
}

func kubeletNode(name string, labels ...string) core.Node {
	n := core.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
	for _, l := range labels {
		n.Labels[l] = ""
	}
	n.Status.Conditions = []core.NodeCondition{{Type: core.NodeReady, Status: core.ConditionTrue}}
	return n
}

// world is a cluster to which plans are applied, and whose agents the test simulates.
type world struct {
	*testing.T
	Cluster
	uids int
}

func newWorld(t *testing.T, nodes int, most intstr.IntOrString, configs ...kubelet.KubeletConfig) *world {
	w := &world{T: t, Cluster: Cluster{Configs: configs, Pools: []kubelet.KubeletPool{kubeletPool("workers", "worker", most)}, Now: noon, Silent: map[string]bool{}}}
	for i := range nodes {
		w.Nodes = append(w.Nodes, kubeletNode(fmt.Sprintf("n%d", i+1), "worker"))
	}
	return w
}

func (w *world) kubelet(name string) *kubelet.NodeKubelet {
	return find(w.Kubelets, name, func(k *kubelet.NodeKubelet) string { return k.Name })
}

func (w *world) node(name string) *core.Node {
	return find(w.Nodes, name, func(n *core.Node) string { return n.Name })
}

// step decides once, writes the result, and returns the nodes that started.
func (w *world) step() (began []string) {
	w.Helper()
	p := Of(w.Cluster)
	for _, k := range p.Remove {
		w.Kubelets = slices.DeleteFunc(w.Kubelets, func(o kubelet.NodeKubelet) bool { return o.Name == k.Name })
	}
	for _, k := range p.Make {
		if w.kubelet(k.Name) != nil {
			w.Fatalf("%s is made twice", k.Name)
		}
		w.Kubelets = append(w.Kubelets, k)
	}
	for _, k := range append(p.Move, p.Begin...) {
		*w.kubelet(k.Name) = k
	}
	for _, k := range p.Begin {
		began = append(began, k.Name)
	}
	w.Pools, w.Configs = p.Pools, p.Configs
	return began
}

// started returns a world whose agents have all reported that they are present.
func (w *world) started() *world {
	w.Helper()
	w.step()
	for i := range w.Kubelets {
		w.Kubelets[i].Status.Phase = kubelet.Settled
	}
	return w
}

// done simulates the report of an agent.
func (w *world) done(names ...string) {
	for _, name := range names {
		k := w.kubelet(name)
		k.Status = kubelet.NodeKubeletStatus{Turn: k.Spec.Turn, Phase: kubelet.Settled, Has: k.Spec.Digest, Tried: k.Spec.Digest}
	}
}

func (w *world) ended(name string, phase kubelet.NodePhase, why string) {
	k := w.kubelet(name)
	k.Status = kubelet.NodeKubeletStatus{Turn: k.Spec.Turn, Phase: phase, Has: k.Status.Has, Tried: k.Spec.Digest, Message: why}
}

// begin checks which nodes start now.
func (w *world) begin(want ...string) {
	w.Helper()
	if got := w.step(); !slices.Equal(got, want) {
		w.Errorf("begin: %v, want %v", got, want)
	}
}

// says checks a condition of a pool: "Degraded True NodeFailed", and words of its message.
func (w *world) says(pool, condition string, words ...string) {
	w.Helper()
	p := find(w.Pools, pool, func(p *kubelet.KubeletPool) string { return p.Name })
	kind, _, _ := strings.Cut(condition, " ")
	c := meta.FindStatusCondition(p.Status.Conditions, kind)
	if c == nil || fmt.Sprintf("%s %s %s", c.Type, c.Status, c.Reason) != condition {
		w.Errorf("pool %s: %+v, want %s", pool, c, condition)
		return
	}
	for _, word := range words {
		if !strings.Contains(c.Message, word) {
			w.Errorf("pool %s: %s: %q, want %q", pool, kind, c.Message, word)
		}
	}
}
