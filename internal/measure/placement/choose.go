package placement

import (
	"cmp"
	"math"
	"slices"
)

// Room is what a NUMA node offers to a new process.
type Room struct {
	Node            int
	TotalMB, FreeMB int
	// TotalCPU and FreeCPU are in hundredths of a core.
	TotalCPU, FreeCPU int
	// Distances are those to all nodes, in the order of the rooms; 10 is local.
	Distances []int
}

// keptMB is the memory that numad leaves on a node that it fills.
const keptMB = 100

// Choose returns the nodes on which a process with the given need fits best, in ascending order:
// what numad -w answers. cpu is in hundredths of a core. It returns all nodes if the process
// does not fit, and nil without rooms.
//
// The method is numad's (20150602): a node is worth (10 x wanted + 4 x spare memory) x (6 x wanted
// + 1 x spare CPU). Placement begins at the node for which the sum of worth / distance² over as many
// nodes as the process needs is largest, and takes the nodes in order of distance until the
// process fits. Unlike numad, which takes the first node's size for all, an average counts for the
// number of nodes needed.
func Choose(rooms []Room, mb, cpu int) []int { return choose(rooms, need{mb: mb, cpu: cpu}) }

// need is what a process needs: MiB and hundredths of a core.
type need struct {
	mb, cpu int
	// slack is the part of cpu that may be missing.
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

// nodesNeeded returns how many nodes of average size the need fills: 1 to all.
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

// nearest returns the indexes of all rooms in order of their distance from start; of equal
// distances the room of larger worth comes first.
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
