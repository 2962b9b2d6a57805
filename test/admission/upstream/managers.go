package upstream

import (
	"reflect"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/memorymanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/cpuset"

	"fettle.dev/fettle/kube/pod/admission"
)

// ready reports that all sources of pods are ready; the type of their set differs by release.
func ready[S any](S) bool { return true }

func newTopologyManager(m *machineInfo, s admission.Settings) (topologymanager.Manager, error) {
	return try[topologymanager.Manager](topologymanager.NewManager, m.Topology, s.TopologyManagerPolicy, s.TopologyManagerScope, s.TopologyManagerPolicyOptions)
}

func newCPUManager(s admission.Settings, m *machineInfo, reserved v1.ResourceList, dir string, affinity topologymanager.Store) (cpumanager.Manager, error) {
	cpus := cpuset.New(s.ReservedSystemCPUs.Numbers()...)
	return try[cpumanager.Manager](cpumanager.NewManager, s.CPUManagerPolicy, s.CPUManagerPolicyOptions, time.Hour, m, cpus, reserved, dir, affinity)
}

func newMemoryManager(s admission.Settings, m *machineInfo, reserved v1.ResourceList, dir string, affinity topologymanager.Store) (memorymanager.Manager, error) {
	var list []kubeletconfig.MemoryReservation
	for _, r := range s.ReservedMemory {
		limits := v1.ResourceList{}
		for name, q := range r.Limits {
			limits[v1.ResourceName(name)] = q
		}
		list = append(list, kubeletconfig.MemoryReservation{NumaNode: int32(r.NUMANode), Limits: limits})
	}
	return try[memorymanager.Manager](memorymanager.NewManager, s.MemoryManagerPolicy, m, reserved, list, dir, affinity)
}

func admit(h lifecycle.PodAdmitHandler, pod *v1.Pod, others ...*v1.Pod) lifecycle.PodAdmitResult {
	a := &lifecycle.PodAdmitAttributes{Pod: pod, OtherPods: others}
	if operation := reflect.ValueOf(a).Elem().FieldByName("Operation"); operation.IsValid() { // since 1.36
		operation.SetString("add")
	}
	return result[lifecycle.PodAdmitResult](call(h.Admit, a))
}

// Predicate makes the kubelet's last check of a pod, on a node with other pods.
func (k *Kubelet) Predicate(node *v1.Node, others []*v1.Pod, pod *v1.Pod) lifecycle.PodAdmitResult {
	return Predicate(node, others, pod, k.devices.UpdatePluginResources)
}

// Predicate makes the same check. The function devices adds devices to the node's resources.
func Predicate(node *v1.Node, others []*v1.Pod, pod *v1.Pod, devices func(*framework.NodeInfo, *lifecycle.PodAdmitAttributes) error) lifecycle.PodAdmitResult {
	h := call(lifecycle.NewPredicateAdmitHandler, func() (*v1.Node, error) { return node, nil }, evictor(), devices)
	return admit(result[lifecycle.PodAdmitHandler](h), pod, others...)
}

// Untolerated returns a taint with an effect that no toleration matches.
func Untolerated(taints []v1.Taint, tolerations []v1.Toleration, effect v1.TaintEffect) (v1.Taint, bool) {
	out := call(corev1.FindMatchingUntoleratedTaint, taints, tolerations, func(t *v1.Taint) bool { return t.Effect == effect })
	return result[v1.Taint](out), out[1].Bool()
}
