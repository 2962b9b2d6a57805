package admission

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"

	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/unit"
)

// Names of resources (k8s.io/api/core/v1).
const (
	CPU              = "cpu"
	Memory           = "memory"
	EphemeralStorage = "ephemeral-storage"
	hugePages        = "hugepages-" // a size follows
)

// Resources are amounts by resource name.
type Resources map[string]resource.Quantity

// Input is the input of a prediction.
type Input struct {
	Node     Node
	Settings Settings
	// State holds the managers' assignments to containers.
	State State
	// Devices are the devices of registered device plug-ins.
	Devices []DeviceResource
	// Capacity is used for the kubelet's last check, room on the node; nil skips it.
	Capacity *Capacity
	// Place is used to check whether the pod may run on the node; nil if unknown.
	Place *Place
	// CgroupV1 reports whether the node uses cgroup v1, which has no CPU weights.
	CgroupV1 bool
	Pod      Pod
	// Sources and Assumed are for the document: the input's sources, and assumptions for unknown
	// values.
	Sources []Source
	Assumed []string

	built *topology // topology of Node, built on first use
}

// Source names the source of a part of the input.
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
	// Core is the number of the CPU's core, unique within a socket and NUMA node
	// (/sys/devices/system/cpu/cpuN/topology/core_id).
	Core int
	// Socket is the number of the CPU's package (physical_package_id).
	Socket int
	// NUMA is the number of the CPU's NUMA node.
	NUMA int
	// Uncore is the number of the CPU's level 3 cache (cache/index3/id). It is -1 if the cache is
	// unknown, or shared by exactly the CPUs of a NUMA node: then the socket counts as the cache
	// (cAdvisor, utils/sysinfo, addCacheInfo).
	Uncore int
}

// NUMANode is a NUMA node.
type NUMANode struct {
	// ID is the NUMA node's number, 0 to 63.
	ID int
	// MemoryBytes is the node's whole memory including huge pages (MemTotal of its meminfo).
	MemoryBytes uint64
	// HugePages are the kernel's pools on the node, including empty ones.
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
	// FeatureGates are the configured gates. Those that affect admission are
	// CPUManagerPolicyAlphaOptions, CPUManagerPolicyBetaOptions, TopologyManagerPolicyBetaOptions
	// and those of unmodeled.
	FeatureGates map[string]bool
}

// MemoryReservation is an entry of reservedMemory.
type MemoryReservation struct {
	NUMANode int
	Limits   Resources
}

// State holds the managers' assignments to containers. A nil part has no state file yet, as before
// a kubelet's first start.
type State struct {
	CPU    *CPUState
	Memory *MemoryState
	// Running reports whether a kubelet runs with this state and these settings. Otherwise the
	// state must pass the checks of a start.
	Running bool
	// Active are the pods and containers known to the kubelet. Managers release other containers'
	// resources before they assign any. nil means unknown; then everything that is held counts.
	Active []ActivePod
}

// ActivePod is a pod on the node that has not ended.
type ActivePod struct {
	UID        string
	Name       string // display name
	Containers []string
}

// CPUState is the content of cpu_manager_state.
type CPUState struct {
	Policy string
	// Default is the shared pool, including reserved CPUs unless these are strictly reserved.
	Default unit.CPUSet
	// Entries are the exclusive CPUs by pod (UID) and container.
	Entries map[string]map[string]unit.CPUSet
	// Pods are the CPUs of pods as a whole, by UID, with the feature gate PodLevelResourceManagers.
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
	// Tables are the accounts by resource, such as memory or hugepages-2Mi.
	Tables map[string]*MemoryTable
	// Group is the set of nodes with which this node is used, including itself.
	Group Mask
}

// MemoryTable is the account of a resource on a NUMA node, in bytes.
type MemoryTable struct {
	TotalBytes, SystemReservedBytes, AllocatableBytes, ReservedBytes, FreeBytes uint64
}

// MemoryBlock is an amount of a resource that a container holds.
type MemoryBlock struct {
	Nodes Mask
	// Resource is memory or hugepages-SIZE.
	Resource  string
	SizeBytes uint64
}

// DeviceResource is a device plug-in's resource with its devices. If several plug-ins serve it, the
// kubelet uses the devices of the last one that reported.
type DeviceResource struct {
	// Name is the name of the resource: example.com/nic.
	Name    string
	Devices []Device
}

// Device is a device of a plug-in.
type Device struct {
	ID string
	// NUMA are the device's NUMA nodes, or nil if the plug-in reports none.
	NUMA      []int
	Unhealthy bool
	// Used reports whether a container holds the device.
	Used bool
}

// Capacity is a node's room for pods.
type Capacity struct {
	// Allocatable is the node's status.allocatable, including pods.
	Allocatable Resources
	// Requested is the sum of the requests of the node's pods, Pods their number.
	Requested Resources
	Pods      int
}

// maxNUMANodes is the maximum number of NUMA nodes, because all 2^n sets are enumerated.
const maxNUMANodes = 16

// Check returns an error for inconsistent data of a node.
func (n *Node) Check() error {
	if len(n.CPUs) == 0 {
		return fmt.Errorf("no CPUs in the node's topology")
	}
	if len(n.NUMA) == 0 {
		return fmt.Errorf("no NUMA nodes in the node's topology; want at least node 0")
	}
	if len(n.NUMA) > maxNUMANodes {
		return text.Errorf("the node has %d NUMA nodes, at most %d supported (a kubelet could not go through their combinations either)", len(n.NUMA), maxNUMANodes)
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
