package admission

import (
	"math/bits"

	"fettle.dev/fettle/internal/unit"
)

// Mask is a set of NUMA nodes: bit n is node n, of 0 to 63.
type Mask uint64

// NodesOf makes a set of nodes; those outside 0 to 63 are left out.
func NodesOf(nodes []int) Mask {
	var m Mask
	for _, n := range nodes {
		if n >= 0 && n < 64 {
			m |= 1 << n
		}
	}
	return m
}

// maskOf makes a set of nodes that have been checked to be of 0 to 63.
func maskOf(nodes ...int) Mask {
	var m Mask
	for _, n := range nodes {
		m |= 1 << n
	}
	return m
}

// Count is the number of nodes.
func (m Mask) Count() int { return bits.OnesCount64(uint64(m)) }

// Has reports whether a node is in the set; none outside 0 to 63 is.
func (m Mask) Has(node int) bool { return node >= 0 && node < 64 && m&(1<<node) != 0 }

// Nodes lists the nodes in ascending order.
func (m Mask) Nodes() []int {
	out := make([]int, 0, m.Count())
	for rest := uint64(m); rest != 0; rest &= rest - 1 {
		out = append(out, bits.TrailingZeros64(rest))
	}
	return out
}

// String is the set as a list: "0-1,3".
func (m Mask) String() string { return unit.CPUs(m.Nodes()...).String() }

// narrower reports whether a set has fewer nodes than another, or as many of lower
// numbers: the higher of the nodes that differ decides.
func (m Mask) narrower(than Mask) bool {
	if a, b := m.Count(), than.Count(); a != b {
		return a < b
	}
	return m < than
}

// subsets calls f with every set of the nodes that is not empty: the smaller ones
// first, and of one size in the order of the list.
func subsets(nodes []int, f func(Mask)) {
	var fill func(rest []int, m Mask, missing int)
	fill = func(rest []int, m Mask, missing int) {
		if missing == 0 {
			f(m)
			return
		}
		for i := 0; i+missing <= len(rest); i++ {
			fill(rest[i+1:], m|1<<rest[i], missing-1)
		}
	}
	for size := 1; size <= len(nodes); size++ {
		fill(nodes, 0, size)
	}
}
