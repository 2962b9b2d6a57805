package admission

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"

	"fettle.dev/fettle/internal/unit"
)

// Names of resources (k8s.io/api/core/v1).
const (
	CPU              = "cpu"
	Memory           = "memory"
	EphemeralStorage = "ephemeral-storage"
	hugePages        = "hugepages-" // and a size
)

// Resources are amounts by the name of the resource.
type Resources map[string]resource.Quantity

// Input is the input of a prediction.
type Input struct {
	Node     Node
	Settings Settings
	// State is what the managers have assigned to containers.
	State State
	// Devices are the devices of the registered device plug-ins.
	Devices []DeviceResource
	// Capacity is for the last check, for room on the node; nil skips it.
	Capacity *Capacity
	// Place is for the check whether the pod may run on the node; nil if unknown.
	Place *Place
	// CgroupV1 reports whether CPU shares are in control groups of version 1, which have no
	// weights.
	CgroupV1 bool
	Pod      Pod
	// Sources and Assumed are for the document: where the input was read, and the assumptions
	// about unknown values.
	Sources []Source
	Assumed []string

	built *topology // of Node, once it is asked for
}

// Source names where something was read.
type Source struct {
	What string `json:"what"`
	From string `json:"from"`
}

func (in *Input) topology() *topology {
	if in.built == nil {
		in.built = newTopology(&in.Node)
	}
	return in.built
}

// Node is a kubelet's view of its machine (cAdvisor's MachineInfo).
type Node struct {
	Name string
	// CPUs are the CPUs that are online.
	CPUs []Processor
	// NUMA are the nodes of memory, also those without CPUs.
	NUMA []NUMANode
}

// Processor is a logical CPU.
type Processor struct {
	// ID is the kernel's number of the CPU, below unit.MaxCPUs.
	ID int
	// Core is the number of its core, which is unique within a socket and NUMA node
	// (/sys/devices/system/cpu/cpuN/topology/core_id).
	Core int
	// Socket is the number of its package (physical_package_id).
	Socket int
	// NUMA is the number of its node.
	NUMA int
	// Uncore is the number of its level 3 cache (cache/index3/id), or -1 if the cache is unknown
	// or shared by exactly the CPUs of its NUMA node: then the socket counts as its cache
	// (cAdvisor, utils/sysinfo, addCacheInfo).
	Uncore int
}

// NUMANode is a NUMA node.
type NUMANode struct {
	// ID is its number, 0 to 63.
	ID int
	// MemoryBytes is all its memory (MemTotal of its meminfo), huge pages included.
	MemoryBytes uint64
	// HugePages are the kernel's pools, including empty ones.
	HugePages []HugePages
	// Distances are the distances to nodes 0, 1, ... (/sys/devices/system/node/nodeN/distance).
	Distances []uint64
}

// HugePages is a pool of pages of one size on one node.
type HugePages struct {
	SizeBytes uint64
	Pages     uint64
}

// resource returns the pool's resource name: hugepages-2Mi.
func (h HugePages) resource() string {
	return hugePages + resource.NewQuantity(int64(h.SizeBytes), resource.BinarySI).String()
}

// Settings are the settings of a kubelet that affect admission. Empty values mean the kubelet's
// defaults.
type Settings struct {
	// Release is the kubelet's release.
	Release Release
	// CPUManagerPolicy is none (the default) or static.
	CPUManagerPolicy        string
	CPUManagerPolicyOptions map[string]string
	// ReservedSystemCPUs, if set, replaces the CPU of KubeReserved and SystemReserved.
	ReservedSystemCPUs unit.CPUSet
	// TopologyManagerPolicy is none (the default), best-effort, restricted or
	// single-numa-node.
	TopologyManagerPolicy string
	// TopologyManagerScope is container (the default) or pod.
	TopologyManagerScope         string
	TopologyManagerPolicyOptions map[string]string
	// MemoryManagerPolicy is None (the default) or Static.
	MemoryManagerPolicy string
	ReservedMemory      []MemoryReservation
	// KubeReserved and SystemReserved are kubeReserved and systemReserved.
	KubeReserved, SystemReserved Resources
	// EvictionHardMemoryBytes is memory.available of evictionHard in bytes: 100Mi by default.
	EvictionHardMemoryBytes uint64
	// FeatureGates are the configured gates; relevant here are CPUManagerPolicyAlphaOptions,
	// CPUManagerPolicyBetaOptions, TopologyManagerPolicyBetaOptions and those of unmodeled.
	FeatureGates map[string]bool
}

// MemoryReservation is an entry of reservedMemory.
type MemoryReservation struct {
	NUMANode int
	Limits   Resources
}

// State is what the managers have assigned to containers. A nil part has no file yet, as before
// the first start of a kubelet.
type State struct {
	CPU    *CPUState
	Memory *MemoryState
	// Running reports whether a kubelet runs with this state and these settings. The state is then
	// used as it is; otherwise it has to pass the checks of a start.
	Running bool
	// Active are the pods known to the kubelet, with their containers. The managers release the
	// resources of other containers before they assign any. If nil, the pods are unknown, and
	// everything held counts.
	Active []ActivePod
}

// ActivePod is a pod on the node that has not ended.
type ActivePod struct {
	UID        string
	Name       string // for people
	Containers []string
}

// CPUState is the content of cpu_manager_state.
type CPUState struct {
	Policy string
	// Default is the shared pool, the reserved CPUs included (unless they are strictly
	// reserved).
	Default unit.CPUSet
	// Entries are the exclusive CPUs by pod (UID) and container.
	Entries map[string]map[string]unit.CPUSet
	// Pods are the CPUs of pods as a whole, by UID: a kubelet with the feature gate
	// PodLevelResourceManagers holds some.
	Pods map[string]unit.CPUSet
}

// MemoryState is the content of memory_manager_state.
type MemoryState struct {
	Policy string
	Nodes  map[int]*MemoryNode
	// Entries are the blocks by pod (UID) and container.
	Entries map[string]map[string][]MemoryBlock
	// Pods are the blocks of pods as a whole, by UID.
	Pods map[string][]MemoryBlock
}

// MemoryNode is the accounting of a NUMA node.
type MemoryNode struct {
	// Assignments counts the blocks on this node.
	Assignments int
	// Tables are the accounts by resource: memory, hugepages-2Mi.
	Tables map[string]*MemoryTable
	// Group is the set of nodes that this node is used with, including itself.
	Group Mask
}

// MemoryTable is the account of a resource on a NUMA node, in bytes.
type MemoryTable struct {
	TotalBytes, SystemReservedBytes, AllocatableBytes, ReservedBytes, FreeBytes uint64
}

// MemoryBlock is an amount of a resource that a container has.
type MemoryBlock struct {
	Nodes Mask
	// Resource is memory or hugepages-SIZE.
	Resource  string
	SizeBytes uint64
}

// DeviceResource is a resource of a device plug-in with its devices. If several plug-ins serve
// it, the kubelet has the devices of the one that reported last.
type DeviceResource struct {
	// Name is the name of the resource: example.com/nic.
	Name    string
	Devices []Device
}

// Device is a device of a plug-in.
type Device struct {
	ID string
	// NUMA are its NUMA nodes; none if the plug-in reports none.
	NUMA      []int
	Unhealthy bool
	// Used reports whether a container has it.
	Used bool
}

// Capacity is the room that a node has.
type Capacity struct {
	// Allocatable is status.allocatable of the node, pods included.
	Allocatable Resources
	// Requested is the sum of the requests of its pods, and Pods their number.
	Requested Resources
	Pods      int
}

// maxNUMANodes is the maximum number of NUMA nodes for which all sets are enumerated: there are
// 2^n.
const maxNUMANodes = 16

// Check returns an error for an impossible node.
func (n *Node) Check() error {
	if len(n.CPUs) == 0 {
		return fmt.Errorf("no CPUs in the node's topology")
	}
	if len(n.NUMA) == 0 {
		return fmt.Errorf("no NUMA nodes in the node's topology; want at least node 0")
	}
	if len(n.NUMA) > maxNUMANodes {
		return fmt.Errorf("the node has %d NUMA nodes, at most %d supported (a kubelet could not go through their combinations either)", len(n.NUMA), maxNUMANodes)
	}
	var nodes Mask
	for _, m := range n.NUMA {
		switch {
		case m.ID < 0 || m.ID > 63:
			return fmt.Errorf("NUMA node %d: want 0 to 63", m.ID)
		case nodes.Has(m.ID):
			return fmt.Errorf("NUMA node %d is listed twice", m.ID)
		}
		nodes |= maskOf(m.ID)
		sizes := map[uint64]bool{}
		var taken uint64
		for _, h := range m.HugePages {
			if h.SizeBytes == 0 || sizes[h.SizeBytes] {
				return fmt.Errorf("NUMA node %d: huge pages of %d bytes: invalid or listed twice", m.ID, h.SizeBytes)
			}
			sizes[h.SizeBytes] = true
			if h.Pages > (1<<63)/h.SizeBytes {
				return fmt.Errorf("NUMA node %d: %d huge pages of %d bytes are more than any machine has", m.ID, h.Pages, h.SizeBytes)
			}
			taken += h.Pages * h.SizeBytes
		}
		if taken > m.MemoryBytes {
			return fmt.Errorf("NUMA node %d: its huge pages (%d bytes) are more than its memory (%d bytes)", m.ID, taken, m.MemoryBytes)
		}
	}
	seen := map[int]bool{}
	for _, c := range n.CPUs {
		switch {
		case c.ID < 0 || c.ID >= unit.MaxCPUs:
			return fmt.Errorf("CPU %d: no kernel has more than %d", c.ID, unit.MaxCPUs)
		case seen[c.ID]:
			return fmt.Errorf("CPU %d is listed twice", c.ID)
		case !nodes.Has(c.NUMA):
			return fmt.Errorf("CPU %d is on NUMA node %d, which the node does not have", c.ID, c.NUMA)
		}
		seen[c.ID] = true
	}
	return nil
}

// nodeIDs lists the NUMA nodes in ascending order.
func (n *Node) nodeIDs() []int {
	ids := make([]int, len(n.NUMA))
	for i, m := range n.NUMA {
		ids[i] = m.ID
	}
	slices.Sort(ids)
	return ids
}
