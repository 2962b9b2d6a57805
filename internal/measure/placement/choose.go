package placement

import (
	"cmp"
	"math"
	"slices"
)

// Room is the memory and CPU time that a NUMA node offers to a new process.
type Room struct {
	Node            int
	TotalMB, FreeMB int
	// TotalCPU and FreeCPU are in hundredths of a core.
	TotalCPU, FreeCPU int
	// Distances lists the distances to all nodes, in the order of the rooms; 10 is local.
	Distances []int
}

// keptMB is the memory that numad keeps free on a node that it fills.
const keptMB = 100

// Choose returns the nodes on which a process with the given need fits best, in ascending order,
// like numad -w. cpu is in hundredths of a core. It returns all nodes if the process does not fit,
// and nil without rooms.
//
// The method is numad's (20150602): a node is worth (10 x wanted + 4 x spare memory) x (6 x wanted
// + 1 x spare CPU). Placement begins at the node for which the sum of worth / distance² over as
// many nodes as the process needs is largest, and takes the nodes in order of distance until the
// process fits. numad calculates the number of needed nodes from the first node's size; Choose uses
// the average size.
func Choose(rooms []Room, mb, cpu int) []int { return choose(rooms, need{mb: mb, cpu: cpu}) }

// need is the memory in MiB and the CPU time in hundredths of a core that a process needs.
type need struct {
	mb, cpu int
	// slack is the part of cpu that the nodes may lack.
	slack int
	// memoryOnly takes nodes only until the memory fits. The CPU time still counts for the
	// worth of a node and for the number of nodes.
	memoryOnly bool
}

func choose(rooms []Room, n need) []int {
	mb, cpu := n.mb, n.cpu
	worth := make([]int, len(rooms))
	for i, r := range rooms {
		free := max(r.FreeCPU, 1) // numad keeps a busy node comparable by its memory
		m, c := min(mb, r.FreeMB), min(cpu, free)
		worth[i] = (10*m + 4*(r.FreeMB-m)) * (6*c + free - c)
	}
	var order []int
	needed := nodesNeeded(rooms, mb, cpu-n.slack)
	best := -1
	for start := range rooms {
		near := nearest(rooms, worth, start)
		sum := 0
		for _, i := range near[:needed] {
			sum += worth[i] / square(rooms[start].Distances[i])
		}
		if sum > best {
			best, order = sum, near
		}
	}
	var nodes []int
	for _, i := range order {
		r := rooms[i]
		nodes = append(nodes, r.Node)
		if mb > r.FreeMB-keptMB {
			mb -= max(r.FreeMB-keptMB, 0)
		} else {
			mb = 0
		}
		cpu -= min(cpu, max(r.FreeCPU, 1))
		if mb == 0 && (cpu <= n.slack || n.memoryOnly && len(nodes) >= needed) {
			break
		}
	}
	slices.Sort(nodes)
	return nodes
}

// nodesNeeded returns the number of nodes of average size that the need fills, at least 1 and at
// most all.
func nodesNeeded(rooms []Room, mb, cpu int) int {
	var totalMB, totalCPU int
	for _, r := range rooms {
		totalMB += r.TotalMB
		totalCPU += r.TotalCPU
	}
	of := func(want, total int) int {
		if total == 0 {
			return 1
		}
		return int(math.Ceil(float64(want) * float64(len(rooms)) / float64(total)))
	}
	return min(max(of(mb, totalMB), of(cpu, totalCPU), 1), len(rooms))
}

// nearest returns the indexes of all rooms in order of their distance from start. Among rooms at
// equal distance, the one with the larger worth comes first.
func nearest(rooms []Room, worth []int, start int) []int {
	all := make([]int, len(rooms))
	for i := range all {
		all[i] = i
	}
	slices.SortStableFunc(all, func(a, b int) int {
		d := rooms[start].Distances
		return cmp.Or(cmp.Compare(d[a], d[b]), cmp.Compare(worth[b], worth[a]))
	})
	return all
}

func square(d int) int { return max(d*d, 1) }
