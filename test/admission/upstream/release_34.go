//go:build !kubernetes_1_29 && !kubernetes_1_31 && !kubernetes_1_33 && !kubernetes_1_35 && !kubernetes_1_36 && !kubernetes_1_37

package upstream

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/memorymanager"
	memorystate "k8s.io/kubernetes/pkg/kubelet/cm/memorymanager/state"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/config"
	"k8s.io/kubernetes/pkg/kubelet/kubeletconfig/configfiles"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"

	"fettle.dev/fettle/kube/pod/admission"
)

// Release is the one whose managers run here.
const Release admission.Release = 34

// Suffix is that of the names of its example files.
const Suffix = ""

func newMemoryManager(policy string, m *machineInfo, reserved v1.ResourceList, list []kubeletconfig.MemoryReservation, dir string, affinity topologymanager.Store) (memorymanager.Manager, error) {
	return memorymanager.NewManager(context.Background(), policy, m, reserved, list, dir, affinity)
}

func newMemoryNone() memorymanager.Policy { return memorymanager.NewPolicyNone(context.Background()) }

func newMemoryStatic(m *machineInfo, reserved map[int]map[v1.ResourceName]uint64, affinity topologymanager.Store) (memorymanager.Policy, error) {
	return memorymanager.NewPolicyStatic(context.Background(), m, reserved, affinity)
}

func newMemoryState() memorystate.State { return memorystate.NewMemoryState(klog.Background()) }

func startMemory(p memorymanager.Policy, s memorystate.State) error {
	return p.Start(context.Background(), s)
}

func startManagers(f *Files, active func() []*v1.Pod, ready config.SourcesReady) error {
	if err := f.CPU.Start(active, ready, noStatus{}, nil, containermap.NewContainerMap()); err != nil {
		return err
	}
	return f.Memory.Start(context.Background(), active, ready, noStatus{}, nil, containermap.NewContainerMap())
}

func removeMemory(k *Kubelet, pod, container string) {
	k.memory.RemoveContainer(context.Background(), k.Memory, pod, container)
}

// nobodyElse evicts no pod.
type nobodyElse struct{}

func (nobodyElse) HandleAdmissionFailure(_ context.Context, _ *v1.Pod, why []lifecycle.PredicateFailureReason) ([]lifecycle.PredicateFailureReason, error) {
	return why, nil
}

type memoryProvider struct{ *Kubelet }

func (p memoryProvider) GetTopologyHints(pod *v1.Pod, c *v1.Container) map[string][]topologymanager.TopologyHint {
	return p.memory.GetTopologyHints(context.Background(), p.Memory, pod, c)
}

func (p memoryProvider) GetPodTopologyHints(pod *v1.Pod) map[string][]topologymanager.TopologyHint {
	return p.memory.GetPodTopologyHints(context.Background(), p.Memory, pod)
}

func (p memoryProvider) Allocate(pod *v1.Pod, c *v1.Container) error {
	return p.memory.Allocate(context.Background(), p.Memory, pod, c)
}

func load(ctx context.Context, l configfiles.Loader) (*kubeletconfig.KubeletConfiguration, error) {
	return l.Load(ctx)
}
