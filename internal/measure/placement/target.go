package placement

import (
	"cmp"
	"math"
	"strings"

	"fettle.dev/fettle/internal/unit"
)

// Utilization is the share of its memory and CPU time that a process should use, in percent:
// numad's -u.
const Utilization = 85

// Target returns the nodes on which a process with known memory fits best, if its own memory and
// CPU time count as free: numad's choice for a running process. utilization is in percent.
//
// The process needs the memory that it uses, or its virtual size if it uses 80 % of a node and its
// virtual size exceeds one node. It needs the CPU time that it uses, but at most as many cores as
// it has threads (a virtual machine: CPUs). Its own memory counts a little more than free memory
// (17/16), and if it is bound to some nodes, more (5/4), so that a process does not move for
// nothing. Unlike numad, which assumes that a process runs where its memory is, Target counts its CPU
// time as free where its threads last ran: on a busy machine, only that node has a CPU for it. And the
// time in which its threads wait for a CPU counts for the worth of a node, though not for the number of
// nodes: two processes that share a CPU need two.
func (w *Workload) Target(p *WorkloadProcess, utilization int) unit.CPUSet {
	if p.Memory == nil || p.Memory.Bytes == 0 || len(w.Rooms) == 0 {
		return unit.CPUSet{}
	}
	average := 0
	for _, r := range w.Rooms {
		average += r.TotalMB / len(w.Rooms)
	}
	n := need{mb: toMB(p.ResidentBytes), memoryOnly: true}
	if size := toMB(p.VirtualBytes); size > average && n.mb*5/4 > average {
		n.mb = size
	}
	n.mb = n.mb * 100 / min(utilization, 100)
	most := 100 * cmp.Or(p.vcpus, p.Threads)
	n.cpu = min((p.CPU+p.Waiting)*100/utilization, most)
	n.slack = max((100-utilization)*w.Rooms[0].TotalCPU/200, 0) + n.cpu - min(p.CPU*100/utilization, most)
	return unit.CPUs(choose(w.without(p), n)...)
}

// without returns the rooms that the nodes would have without the process.
func (w *Workload) without(p *WorkloadProcess) []Room {
	on := w.nodesOf(p)
	free, bound := p.CPU, on.Len() < len(w.Rooms)
	for _, r := range w.Rooms {
		if on.Has(r.Node) {
			free += r.FreeCPU
		}
	}
	memory, cpu, known := map[int]float64{}, map[int]float64{}, 0.0
	for _, s := range p.Memory.Nodes {
		memory[s.Node] = float64(s.Bytes) / (1 << 20)
		cpu[s.Node] = float64(p.CPU) * s.CPUPercent / 100
		known += s.CPUPercent
	}
	var rooms []Room
	for _, r := range w.Rooms {
		mb, more := memory[r.Node], 17.0/16
		if bound {
			more = 5.0 / 4
		}
		r.FreeMB = min(r.FreeMB+int(mb*more), r.TotalMB)
		switch {
		case !bound && known > 0:
			r.FreeCPU += int(math.Round(cpu[r.Node]))
		case !bound:
			r.FreeCPU += int(math.Round(float64(p.CPU) * mb * (1 << 20) / float64(p.Memory.Bytes)))
		case on.Has(r.Node):
			r.FreeCPU = free / on.Len()
		}
		r.FreeCPU = min(r.FreeCPU, r.TotalCPU)
		rooms = append(rooms, r)
	}
	return rooms
}

// nodesOf returns the nodes with CPUs that the process may use.
func (w *Workload) nodesOf(p *WorkloadProcess) unit.CPUSet {
	cpus, _ := unit.ParseCPUList(p.CPUs)
	var on []int
	for _, n := range w.View.Nodes {
		own, _ := unit.ParseCPUList(strings.TrimSpace(n.CPUs.Or("")))
		if own.IsEmpty() || !own.Intersect(cpus).IsEmpty() { // a node of memory only counts as usable
			on = append(on, n.Number)
		}
	}
	return unit.CPUs(on...)
}

// Elsewhere returns the memory of a process on other nodes than the given ones, in bytes.
func (p *WorkloadProcess) Elsewhere(nodes unit.CPUSet) (bytes int64) {
	for _, s := range p.Memory.Nodes {
		if !nodes.Has(s.Node) {
			bytes += s.Bytes
		}
	}
	return bytes
}

// Place changes the rooms to what they are after a process has moved to the nodes, and returns its
// memory by node, in bytes. What is on the nodes stays; the rest is spread over them in proportion to
// their free memory.
func (w *Workload) Place(p *WorkloadProcess, nodes unit.CPUSet) map[int]int64 {
	was, to := map[int]NodeShare{}, map[int]int64{}
	for _, s := range p.Memory.Nodes {
		was[s.Node] = s
	}
	free := 0
	for _, r := range w.Rooms {
		if nodes.Has(r.Node) {
			free += max(r.FreeMB, 1)
		}
	}
	for i := range w.Rooms {
		r := &w.Rooms[i]
		s := was[r.Node]
		if nodes.Has(r.Node) {
			to[r.Node] = s.Bytes + int64(float64(p.Elsewhere(nodes))*float64(max(r.FreeMB, 1))/float64(free))
			r.FreeCPU -= (p.CPU + p.Waiting) / nodes.Len()
		}
		r.FreeMB = min(r.FreeMB+toMB(s.Bytes-to[r.Node]), r.TotalMB)
		// Below 0: more is wanted than the node has.
		r.FreeCPU = min(r.FreeCPU+int(float64(p.CPU)*s.CPUPercent/100), r.TotalCPU)
	}
	return to
}

func toMB(bytes int64) int { return int(bytes >> 20) }
