//go:build kubernetes_1_35 || kubernetes_1_36

package upstream

import (
	"context"
	"time"
	_ "unsafe" // for go:linkname

	"fettle.dev/fettle/kube/pod/admission"
	cadvisor "github.com/google/cadvisor/info/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
	cpustate "k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/state"
	cputopology "k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/topology"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	deviceplugin "k8s.io/kubernetes/pkg/kubelet/cm/devicemanager/plugin/v1beta1"
	"k8s.io/kubernetes/pkg/kubelet/cm/memorymanager"
	memorystate "k8s.io/kubernetes/pkg/kubelet/cm/memorymanager/state"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/config"
	"k8s.io/kubernetes/pkg/kubelet/kubeletconfig/configfiles"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/cpuset"
)

// newDeviceManager is the constructor beneath devicemanager.NewManagerImpl, which has
// its socket and its file in /var/lib/kubelet; this one has them where it is told.
//
//go:linkname newDeviceManager k8s.io/kubernetes/pkg/kubelet/cm/devicemanager.newManagerImpl
func newDeviceManager(logger klog.Logger, socket string, nodes []cadvisor.Node, affinity topologymanager.Store) (*devicemanager.ManagerImpl, error)

func newDevices(socket string, m *machineInfo, affinity topologymanager.Store) (*devicemanager.ManagerImpl, error) {
	return newDeviceManager(klog.Background(), socket, m.Topology, affinity)
}

func newTopologyManager(m *machineInfo, s admission.Settings) (topologymanager.Manager, error) {
	return topologymanager.NewManager(m.Topology, s.TopologyManagerPolicy, s.TopologyManagerScope, s.TopologyManagerPolicyOptions)
}

func discover(m *machineInfo) (*cputopology.CPUTopology, error) {
	return cputopology.Discover(klog.Background(), m)
}

func newCPUManager(s admission.Settings, m *machineInfo, cpus cpuset.CPUSet, reserved v1.ResourceList, dir string, affinity topologymanager.Store) (cpumanager.Manager, error) {
	return cpumanager.NewManager(klog.Background(), s.CPUManagerPolicy, s.CPUManagerPolicyOptions, time.Hour, m, cpus, reserved, dir, affinity)
}

func newStaticPolicy(t *cputopology.CPUTopology, number int, cpus cpuset.CPUSet, affinity topologymanager.Store, options map[string]string) (cpumanager.Policy, error) {
	return cpumanager.NewStaticPolicy(klog.Background(), t, number, cpus, affinity, options)
}

func newCPUState() cpustate.State { return cpustate.NewMemoryState(klog.Background()) }

func newMemoryManager(policy string, m *machineInfo, reserved v1.ResourceList, list []kubeletconfig.MemoryReservation, dir string, affinity topologymanager.Store) (memorymanager.Manager, error) {
	return memorymanager.NewManager(klog.Background(), policy, m, reserved, list, dir, affinity)
}

func newMemoryNone() memorymanager.Policy { return memorymanager.NewPolicyNone(klog.Background()) }

func newMemoryStatic(m *machineInfo, reserved map[int]map[v1.ResourceName]uint64, affinity topologymanager.Store) (memorymanager.Policy, error) {
	return memorymanager.NewPolicyStatic(klog.Background(), m, reserved, affinity)
}

func newMemoryState() memorystate.State { return memorystate.NewMemoryState(klog.Background()) }

func startCPU(p cpumanager.Policy, s cpustate.State) error { return p.Start(klog.Background(), s) }

func startMemory(p memorymanager.Policy, s memorystate.State) error {
	return p.Start(klog.Background(), s)
}

func startManagers(f *Files, active func() []*v1.Pod, ready config.SourcesReady) error {
	if err := f.CPU.Start(context.Background(), active, ready, noStatus{}, nil, containermap.NewContainerMap()); err != nil {
		return err
	}
	return f.Memory.Start(context.Background(), active, ready, noStatus{}, nil, containermap.NewContainerMap())
}

func startDevices(m *devicemanager.ManagerImpl, active func() []*v1.Pod, ready config.SourcesReady) error {
	return m.Start(klog.Background(), active, ready, containermap.NewContainerMap(), sets.New[string]())
}

func connect(m *devicemanager.ManagerImpl, resource string, p deviceplugin.DevicePlugin) error {
	return m.PluginConnected(context.Background(), resource, p)
}

func receive(m *devicemanager.ManagerImpl, resource string, list *v1beta1.ListAndWatchResponse) {
	m.PluginListAndWatchReceiver(klog.Background(), resource, list)
}

func allocate(m *devicemanager.ManagerImpl, pod *v1.Pod, c *v1.Container) error {
	return m.Allocate(pod, c)
}

func updateAllocated(m *devicemanager.ManagerImpl) { m.UpdateAllocatedDevices() }

func stopDevices(m *devicemanager.ManagerImpl) { _ = m.Stop(klog.Background()) }

func addProvider(t topologymanager.Manager, p topologymanager.HintProvider) {
	t.AddHintProvider(klog.Background(), p)
}

func affinityOf(t topologymanager.Manager, pod, container string) topologymanager.TopologyHint {
	return t.GetAffinity(pod, container)
}

func admit(t topologymanager.Manager, pod *v1.Pod) lifecycle.PodAdmitResult {
	return t.Admit(&lifecycle.PodAdmitAttributes{Pod: pod})
}

func removeContainer(k *Kubelet, pod, container string) {
	_ = k.cpu.RemoveContainer(klog.Background(), k.CPU, pod, container)
	k.memory.RemoveContainer(klog.Background(), k.Memory, pod, container)
}

// Predicate is the kubelet's last check, on a node with other pods.
func (k *Kubelet) Predicate(node *v1.Node, others []*v1.Pod, pod *v1.Pod) lifecycle.PodAdmitResult {
	return Predicate(node, others, pod, k.devices.UpdatePluginResources)
}

// Predicate is that check with the devices that devices adds to what the node has.
func Predicate(node *v1.Node, others []*v1.Pod, pod *v1.Pod, devices func(*framework.NodeInfo, *lifecycle.PodAdmitAttributes) error) lifecycle.PodAdmitResult {
	h := lifecycle.NewPredicateAdmitHandler(func(context.Context, bool) (*v1.Node, error) { return node, nil }, nobodyElse{}, devices)
	return h.Admit(&lifecycle.PodAdmitAttributes{Pod: pod, OtherPods: others})
}

// Untolerated finds a taint of an effect that the tolerations do not cover.
func Untolerated(taints []v1.Taint, tolerations []v1.Toleration, effect v1.TaintEffect) (v1.Taint, bool) {
	return corev1.FindMatchingUntoleratedTaint(klog.Background(), taints, tolerations, func(t *v1.Taint) bool { return t.Effect == effect }, false)
}

// nobodyElse evicts no pod.
type nobodyElse struct{}

func (nobodyElse) HandleAdmissionFailure(_ context.Context, _ *v1.Pod, why []lifecycle.PredicateFailureReason) ([]lifecycle.PredicateFailureReason, error) {
	return why, nil
}

// recorder keeps what a manager answers.
type recorder struct {
	k    *Kubelet
	name string
	topologymanager.HintProvider
}

func (r recorder) GetTopologyHints(pod *v1.Pod, c *v1.Container) map[string][]topologymanager.TopologyHint {
	hints := r.HintProvider.GetTopologyHints(pod, c)
	r.k.calls = append(r.k.calls, Call{c.Name, r.name, hints})
	return hints
}

func (r recorder) GetPodTopologyHints(pod *v1.Pod) map[string][]topologymanager.TopologyHint {
	hints := r.HintProvider.GetPodTopologyHints(pod)
	r.k.calls = append(r.k.calls, Call{"", r.name, hints})
	return hints
}

type cpuProvider struct{ *Kubelet }

func (p cpuProvider) GetTopologyHints(pod *v1.Pod, c *v1.Container) map[string][]topologymanager.TopologyHint {
	return p.cpu.GetTopologyHints(klog.Background(), p.CPU, pod, c)
}

func (p cpuProvider) GetPodTopologyHints(pod *v1.Pod) map[string][]topologymanager.TopologyHint {
	return p.cpu.GetPodTopologyHints(klog.Background(), p.CPU, pod)
}

func (p cpuProvider) Allocate(pod *v1.Pod, c *v1.Container) error {
	return p.cpu.Allocate(klog.Background(), p.CPU, pod, c)
}

type memoryProvider struct{ *Kubelet }

func (p memoryProvider) GetTopologyHints(pod *v1.Pod, c *v1.Container) map[string][]topologymanager.TopologyHint {
	return p.memory.GetTopologyHints(klog.Background(), p.Memory, pod, c)
}

func (p memoryProvider) GetPodTopologyHints(pod *v1.Pod) map[string][]topologymanager.TopologyHint {
	return p.memory.GetPodTopologyHints(klog.Background(), p.Memory, pod)
}

func (p memoryProvider) Allocate(pod *v1.Pod, c *v1.Container) error {
	return p.memory.Allocate(klog.Background(), p.Memory, pod, c)
}

func load(ctx context.Context, l configfiles.Loader) (*kubeletconfig.KubeletConfiguration, error) {
	return l.Load(ctx)
}
