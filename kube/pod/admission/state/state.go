// Package state reads the kubelet's files with its managers' assignments: cpu_manager_state and
// memory_manager_state in its root directory.
package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	kjson "sigs.k8s.io/json"

	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/unit"
	"fettle.dev/fettle/kube/pod/admission"
)

// maxSize limits a file, in bytes; thousands of pods need 1 MB.
const maxSize = 16 << 20

// errSum means that a file was changed after the kubelet wrote it; the kubelet does not start with
// it.
var errSum = errors.New("checksum mismatch: damaged or edited by hand; a kubelet does not start with this file")

// errForm means that another release's kubelet wrote the file, and this one does not start with it.
var errForm = errors.New("written by Kubernetes 1.36 or later with the feature gate PodLevelResourceManagers; without that gate a kubelet before 1.37 does not start. Drain the node and delete the file")

// reader describes the file forms that a starting kubelet supports.
type reader struct {
	lenient bool // ignores unknown keys, which is certain for its release
	data    bool // reads `data`
	pods    bool // reads podEntries
	noSum   bool // accepts memory_manager_state without a checksum
}

// readerOf returns the reader for settings; for an unknown or newer release, it supports all known
// forms. Source: as for the forms; 1.36 and 1.37 were run (test/admission, TestForms).
func readerOf(s admission.Settings) reader {
	r := s.Release
	if r == 0 || r > admission.Newest {
		return reader{data: true, pods: true}
	}
	return reader{lenient: true, data: r >= 37, pods: r >= 37 || s.ManagesPods(), noSum: r >= 36}
}

// decode decodes JSON like the kubelet. For an unknown kubelet, duplicate keys, and keys that no
// known kubelet writes, are errors.
func (k reader) decode(data []byte, into any) error {
	if len(data) > maxSize {
		return text.Errorf("the file has %d bytes; at most %d allowed", len(data), maxSize)
	}
	if k.lenient {
		return json.Unmarshal(data, into)
	}
	strict, err := kjson.UnmarshalStrict(data, into)
	if err != nil {
		return err
	}
	if err := errors.Join(strict...); err != nil {
		return fmt.Errorf("not in a format that kubelets of Kubernetes 1.18 to %s write: %w", admission.Newest, err)
	}
	return nil
}

// CPU parses cpu_manager_state like a kubelet of the settings' release, in all forms of Kubernetes
// 1.18 to 1.37.
func CPU(text []byte, s admission.Settings) (*admission.CPUState, error) {
	out, err := readCPU(text, readerOf(s))
	if err != nil {
		return nil, fmt.Errorf("cpu_manager_state: %w", err)
	}
	return out, nil
}

func readCPU(text []byte, k reader) (*admission.CPUState, error) {
	c := cpuFile{cpuFields: cpuFields{Entries: map[string]map[string]string{}}}
	if err := k.decode(text, &c); err != nil {
		return nil, err
	}
	fields, err := c.verified(k)
	if err != nil {
		return nil, err
	}
	if fields.PolicyName == "" {
		return nil, errors.New("no policyName")
	}
	out := &admission.CPUState{Policy: fields.PolicyName, Entries: map[string]map[string]unit.CPUSet{}, Pods: map[string]unit.CPUSet{}}
	if out.Default, err = cpus(fields.DefaultCPUSet); err != nil {
		return nil, fmt.Errorf("defaultCpuSet: %w", err)
	}
	for pod, containers := range fields.Entries {
		out.Entries[pod] = map[string]unit.CPUSet{}
		for name, set := range containers {
			if out.Entries[pod][name], err = cpus(set); err != nil {
				return nil, fmt.Errorf("container %s of pod %s: %w", name, pod, err)
			}
		}
	}
	for pod, entry := range fields.PodEntries {
		if out.Pods[pod], err = cpus(entry.CPUSet); err != nil {
			return nil, fmt.Errorf("pod %s: %w", pod, err)
		}
	}
	return out, nil
}

// cpus parses a list in the kubelet's form: only numbers and ranges.
func cpus(list string) (unit.CPUSet, error) {
	if rest := strings.Trim(list, "0123456789,-"); rest != "" {
		return unit.CPUSet{}, fmt.Errorf("CPU list %q: want numbers and ranges", list)
	}
	return unit.ParseCPUList(list)
}

// Memory parses memory_manager_state like a kubelet of the settings' release, in all forms of
// Kubernetes 1.22 to 1.37.
func Memory(text []byte, s admission.Settings) (*admission.MemoryState, error) {
	out, err := readMemory(text, readerOf(s))
	if err != nil {
		return nil, fmt.Errorf("memory_manager_state: %w", err)
	}
	return out, nil
}

func readMemory(text []byte, k reader) (*admission.MemoryState, error) {
	c := memoryFile{memoryFields: memoryFields{MachineState: NUMANodeMap{}, Entries: ContainerMemoryAssignments{}}}
	if err := k.decode(text, &c); err != nil {
		return nil, err
	}
	fields, err := c.verified(k)
	if err != nil {
		return nil, err
	}
	if fields.PolicyName == "" {
		return nil, errors.New("no policyName")
	}
	out := &admission.MemoryState{Policy: fields.PolicyName, Nodes: map[int]*admission.MemoryNode{}, Entries: map[string]map[string][]admission.MemoryBlock{}, Pods: map[string][]admission.MemoryBlock{}}
	for id, n := range fields.MachineState {
		if n == nil {
			return nil, fmt.Errorf("NUMA node %d: empty entry", id)
		}
		group, err := mask(append([]int{id}, n.Cells...))
		if err != nil {
			return nil, fmt.Errorf("NUMA node %d: %w", id, err)
		}
		to := &admission.MemoryNode{Assignments: n.NumberOfAssignments, Group: group, Tables: map[string]*admission.MemoryTable{}}
		for name, t := range n.MemoryMap {
			if t == nil {
				return nil, fmt.Errorf("NUMA node %d: empty entry for %s", id, name)
			}
			to.Tables[string(name)] = &admission.MemoryTable{TotalBytes: t.TotalMemSize, SystemReservedBytes: t.SystemReserved, AllocatableBytes: t.Allocatable, ReservedBytes: t.Reserved, FreeBytes: t.Free}
		}
		out.Nodes[id] = to
	}
	for pod, containers := range fields.Entries {
		out.Entries[pod] = map[string][]admission.MemoryBlock{}
		for name, list := range containers {
			if out.Entries[pod][name], err = blocks(list); err != nil {
				return nil, fmt.Errorf("container %s of pod %s: %w", name, pod, err)
			}
		}
	}
	for pod, entry := range fields.PodEntries {
		if out.Pods[pod], err = blocks(entry.MemoryBlocks); err != nil {
			return nil, fmt.Errorf("pod %s: %w", pod, err)
		}
	}
	return out, nil
}

func blocks(list []Block) ([]admission.MemoryBlock, error) {
	var out []admission.MemoryBlock
	for _, b := range list {
		nodes, err := mask(b.NUMAAffinity)
		if err != nil {
			return nil, err
		}
		out = append(out, admission.MemoryBlock{Nodes: nodes, Resource: string(b.Type), SizeBytes: b.Size})
	}
	return out, nil
}

// mask converts a file's NUMA nodes to a set.
func mask(nodes []int) (admission.Mask, error) {
	var m admission.Mask
	for _, n := range nodes {
		if n < 0 || n > 63 {
			return 0, fmt.Errorf("NUMA node %d: want 0 to 63", n)
		}
		m |= 1 << n
	}
	return m, nil
}
