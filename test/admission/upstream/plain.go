//go:build !kubernetes_1_35 && !kubernetes_1_36 && !kubernetes_1_37

package upstream

import (
	"time"
	_ "unsafe" // for go:linkname

	"fettle.dev/fettle/kube/pod/admission"
	cadvisor "github.com/google/cadvisor/info/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
	cpustate "k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/state"
	cputopology "k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/topology"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	deviceplugin "k8s.io/kubernetes/pkg/kubelet/cm/devicemanager/plugin/v1beta1"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/config"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/cpuset"
)

// newDeviceManager is the constructor beneath devicemanager.NewManagerImpl, which has
// its socket and its file in /var/lib/kubelet; this one has them where it is told.
//
//go:linkname newDeviceManager k8s.io/kubernetes/pkg/kubelet/cm/devicemanager.newManagerImpl
func newDeviceManager(socket string, nodes []cadvisor.Node, affinity topologymanager.Store) (*devicemanager.ManagerImpl, error)

func newDevices(socket string, m *machineInfo, affinity topologymanager.Store) (*devicemanager.ManagerImpl, error) {
	return newDeviceManager(socket, m.Topology, affinity)
}

func newTopologyManager(m *machineInfo, s admission.Settings) (topologymanager.Manager, error) {
	return topologymanager.NewManager(m.Topology, s.TopologyManagerPolicy, s.TopologyManagerScope, s.TopologyManagerPolicyOptions)
}

func discover(m *machineInfo) (*cputopology.CPUTopology, error) { return cputopology.Discover(m) }

func newCPUManager(s admission.Settings, m *machineInfo, cpus cpuset.CPUSet, reserved v1.ResourceList, dir string, affinity topologymanager.Store) (cpumanager.Manager, error) {
	return cpumanager.NewManager(s.CPUManagerPolicy, s.CPUManagerPolicyOptions, time.Hour, m, cpus, reserved, dir, affinity)
}

func newStaticPolicy(t *cputopology.CPUTopology, number int, cpus cpuset.CPUSet, affinity topologymanager.Store, options map[string]string) (cpumanager.Policy, error) {
	return cpumanager.NewStaticPolicy(t, number, cpus, affinity, options)
}

func newCPUState() cpustate.State { return cpustate.NewMemoryState() }

func startCPU(p cpumanager.Policy, s cpustate.State) error { return p.Start(s) }

func startDevices(m *devicemanager.ManagerImpl, active func() []*v1.Pod, ready config.SourcesReady) error {
	return m.Start(active, ready, containermap.NewContainerMap(), sets.New[string]())
}

func connect(m *devicemanager.ManagerImpl, resource string, p deviceplugin.DevicePlugin) error {
	return m.PluginConnected(resource, p)
}

func receive(m *devicemanager.ManagerImpl, resource string, list *v1beta1.ListAndWatchResponse) {
	m.PluginListAndWatchReceiver(resource, list)
}

func allocate(m *devicemanager.ManagerImpl, pod *v1.Pod, c *v1.Container) error {
	return m.Allocate(pod, c)
}

func updateAllocated(m *devicemanager.ManagerImpl) { m.UpdateAllocatedDevices() }

func stopDevices(m *devicemanager.ManagerImpl) { _ = m.Stop() }

func addProvider(t topologymanager.Manager, p topologymanager.HintProvider) { t.AddHintProvider(p) }

func affinityOf(t topologymanager.Manager, pod, container string) topologymanager.TopologyHint {
	return t.GetAffinity(pod, container)
}

func admit(t topologymanager.Manager, pod *v1.Pod) lifecycle.PodAdmitResult {
	return t.Admit(&lifecycle.PodAdmitAttributes{Pod: pod})
}

func removeContainer(k *Kubelet, pod, container string) {
	_ = k.cpu.RemoveContainer(k.CPU, pod, container)
	removeMemory(k, pod, container)
}

// Predicate is the kubelet's last check, on a node with other pods.
func (k *Kubelet) Predicate(node *v1.Node, others []*v1.Pod, pod *v1.Pod) lifecycle.PodAdmitResult {
	return Predicate(node, others, pod, k.devices.UpdatePluginResources)
}

// Predicate is that check with the devices that devices adds to what the node has.
func Predicate(node *v1.Node, others []*v1.Pod, pod *v1.Pod, devices func(*framework.NodeInfo, *lifecycle.PodAdmitAttributes) error) lifecycle.PodAdmitResult {
	h := lifecycle.NewPredicateAdmitHandler(func() (*v1.Node, error) { return node, nil }, nobodyElse{}, devices)
	return h.Admit(&lifecycle.PodAdmitAttributes{Pod: pod, OtherPods: others})
}

// Untolerated finds a taint of an effect that the tolerations do not cover.
func Untolerated(taints []v1.Taint, tolerations []v1.Toleration, effect v1.TaintEffect) (v1.Taint, bool) {
	return corev1.FindMatchingUntoleratedTaint(taints, tolerations, func(t *v1.Taint) bool { return t.Effect == effect })
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
	return p.cpu.GetTopologyHints(p.CPU, pod, c)
}

func (p cpuProvider) GetPodTopologyHints(pod *v1.Pod) map[string][]topologymanager.TopologyHint {
	return p.cpu.GetPodTopologyHints(p.CPU, pod)
}

func (p cpuProvider) Allocate(pod *v1.Pod, c *v1.Container) error {
	return p.cpu.Allocate(p.CPU, pod, c)
}
