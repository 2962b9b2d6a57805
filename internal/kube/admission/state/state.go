// Package state reads the files in which a kubelet keeps what its managers have given
// away: cpu_manager_state and memory_manager_state of its root directory.
package state

import (
	"errors"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	kjson "sigs.k8s.io/json"

	"fettle.dev/fettle/internal/kube/admission"
	"fettle.dev/fettle/internal/kube/admission/state/checksum"
	"fettle.dev/fettle/internal/unit"
)

// maxSize bounds a file: thousands of pods make a megabyte.
const maxSize = 16 << 20

// CPUManagerCheckpoint is cpu_manager_state as it is since Kubernetes 1.18.
type CPUManagerCheckpoint struct {
	PolicyName    string                       `json:"policyName"`
	DefaultCPUSet string                       `json:"defaultCpuSet"`
	Entries       map[string]map[string]string `json:"entries,omitempty"`
	Checksum      checksum.Checksum            `json:"checksum"`
}

// MemoryManagerCheckpoint is memory_manager_state.
type MemoryManagerCheckpoint struct {
	PolicyName   string                     `json:"policyName"`
	MachineState NUMANodeMap                `json:"machineState"`
	Entries      ContainerMemoryAssignments `json:"entries,omitempty"`
	Checksum     checksum.Checksum          `json:"checksum"`
}

// NUMANodeMap is the account of each NUMA node.
type NUMANodeMap map[int]*NUMANodeState

// NUMANodeState is the account of one.
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

// Block is an amount of memory of a container.
type Block struct {
	NUMAAffinity []int           `json:"numaAffinity"`
	Type         v1.ResourceName `json:"type"`
	Size         uint64          `json:"size"`
}

// errSum is that a file is not as the kubelet wrote it: the kubelet does not start
// with it.
var errSum = errors.New("its checksum is not that of its content: it is damaged or was changed by hand, and a kubelet does not start with it")

// decode reads JSON strictly: unknown and repeated keys are errors.
func decode(text []byte, into any) error {
	if len(text) > maxSize {
		return fmt.Errorf("it has %d bytes: more than %d are not read", len(text), maxSize)
	}
	strict, err := kjson.UnmarshalStrict(text, into)
	if err != nil {
		return err
	}
	return errors.Join(strict...)
}

// CPU reads the text of cpu_manager_state.
func CPU(text []byte) (*admission.CPUState, error) {
	c := CPUManagerCheckpoint{Entries: map[string]map[string]string{}}
	if err := decode(text, &c); err != nil {
		return nil, fmt.Errorf("cpu_manager_state: %w", err)
	}
	// A file without a sum is taken, as of kubelets that wrote none.
	if sum := c.Checksum; sum != 0 {
		if c.Checksum = 0; checksum.Of(&c) != sum {
			return nil, fmt.Errorf("cpu_manager_state: %w", errSum)
		}
	}
	if c.PolicyName == "" {
		return nil, errors.New("cpu_manager_state: it has no policyName")
	}
	out := &admission.CPUState{Policy: c.PolicyName, Entries: map[string]map[string]unit.CPUSet{}}
	var err error
	if out.Default, err = cpus(c.DefaultCPUSet); err != nil {
		return nil, fmt.Errorf("cpu_manager_state: defaultCpuSet: %w", err)
	}
	for pod, containers := range c.Entries {
		out.Entries[pod] = map[string]unit.CPUSet{}
		for name, set := range containers {
			if out.Entries[pod][name], err = cpus(set); err != nil {
				return nil, fmt.Errorf("cpu_manager_state: container %s of pod %s: %w", name, pod, err)
			}
		}
	}
	return out, nil
}

// cpus reads a list as the kubelet writes it: numbers and ranges, nothing else.
func cpus(list string) (unit.CPUSet, error) {
	if rest := strings.Trim(list, "0123456789,-"); rest != "" {
		return unit.CPUSet{}, fmt.Errorf("CPU list %q: a kubelet writes numbers and ranges", list)
	}
	return unit.ParseCPUList(list)
}

// Memory reads the text of memory_manager_state.
func Memory(text []byte) (*admission.MemoryState, error) {
	c := MemoryManagerCheckpoint{MachineState: NUMANodeMap{}, Entries: ContainerMemoryAssignments{}}
	if err := decode(text, &c); err != nil {
		return nil, fmt.Errorf("memory_manager_state: %w", err)
	}
	sum := c.Checksum
	if c.Checksum = 0; checksum.Of(&c) != sum {
		return nil, fmt.Errorf("memory_manager_state: %w", errSum)
	}
	if c.PolicyName == "" {
		return nil, errors.New("memory_manager_state: it has no policyName")
	}
	out := &admission.MemoryState{Policy: c.PolicyName, Nodes: map[int]*admission.MemoryNode{}, Entries: map[string]map[string][]admission.MemoryBlock{}}
	for id, n := range c.MachineState {
		if n == nil {
			return nil, fmt.Errorf("memory_manager_state: NUMA node %d has no account", id)
		}
		group, err := mask(append([]int{id}, n.Cells...))
		if err != nil {
			return nil, fmt.Errorf("memory_manager_state: NUMA node %d: %w", id, err)
		}
		to := &admission.MemoryNode{Assignments: n.NumberOfAssignments, Group: group, Tables: map[string]*admission.MemoryTable{}}
		for name, t := range n.MemoryMap {
			if t == nil {
				return nil, fmt.Errorf("memory_manager_state: NUMA node %d: %s has no account", id, name)
			}
			to.Tables[string(name)] = &admission.MemoryTable{TotalBytes: t.TotalMemSize, SystemReservedBytes: t.SystemReserved, AllocatableBytes: t.Allocatable, ReservedBytes: t.Reserved, FreeBytes: t.Free}
		}
		out.Nodes[id] = to
	}
	for pod, containers := range c.Entries {
		out.Entries[pod] = map[string][]admission.MemoryBlock{}
		for name, blocks := range containers {
			for _, b := range blocks {
				nodes, err := mask(b.NUMAAffinity)
				if err != nil {
					return nil, fmt.Errorf("memory_manager_state: container %s of pod %s: %w", name, pod, err)
				}
				out.Entries[pod][name] = append(out.Entries[pod][name], admission.MemoryBlock{Nodes: nodes, Resource: string(b.Type), SizeBytes: b.Size})
			}
		}
	}
	return out, nil
}

// mask is a set of NUMA nodes of a file.
func mask(nodes []int) (admission.Mask, error) {
	var m admission.Mask
	for _, n := range nodes {
		if n < 0 || n > 63 {
			return 0, fmt.Errorf("NUMA node %d: a kubelet has room for 0 to 63", n)
		}
		m |= 1 << n
	}
	return m, nil
}
