// Package upstream runs the managers of the real kubelet (k8s.io/kubernetes) in this process, on a
// simulated machine without containers.
package upstream

import (
	"fmt"
	"math"
	"slices"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/sets"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/klog/v2"
	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
	cpustate "k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/state"
	cputopology "k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/topology"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/memorymanager"
	memorystate "k8s.io/kubernetes/pkg/kubelet/cm/memorymanager/state"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/config"
	"k8s.io/utils/cpuset"

	"fettle.dev/fettle/kube/pod/admission"
)

// Kubelet contains the managers of a started kubelet.
type Kubelet struct {
	topology topologymanager.Manager
	devices  *devicemanager.ManagerImpl
	cpu      cpumanager.Policy
	memory   memorymanager.Policy
	CPU      cpustate.State
	Memory   memorystate.State
	plugins  map[string]*plugin
	used     map[string][]string // devices of others
	active   []*v1.Pod
	calls    []Call
}

// Call is the answer of a manager to a request for hints.
type Call struct {
	Container string // empty: for the pod as a whole
	Provider  string
	Hints     map[string][]topologymanager.TopologyHint
}

// Start starts the managers of a kubelet on a machine, with the CPU assignments of its state. An
// error means that the kubelet does not start. Devices in use are assigned to a separate pod.
func Start(dir string, in *admission.Input) (*Kubelet, error) {
	node, s := &in.Node, in.Settings
	klog.SetLogger(logr.Discard())
	gates := map[string]bool{string(features.CPUManagerPolicyAlphaOptions): false, string(features.CPUManagerPolicyBetaOptions): true, string(features.TopologyManagerPolicyBetaOptions): true}
	for name, on := range s.FeatureGates {
		gates[name] = on
	}
	if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(gates); err != nil {
		return nil, err
	}
	k := &Kubelet{plugins: map[string]*plugin{}, used: map[string][]string{}}
	machine := Machine(node)
	reservation := reserved(s)
	var err error
	if k.topology, err = newTopologyManager(machine, s); err != nil {
		return nil, err
	}
	if k.devices, err = try[*devicemanager.ManagerImpl](newDevices, dir+"/kubelet.sock", machine.Topology, k.topology); err != nil {
		return nil, err
	}
	topology, err := try[*cputopology.CPUTopology](cputopology.Discover, machine)
	if err != nil {
		return nil, err
	}
	cpus := cpuset.New(s.ReservedSystemCPUs.Numbers()...)
	if !cpus.IsSubsetOf(topology.CPUDetails.CPUs()) { // cmd/kubelet/app, getReservedCPUs
		return nil, fmt.Errorf("reserved CPUs that are not online")
	}
	// The constructor of the manager checks more than the constructor of the policy.
	if _, err = newCPUManager(s, machine, reservation, dir, k.topology); err != nil {
		return nil, err
	}
	if s.CPUManagerPolicy == admission.PolicyStatic {
		q := reservation[v1.ResourceCPU]
		number := int(math.Ceil(float64(q.MilliValue()) / 1000))
		k.cpu, err = try[cpumanager.Policy](cpumanager.NewStaticPolicy, topology, number, cpus, k.topology, s.CPUManagerPolicyOptions)
	} else {
		k.cpu, err = cpumanager.NewNonePolicy(s.CPUManagerPolicyOptions)
	}
	if err != nil {
		return nil, err
	}
	if err := k.newMemory(dir, machine, reservation, s); err != nil {
		return nil, err
	}
	k.CPU, k.Memory = result[cpustate.State](call(cpustate.NewMemoryState)), result[memorystate.State](call(memorystate.NewMemoryState))
	if st := in.State.CPU; st != nil {
		k.CPU.SetDefaultCPUSet(cpuset.New(st.Default.Numbers()...))
		all := cpustate.ContainerCPUAssignments{}
		for pod, containers := range st.Entries {
			all[pod] = map[string]cpuset.CPUSet{}
			for name, cpus := range containers {
				all[pod][name] = cpuset.New(cpus.Numbers()...)
			}
		}
		k.CPU.SetCPUAssignments(all)
	}
	if err := failure(call(k.cpu.Start, k.CPU)); err != nil {
		return nil, err
	}
	if err := failure(call(k.memory.Start, k.Memory)); err != nil {
		return nil, err
	}
	for _, r := range []recorder{{k, "device manager", k.devices, nil}, {k, "CPU manager", k.cpu, k.CPU}, {k, "memory manager", k.memory, k.Memory}} {
		call(k.topology.AddHintProvider, r)
	}
	return k, k.register(in.Devices)
}

func (k *Kubelet) newMemory(dir string, machine *machineInfo, reservation v1.ResourceList, s admission.Settings) error {
	if _, err := newMemoryManager(s, machine, reservation, dir, k.topology); err != nil {
		return err
	}
	if s.MemoryManagerPolicy != admission.MemoryPolicyStatic {
		k.memory = result[memorymanager.Policy](call(memorymanager.NewPolicyNone))
		return nil
	}
	byNode := map[int]map[v1.ResourceName]uint64{}
	for _, n := range machine.Topology {
		byNode[n.Id] = map[v1.ResourceName]uint64{}
	}
	for _, r := range s.ReservedMemory {
		for name, q := range r.Limits {
			byNode[r.NUMANode][v1.ResourceName(name)] = uint64(q.Value())
		}
	}
	var err error
	k.memory, err = try[memorymanager.Policy](memorymanager.NewPolicyStatic, machine, byNode, k.topology)
	return err
}

// register connects a plug-in for each resource to the device manager, and allocates the devices in
// use.
func (k *Kubelet) register(devices []admission.DeviceResource) error {
	if len(devices) == 0 {
		return nil
	}
	if err := failure(call(k.devices.Start, k.Active, config.NewSourcesReady(ready), containermap.NewContainerMap(), sets.New[string]())); err != nil {
		return err
	}
	other := &v1.Pod{Spec: v1.PodSpec{}}
	other.UID = "others"
	k.active = append(k.active, other)
	for _, r := range devices {
		p := &plugin{resource: r.Name}
		k.plugins[r.Name] = p
		if err := failure(call(k.devices.PluginConnected, r.Name, p)); err != nil {
			return err
		}
		list := listOf(r.Devices)
		var use []string
		for _, d := range r.Devices {
			if d.Used {
				use = append(use, d.ID)
			}
		}
		// All are healthy until those in use are given away.
		call(k.devices.PluginListAndWatchReceiver, r.Name, list)
		if len(use) > 0 {
			p.prefer = use
			c := v1.Container{Name: "of-" + r.Name, Resources: v1.ResourceRequirements{Limits: v1.ResourceList{v1.ResourceName(r.Name): *resource.NewQuantity(int64(len(use)), resource.DecimalSI)}}}
			other.Spec.Containers = append(other.Spec.Containers, c)
			if err := failure(call(k.devices.Allocate, other, &c)); err != nil {
				return fmt.Errorf("devices in use: %w", err)
			}
			if got := k.DevicesOf("others", c.Name)[r.Name]; !slices.Equal(got, slices.Sorted(slices.Values(use))) {
				return fmt.Errorf("devices in use: %v were to be, %v are", use, got)
			}
			p.prefer = nil
		}
		for i, d := range r.Devices {
			if d.Unhealthy {
				list.Devices[i].Health = v1beta1.Unhealthy
			}
		}
		call(k.devices.PluginListAndWatchReceiver, r.Name, list)
	}
	return nil
}

// listOf returns a plug-in's report of devices, all healthy.
func listOf(devices []admission.Device) *v1beta1.ListAndWatchResponse {
	list := &v1beta1.ListAndWatchResponse{}
	for _, d := range devices {
		x := &v1beta1.Device{ID: d.ID, Health: v1beta1.Healthy}
		if len(d.NUMA) > 0 {
			x.Topology = &v1beta1.TopologyInfo{}
			for _, n := range d.NUMA {
				x.Topology.Nodes = append(x.Topology.Nodes, &v1beta1.NUMANode{ID: int64(n)})
			}
		}
		list.Devices = append(list.Devices, x)
	}
	return list
}

// Another connects a further plug-in for a resource, with other devices.
func (k *Kubelet) Another(r admission.DeviceResource) error {
	if err := failure(call(k.devices.PluginConnected, r.Name, &plugin{resource: r.Name, socket: "another"})); err != nil {
		return err
	}
	call(k.devices.PluginListAndWatchReceiver, r.Name, listOf(r.Devices))
	return nil
}

// Stop ends what Start has begun.
func (k *Kubelet) Stop() { call(k.devices.Stop) }

// Active returns the pods that the kubelet knows.
func (k *Kubelet) Active() []*v1.Pod { return k.active }

// DevicesOf returns the devices of a container, by resource.
func (k *Kubelet) DevicesOf(pod, container string) map[string][]string {
	out := map[string][]string{}
	for name, devices := range k.devices.GetDevices(pod, container) {
		for id := range devices {
			out[name] = append(out[name], id)
		}
		slices.Sort(out[name])
	}
	return out
}

// Result is what became of a pod.
type Result struct {
	Admit   bool
	Reason  string
	Message string
	// Crash is that a manager panicked.
	Crash string
	Calls []Call
	// Affinity has the merged hints of the admitted containers.
	Affinity map[string]topologymanager.TopologyHint
}

// Admit passes a pod to the topology manager for admission.
func (k *Kubelet) Admit(pod *v1.Pod) (r Result) {
	k.calls = nil
	k.active = append(k.active, pod)
	defer func() {
		if p := recover(); p != nil {
			r.Crash = fmt.Sprint(p)
		}
		r.Calls = k.calls
		r.Affinity = map[string]topologymanager.TopologyHint{}
		for _, c := range containers(pod) {
			r.Affinity[c.Name] = result[topologymanager.TopologyHint](call(k.topology.GetAffinity, string(pod.UID), c.Name))
		}
	}()
	a := admit(k.topology, pod)
	return Result{Admit: a.Admit, Reason: a.Reason, Message: a.Message}
}

// Remove takes a pod from the node.
func (k *Kubelet) Remove(pod *v1.Pod) {
	k.active = slices.DeleteFunc(k.active, func(p *v1.Pod) bool { return p.UID == pod.UID })
	for _, c := range containers(pod) {
		call(k.cpu.RemoveContainer, k.CPU, string(pod.UID), c.Name)
		call(k.memory.RemoveContainer, k.Memory, string(pod.UID), c.Name)
	}
	call(k.devices.UpdateAllocatedDevices)
}

func containers(pod *v1.Pod) []v1.Container {
	return append(slices.Clone(pod.Spec.InitContainers), pod.Spec.Containers...)
}
