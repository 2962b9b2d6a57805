package state

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/cpuset"

	"fettle.dev/fettle/kube/pod/admission/state/checksum"
)

// The files have had these forms. The checksum of each is the checksum of the kubelet's Go value
// without `data` and `dataChecksum`. If `data` is present, a kubelet from 1.37 on reads nothing
// else.
//
//	Kubernetes          cpu_manager_state             memory_manager_state
//	1.18 (1.22) to 1.35 the four first keys           the four first keys
//	1.36                podEntries and a sum over it, with the gate PodLevelResourceManagers
//	1.37                also data, a JSON text, and dataChecksum, its sum
//
// A kubelet passes over keys that it does not know: one before 1.37 reads the four first
// keys of 1.37's form, whose checksum is right for it. The form of 1.36 with the gate is
// read by that kubelet and from 1.37 on. A checksum of 0 is taken in cpu_manager_state, and
// from 1.36 on in memory_manager_state.
//
// Source: k8s.io/kubernetes v1.34.4, v1.36.3 and v1.37.2,
// pkg/kubelet/cm/cpumanager/state/checkpoint.go and memorymanager/state/checkpoint.go.

// cpuFields are the keys of cpu_manager_state.
type cpuFields struct {
	PolicyName    string                       `json:"policyName"`
	DefaultCPUSet string                       `json:"defaultCpuSet"`
	Entries       map[string]map[string]string `json:"entries,omitempty"`
	// PodEntries are the CPUs of pods with resources of their own, by UID.
	PodEntries map[string]podCPUs `json:"podEntries,omitempty"`
}

type podCPUs struct {
	CPUSet string `json:"cpuSet,omitempty"`
}

// cpuFile is all of cpu_manager_state.
type cpuFile struct {
	cpuFields
	Checksum     checksum.Checksum `json:"checksum"`
	Data         string            `json:"data"`
	DataChecksum checksum.Checksum `json:"dataChecksum"`
}

// cpuData is the content of Data.
type cpuData struct {
	cpuFields
	// Baselines are containers' CPUs before a resize (InPlacePodVerticalScalingExclusiveCPUs).
	Baselines map[string]map[string]struct {
		Baseline string `json:"baseline"`
	} `json:"baselines,omitempty"`
}

// verified checks the checksum, and returns the content that a kubelet uses.
func (c *cpuFile) verified(k reader) (*cpuFields, error) {
	if k.data && (c.Data != "" || c.DataChecksum != 0) {
		data := cpuData{}
		return &data.cpuFields, k.inner(c.Data, c.DataChecksum, &data)
	}
	pods, err := c.podsSum()
	if pods && err == nil && k.pods {
		return &c.cpuFields, nil
	}
	// A file without a checksum is accepted; older kubelets wrote none.
	if c.Checksum == 0 || checksum.Of(&CPUManagerCheckpoint{c.PolicyName, c.DefaultCPUSet, c.Entries, 0}) == c.Checksum {
		c.PodEntries = nil
		return &c.cpuFields, nil
	}
	switch {
	case err != nil:
		return nil, err
	case pods:
		return nil, errForm
	}
	return nil, errSum
}

// podsSum reports whether the checksum includes podEntries.
func (c *cpuFile) podsSum() (bool, error) {
	v3 := &cpuManagerCheckpointV3{c.PolicyName, c.DefaultCPUSet, c.Entries, podCPUAssignments{}, 0}
	for pod, entry := range c.PodEntries {
		set, err := cpuset.Parse(entry.CPUSet)
		if err != nil {
			return false, err
		}
		v3.PodEntries[pod] = podCPUEntry{set}
	}
	return checksum.Of(v3) == c.Checksum, nil
}

// inner decodes the text of `data`, after checking its sum.
func (k reader) inner(text string, sum checksum.Checksum, into any) error {
	if checksum.Of(text) != sum {
		return errSum
	}
	if text == "" {
		text = "{}"
	}
	return k.decode([]byte(text), into)
}

// CPUManagerCheckpoint is cpu_manager_state from 1.18 on. The checksum includes the names of the
// type and of its fields, and their order, so these are the kubelet's.
type CPUManagerCheckpoint struct {
	PolicyName    string                       `json:"policyName"`
	DefaultCPUSet string                       `json:"defaultCpuSet"`
	Entries       map[string]map[string]string `json:"entries,omitempty"`
	Checksum      checksum.Checksum            `json:"checksum"`
}

// cpuManagerCheckpointV3 is cpu_manager_state of 1.36 with PodLevelResourceManagers; the
// kubelet's names are CPUManagerCheckpoint, PodCPUAssignments and PodEntry.
type cpuManagerCheckpointV3 struct {
	PolicyName    string
	DefaultCPUSet string
	Entries       map[string]map[string]string
	PodEntries    podCPUAssignments
	Checksum      checksum.Checksum
}

type podCPUAssignments map[string]podCPUEntry

type podCPUEntry struct{ CPUSet cpuset.CPUSet }

// memoryFields are the keys of memory_manager_state.
type memoryFields struct {
	PolicyName   string                     `json:"policyName"`
	MachineState NUMANodeMap                `json:"machineState"`
	Entries      ContainerMemoryAssignments `json:"entries,omitempty"`
	// PodEntries are the blocks of pods with resources of their own, by UID.
	PodEntries podMemoryAssignments `json:"podEntries,omitempty"`
}

// memoryFile is all of memory_manager_state.
type memoryFile struct {
	memoryFields
	Checksum     checksum.Checksum `json:"checksum"`
	Data         string            `json:"data"`
	DataChecksum checksum.Checksum `json:"dataChecksum"`
}

// verified checks the checksum, and returns the content that a kubelet uses.
func (c *memoryFile) verified(k reader) (*memoryFields, error) {
	if k.data && (c.Data != "" || c.DataChecksum != 0) {
		data := memoryFields{}
		return &data, k.inner(c.Data, c.DataChecksum, &data)
	}
	v2 := &memoryManagerCheckpointV2{c.PolicyName, c.MachineState, c.Entries, c.PodEntries, 0}
	if v2.PodEntries == nil {
		v2.PodEntries = podMemoryAssignments{}
	}
	pods := checksum.Of(v2) == c.Checksum
	if pods && k.pods {
		return &c.memoryFields, nil
	}
	if c.Checksum == 0 && k.noSum || checksum.Of(&MemoryManagerCheckpoint{c.PolicyName, c.MachineState, c.Entries, 0}) == c.Checksum {
		c.PodEntries = nil
		return &c.memoryFields, nil
	}
	if pods {
		return nil, errForm
	}
	return nil, errSum
}

// MemoryManagerCheckpoint is memory_manager_state; see CPUManagerCheckpoint.
type MemoryManagerCheckpoint struct {
	PolicyName   string                     `json:"policyName"`
	MachineState NUMANodeMap                `json:"machineState"`
	Entries      ContainerMemoryAssignments `json:"entries,omitempty"`
	Checksum     checksum.Checksum          `json:"checksum"`
}

// memoryManagerCheckpointV2 is memory_manager_state of 1.36 with PodLevelResourceManagers;
// the kubelet's names are MemoryManagerCheckpoint, PodMemoryAssignments and PodEntry.
type memoryManagerCheckpointV2 struct {
	PolicyName   string
	MachineState NUMANodeMap
	Entries      ContainerMemoryAssignments
	PodEntries   podMemoryAssignments
	Checksum     checksum.Checksum
}

// NUMANodeMap is the account of each NUMA node.
type NUMANodeMap map[int]*NUMANodeState

// NUMANodeState is the account of a NUMA node.
type NUMANodeState struct {
	NumberOfAssignments int                              `json:"numberOfAssignments"`
	MemoryMap           map[v1.ResourceName]*MemoryTable `json:"memoryMap"`
	Cells               []int                            `json:"cells"`
}

// MemoryTable is the account of a resource, in bytes.
type MemoryTable struct {
	TotalMemSize   uint64 `json:"total"`
	SystemReserved uint64 `json:"systemReserved"`
	Allocatable    uint64 `json:"allocatable"`
	Reserved       uint64 `json:"reserved"`
	Free           uint64 `json:"free"`
}

// ContainerMemoryAssignments are the blocks by pod and container.
type ContainerMemoryAssignments map[string]map[string][]Block

type podMemoryAssignments map[string]podMemoryEntry

type podMemoryEntry struct {
	MemoryBlocks []Block `json:"memoryBlocks,omitempty"`
}

// Block is an amount of memory of a container.
type Block struct {
	NUMAAffinity []int           `json:"numaAffinity"`
	Type         v1.ResourceName `json:"type"`
	Size         uint64          `json:"size"`
}
