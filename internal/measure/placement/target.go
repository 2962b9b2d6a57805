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

// Target returns the nodes on which a running process fits best, as numad chooses them. The
// process's own memory counts as free; call Lift first to free its CPU time. The memory of the
// process must be known. utilization is in percent.
//
// The process needs the memory that it uses, or its virtual size if it uses 80 % of a node and its
// virtual size exceeds one node. It needs the CPU time that it uses, but at most as many cores as
// it has threads (a virtual machine: CPUs). Its own memory counts 17/16 times, or 5/4 times if it
// is bound to some nodes, so that it does not move without a gain. Unlike numad, Target adds the
// time that the threads wait for a CPU to the CPU time, because two processes that share a CPU need
// two. This affects the worth of a node, but not the number of nodes.
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

// without returns the rooms of the nodes as if the process had no memory.
func (w *Workload) without(p *WorkloadProcess) []Room {
	more := 17.0 / 16
	if w.nodesOf(p).Len() < len(w.Rooms) { // bound
		more = 5.0 / 4
	}
	memory := map[int]float64{}
	for _, s := range p.Memory.Nodes {
		memory[s.Node] = float64(s.Bytes) / (1 << 20)
	}
	var rooms []Room
	for _, r := range w.Rooms {
		r.FreeMB = min(r.FreeMB+int(memory[r.Node]*more), r.TotalMB)
		rooms = append(rooms, r)
	}
	return rooms
}

// Lift frees the CPU time of the processes, as if they did not run; Place or Keep subtracts it
// again. The remaining CPU time, of other processes, is exact only for all nodes together, because
// threads may have run on other nodes than their last one. It is therefore scaled to the exact sum.
func (w *Workload) Lift(processes []*WorkloadProcess) {
	lifted, sum := map[int]float64{}, 0.0
	for _, p := range processes {
		for n, cpu := range w.cpuByNode(p) {
			lifted[n] += cpu
		}
		sum -= float64(p.CPU)
	}
	others, left := map[int]float64{}, 0.0
	for _, r := range w.Rooms {
		busy := float64(r.TotalCPU - r.FreeCPU)
		sum += busy
		others[r.Node] = max(busy-lifted[r.Node], 0)
		left += others[r.Node]
	}
	for i := range w.Rooms {
		r := &w.Rooms[i]
		if r.FreeCPU = r.TotalCPU; left > 0 {
			r.FreeCPU -= int(math.Round(others[r.Node] * max(sum, 0) / left))
		}
	}
}

// Keep subtracts the CPU time that Lift has freed, for a process that stays where it is.
func (w *Workload) Keep(p *WorkloadProcess) {
	use := w.cpuByNode(p)
	for i := range w.Rooms {
		w.Rooms[i].FreeCPU -= int(math.Round(use[w.Rooms[i].Node]))
	}
}

// cpuByNode returns the CPU time of a process by node, in hundredths of a core: where its threads last
// ran, or else evenly on the nodes that it may use.
func (w *Workload) cpuByNode(p *WorkloadProcess) map[int]float64 {
	use, known := map[int]float64{}, 0.0
	for _, s := range p.Memory.Nodes {
		use[s.Node] = float64(p.CPU) * s.CPUPercent / 100
		known += s.CPUPercent
	}
	if known == 0 {
		nodes := w.nodesOf(p).Numbers()
		for _, n := range nodes {
			use[n] = float64(p.CPU) / float64(len(nodes))
		}
	}
	return use
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

// Place updates the rooms for a lifted process that moves to the nodes, and returns its memory by
// node, in bytes. Memory that is already on these nodes stays; the rest is spread over them in
// proportion to their free memory.
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
			r.FreeCPU -= (p.CPU + p.Waiting) / nodes.Len() // below 0: more is wanted than the node has
		}
		r.FreeMB = min(r.FreeMB+toMB(s.Bytes-to[r.Node]), r.TotalMB)
	}
	return to
}

func toMB(bytes int64) int { return int(bytes >> 20) }
