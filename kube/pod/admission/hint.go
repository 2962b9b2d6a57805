package admission

import (
	"cmp"
	"fmt"
	"slices"

	"fettle.dev/fettle/internal/text"
)

// Providers of hints, in the kubelet's calling order.
const (
	deviceProvider = "device manager"
	cpuProvider    = "CPU manager"
	memoryProvider = "memory manager"
)

// Hint is a set of NUMA nodes that can provide a resource.
type Hint struct {
	Nodes Mask
	// Preferred reports whether no smaller set could ever suffice.
	Preferred bool
}

// Answer is one provider's answer for one resource.
type Answer struct {
	Provider string
	// Resource is "" if the provider has no answer.
	Resource string
	// Any means that every set of nodes is suitable, None that no set is.
	Any, None bool
	// Hints are the suitable sets, unless Any or None is set.
	Hints []Hint
	// Why explains the answer.
	Why string
}

// Alignment is the topology manager's decision on the answers.
type Alignment struct {
	Answers []Answer
	// Any means that the resources may come from any node; otherwise they come from Nodes.
	Any       bool
	Nodes     Mask
	Preferred bool
	// Admit is the policy's decision.
	Admit bool
	// Combinations is the number of combinations of hints that the kubelet tries.
	Combinations float64
}

// topologyManager merges hints by its policy.
type topologyManager struct {
	policy, scope string
	options       topologyOptions
	nodes         []int // ascending
	all           Mask
	distances     map[int][]uint64
}

// newTopologyManager starts the topology manager like the kubelet; the error says why the kubelet
// does not start.
func newTopologyManager(in *Input, s Settings) (topologyManager, error) {
	t := topologyManager{policy: s.TopologyManagerPolicy, scope: s.TopologyManagerScope, nodes: in.Node.nodeIDs(), distances: map[int][]uint64{}}
	t.all = maskOf(t.nodes...)
	switch t.policy {
	case PolicyNone, PolicyBestEffort, PolicyRestricted, PolicySingleNUMANode:
	default:
		return t, fmt.Errorf("topologyManagerPolicy %q: want none, best-effort, restricted or single-numa-node", t.policy)
	}
	if t.scope != ScopeContainer && t.scope != ScopePod {
		return t, fmt.Errorf("topologyManagerScope %q: want container or pod", t.scope)
	}
	if t.policy == PolicyNone {
		return t, nil // its options are ignored
	}
	var err error
	if t.options, err = s.topologyOptions(); err != nil {
		return t, err
	}
	if len(t.nodes) > t.options.maxNodes {
		return t, text.Errorf("the machine has %d NUMA nodes, but the topology manager supports at most %d (topologyManagerPolicyOptions: max-allowable-numa-nodes)", len(t.nodes), t.options.maxNodes)
	}
	for _, n := range in.Node.NUMA {
		t.distances[n.ID] = n.Distances
		if t.options.closest && len(n.Distances) <= t.nodes[len(t.nodes)-1] {
			return t, fmt.Errorf("topologyManagerPolicyOptions: prefer-closest-numa-nodes needs all NUMA distances; node %d has %d", n.ID, len(n.Distances))
		}
	}
	return t, nil
}

// align merges answers and decides. All sets contain only the machine's nodes.
//
// The kubelet tries every combination of one hint per resource. Its result is the nodes common to
// all hints, preferred if all hints are preferred and equal. The best result by a total order
// applies. align finds the same result without trying all combinations: a preferred result is a set
// that every resource prefers, and intersections returns the others.
func (t *topologyManager) align(answers []Answer) Alignment {
	out := Alignment{Answers: answers, Any: true, Admit: true, Combinations: 1}
	if t.policy == PolicyNone {
		return out
	}
	lists := make([][]Hint, 0, len(answers)) // only answers that name nodes
	opinions, impossible := 0, false
	for _, a := range answers {
		hints := a.Hints
		switch {
		case a.Any:
			continue
		case a.None:
			impossible = true
			opinions++
			continue
		}
		opinions++
		if t.policy == PolicySingleNUMANode {
			hints = slices.DeleteFunc(slices.Clone(hints), func(h Hint) bool { return h.Nodes.Count() != 1 || !h.Preferred })
		}
		out.Combinations *= float64(len(hints))
		lists = append(lists, hints)
	}
	out.Any, out.Nodes, out.Preferred = t.best(lists, impossible)
	if opinions == 0 {
		out.Any, out.Nodes, out.Preferred = false, t.all, true
	}
	if t.policy == PolicySingleNUMANode && out.Nodes == t.all {
		out.Any = true // even on a machine with one node
	}
	out.Admit = t.policy == PolicyBestEffort || out.Preferred
	return out
}

// best returns the merged hint if at least one resource has hints.
func (t *topologyManager) best(lists [][]Hint, impossible bool) (anywhere bool, nodes Mask, preferred bool) {
	if t.policy == PolicySingleNUMANode && impossible || slices.ContainsFunc(lists, func(l []Hint) bool { return len(l) == 0 }) {
		return false, t.all, false // no combination exists
	}
	if !impossible && len(lists) > 0 {
		if m, ok := t.least(inEvery(lists)); ok {
			return false, m, true
		}
	}
	// Among sets that are not preferred, the best has as many nodes as the neediest resource, or
	// the next lower number.
	most := 0
	for _, list := range lists {
		narrowest := slices.MinFunc(list, func(a, b Hint) int { return cmp.Compare(a.Nodes.Count(), b.Nodes.Count()) })
		most = max(most, narrowest.Nodes.Count())
	}
	var equal, below, above []Mask
	widest := 0
	for _, m := range t.intersections(lists) {
		switch n := m.Count(); {
		case n == 0:
		case n == most:
			equal = append(equal, m)
		case n > most:
			above = append(above, m)
		default:
			below = append(below, m)
			widest = max(widest, n)
		}
	}
	below = slices.DeleteFunc(below, func(m Mask) bool { return m.Count() != widest })
	for _, group := range [][]Mask{equal, below, above} {
		if m, ok := t.least(group); ok {
			return false, m, false
		}
	}
	return false, t.all, false
}

// inEvery returns the sets that all resources prefer.
func inEvery(lists [][]Hint) []Mask {
	votes := map[Mask]int{}
	for i, list := range lists {
		for _, h := range list {
			if h.Preferred && votes[h.Nodes] == i { // each list contains a set only once
				votes[h.Nodes] = i + 1
			}
		}
	}
	var out []Mask
	for m, n := range votes {
		if n == len(lists) {
			out = append(out, m)
		}
	}
	return out
}

// least returns the set that the policy prefers: the one with the fewest nodes; among equals the
// one with the lowest numbers or, with prefer-closest-numa-nodes, the smallest mean distance.
func (t *topologyManager) least(masks []Mask) (Mask, bool) {
	if len(masks) == 0 {
		return 0, false
	}
	return slices.MinFunc(masks, func(a, b Mask) int {
		if n := cmp.Compare(a.Count(), b.Count()); n != 0 {
			return n
		}
		if t.options.closest && t.policy != PolicySingleNUMANode {
			if n := cmp.Compare(t.distance(a), t.distance(b)); n != 0 {
				return n
			}
		}
		return cmp.Compare(a, b)
	}), true
}

// distance returns the mean distance between a set's nodes, including each to itself.
func (t *topologyManager) distance(m Mask) float64 {
	nodes := m.Nodes()
	var sum float64
	for _, a := range nodes {
		for _, b := range nodes {
			sum += float64(t.distances[a][b])
		}
	}
	return sum / float64(len(nodes)*len(nodes))
}

// intersections returns all sets that are the intersection of one hint from each list; without
// lists, all nodes. It counts the combinations within each set as the product of the lists' numbers
// of supersets (a zeta transform over supersets).
func (t *topologyManager) intersections(lists [][]Hint) []Mask {
	n := len(t.nodes)
	size := 1 << n
	bit := map[int]int{}
	for i, node := range t.nodes {
		bit[node] = 1 << i
	}
	pack := func(m Mask) int {
		p := 0
		for _, node := range m.Nodes() {
			p |= bit[node]
		}
		return p
	}
	reached := make([]uint64, size) // 1 if the set is an intersection of the lists so far
	reached[size-1] = 1
	for _, list := range lists {
		next := make([]uint64, size)
		for _, h := range list {
			next[pack(h.Nodes)] = 1
		}
		supersets(reached, n, func(a, b uint64) uint64 { return a + b })
		supersets(next, n, func(a, b uint64) uint64 { return a + b })
		for i := range reached {
			reached[i] *= next[i]
		}
		supersets(reached, n, func(a, b uint64) uint64 { return a - b })
		for i := range reached {
			reached[i] = min(reached[i], 1)
		}
	}
	var out []Mask
	for p, ok := range reached {
		if ok == 0 {
			continue
		}
		var m Mask
		for i, node := range t.nodes {
			if p&(1<<i) != 0 {
				m |= maskOf(node)
			}
		}
		out = append(out, m)
	}
	return out
}

// supersets combines each set's value with the values of all its supersets.
func supersets(values []uint64, nodes int, combine func(set, with uint64) uint64) {
	for i := range nodes {
		for s := range values {
			if s&(1<<i) == 0 {
				values[s] = combine(values[s], values[s|1<<i])
			}
		}
	}
}
