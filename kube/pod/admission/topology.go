package admission

import (
	"maps"
	"slices"

	"fettle.dev/fettle/internal/unit"
)

// topology is where the CPUs of a node are. Cores are known by their lowest CPU, as
// the kubelet knows them, so that a number is unique in the machine.
type topology struct {
	all                           unit.CPUSet
	place                         map[int]place
	nodes, sockets, uncore, cores map[int]unit.CPUSet // their CPUs
}

// place is where one CPU is.
type place struct{ core, socket, node, uncore int }

func newTopology(n *Node) *topology {
	t := &topology{
		place: make(map[int]place, len(n.CPUs)),
		nodes: map[int]unit.CPUSet{}, sockets: map[int]unit.CPUSet{}, uncore: map[int]unit.CPUSet{}, cores: map[int]unit.CPUSet{},
	}
	type coreKey struct{ node, socket, core int }
	lowest := map[coreKey]int{}
	for _, c := range n.CPUs {
		k := coreKey{c.NUMA, c.Socket, c.Core}
		if first, ok := lowest[k]; !ok || c.ID < first {
			lowest[k] = c.ID
		}
	}
	lists := map[*map[int]unit.CPUSet]map[int][]int{}
	add := func(to *map[int]unit.CPUSet, id, cpu int) {
		if lists[to] == nil {
			lists[to] = map[int][]int{}
		}
		lists[to][id] = append(lists[to][id], cpu)
	}
	var every []int
	for _, c := range n.CPUs {
		p := place{core: lowest[coreKey{c.NUMA, c.Socket, c.Core}], socket: c.Socket, node: c.NUMA, uncore: c.Uncore}
		if p.uncore < 0 {
			p.uncore = c.Socket
		}
		t.place[c.ID] = p
		every = append(every, c.ID)
		add(&t.nodes, p.node, c.ID)
		add(&t.sockets, p.socket, c.ID)
		add(&t.uncore, p.uncore, c.ID)
		add(&t.cores, p.core, c.ID)
	}
	for to, ids := range lists {
		for id, cpus := range ids {
			(*to)[id] = unit.CPUs(cpus...)
		}
	}
	t.all = unit.CPUs(every...)
	return t
}

// The numbers of CPUs that the kubelet takes each core, socket and cache to have:
// averages, rounded down, which is what it has where CPUs are offline.

func (t *topology) perCore() int   { return t.all.Len() / len(t.cores) }
func (t *topology) perSocket() int { return t.all.Len() / len(t.sockets) }
func (t *topology) perUncore() int { return t.all.Len() / len(t.uncore) }

// nodeIDs lists the NUMA nodes that have CPUs.
func (t *topology) nodeIDs() []int { return slices.Sorted(maps.Keys(t.nodes)) }

// within are the CPUs of the NUMA nodes of a set.
func (t *topology) within(m Mask) unit.CPUSet {
	var s unit.CPUSet
	for _, n := range m.Nodes() {
		s = s.Union(t.nodes[n])
	}
	return s
}

// socketsOf are the sockets that have a CPU on the NUMA nodes of a set.
func (t *topology) socketsOf(m Mask) []int {
	var out []int
	for id, cpus := range t.sockets {
		for n, of := range t.nodes {
			if m.Has(n) && !cpus.Intersect(of).IsEmpty() {
				out = append(out, id)
				break
			}
		}
	}
	slices.Sort(out)
	return out
}

// wholeCores are all the CPUs of the cores that the CPUs of a set are on.
func (t *topology) wholeCores(s unit.CPUSet) unit.CPUSet {
	var out unit.CPUSet
	for _, cpus := range t.cores {
		if !cpus.Intersect(s).IsEmpty() {
			out = out.Union(cpus)
		}
	}
	return out
}

// nodesOf are the NUMA nodes that the CPUs of a set are on.
func (t *topology) nodesOf(s unit.CPUSet) Mask {
	var m Mask
	for n, cpus := range t.nodes {
		if !cpus.Intersect(s).IsEmpty() {
			m |= maskOf(n)
		}
	}
	return m
}
