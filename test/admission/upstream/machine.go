package upstream

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"fettle.dev/fettle/kube/pod/admission"
)

// reserved returns the resources that the container manager reserves on the node
// (GetNodeAllocatableReservation).
func reserved(s admission.Settings) v1.ResourceList {
	out := v1.ResourceList{}
	for _, list := range []admission.Resources{s.KubeReserved, s.SystemReserved} {
		for name, q := range list {
			sum := out[v1.ResourceName(name)]
			sum.Add(q)
			out[v1.ResourceName(name)] = sum
		}
	}
	if n := s.ReservedSystemCPUs.Len(); n > 0 {
		out[v1.ResourceCPU] = *resource.NewQuantity(int64(n), resource.DecimalSI)
	}
	memory := out[v1.ResourceMemory]
	memory.Add(*resource.NewQuantity(int64(s.EvictionHardMemoryBytes), resource.BinarySI))
	out[v1.ResourceMemory] = memory
	for name, q := range out {
		if q.IsZero() {
			delete(out, name)
		}
	}
	return out
}

// Machine returns a machine as cAdvisor reports it.
func Machine(n *admission.Node) *machineInfo {
	m := &machineInfo{NumCores: len(n.CPUs)}
	sockets := map[int]bool{}
	for _, node := range n.NUMA {
		c := machineNode{Id: node.ID, Memory: node.MemoryBytes, Distances: node.Distances}
		for _, h := range node.HugePages {
			c.HugePages = append(c.HugePages, machinePages{PageSize: h.SizeBytes / 1024, NumPages: h.Pages})
		}
		type key struct{ socket, core int }
		at := map[key]int{}
		for _, cpu := range n.CPUs {
			if cpu.NUMA != node.ID {
				continue
			}
			sockets[cpu.Socket] = true
			k := key{cpu.Socket, cpu.Core}
			i, ok := at[k]
			if !ok {
				i = len(c.Cores)
				at[k] = i
				core := machineCore{Id: cpu.Core, SocketID: cpu.Socket}
				if cpu.Uncore >= 0 {
					core.UncoreCaches = []machineCache{{Id: cpu.Uncore, Level: 3}}
				}
				c.Cores = append(c.Cores, core)
			}
			c.Cores[i].Threads = append(c.Cores[i].Threads, cpu.ID)
		}
		m.Topology = append(m.Topology, c)
	}
	m.NumSockets = len(sockets)
	return m
}
