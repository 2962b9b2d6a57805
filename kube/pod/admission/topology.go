package admission

import (
	"maps"
	"math/bits"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"fettle.dev/fettle/internal/unit"
)

// topology holds the locations of a node's CPUs. As in the kubelet, a core's ID is its lowest CPU,
// which is unique in the machine.
type topology struct {
	all                           unit.CPUSet
	place                         map[int]place
	nodes, sockets, uncore, cores map[int]unit.CPUSet // CPUs by ID
}

// place is the location of one CPU.
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

// Average numbers of CPUs per core, socket and cache, rounded down like in the kubelet, for example
// with offline CPUs.

func (t *topology) perCore() int   { return t.all.Len() / len(t.cores) }
func (t *topology) perSocket() int { return t.all.Len() / len(t.sockets) }
func (t *topology) perUncore() int { return t.all.Len() / len(t.uncore) }

// nodeIDs returns the NUMA nodes that have CPUs.
func (t *topology) nodeIDs() []int { return slices.Sorted(maps.Keys(t.nodes)) }

// within returns the CPUs of a set of NUMA nodes.
func (t *topology) within(m Mask) unit.CPUSet {
	var s unit.CPUSet
	for _, n := range m.Nodes() {
		s = s.Union(t.nodes[n])
	}
	return s
}

// socketsOf returns the sockets that have a CPU on a set of NUMA nodes.
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

// wholeCores returns all CPUs of the cores that contain CPUs of a set.
func (t *topology) wholeCores(s unit.CPUSet) unit.CPUSet {
	var out unit.CPUSet
	for _, cpus := range t.cores {
		if !cpus.Intersect(s).IsEmpty() {
			out = out.Union(cpus)
		}
	}
	return out
}

// nodesOf returns the NUMA nodes that contain CPUs of a set.
func (t *topology) nodesOf(s unit.CPUSet) Mask {
	var m Mask
	for n, cpus := range t.nodes {
		if !cpus.Intersect(s).IsEmpty() {
			m |= maskOf(n)
		}
	}
	return m
}

// Mask is a set of NUMA nodes: bit n is node n, of 0 to 63.
type Mask uint64

// NodesOf returns a set of nodes; nodes outside 0 to 63 are ignored.
func NodesOf(nodes []int) Mask {
	var m Mask
	for _, n := range nodes {
		if n >= 0 && n < 64 {
			m |= 1 << n
		}
	}
	return m
}

// maskOf returns a set of nodes that are known to be within 0 to 63.
func maskOf(nodes ...int) Mask {
	var m Mask
	for _, n := range nodes {
		m |= 1 << n
	}
	return m
}

// Count returns the number of nodes.
func (m Mask) Count() int { return bits.OnesCount64(uint64(m)) }

// Has reports whether a node is in the set; false outside 0 to 63.
func (m Mask) Has(node int) bool { return node >= 0 && node < 64 && m&(1<<node) != 0 }

// Nodes returns the nodes in ascending order.
func (m Mask) Nodes() []int {
	out := make([]int, 0, m.Count())
	for rest := uint64(m); rest != 0; rest &= rest - 1 {
		out = append(out, bits.TrailingZeros64(rest))
	}
	return out
}

// String returns the set as a list: "0-1,3".
func (m Mask) String() string { return unit.CPUs(m.Nodes()...).String() }

// narrower reports whether a set has fewer nodes than another, or equally many but lower ones: the
// highest differing node decides.
func (m Mask) narrower(than Mask) bool {
	if a, b := m.Count(), than.Count(); a != b {
		return a < b
	}
	return m < than
}

// subsets calls f with every nonempty set of nodes: smaller sets first, sets of one size in list
// order.
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

// amount is a sum of quantities.
type amount struct{ resource.Quantity }

func (a *amount) add(q resource.Quantity) { a.Add(q) }
func (a *amount) addInt(n int64)          { a.Add(*resource.NewQuantity(n, resource.DecimalSI)) }

// names returns the sorted names of the resources.
func (r Resources) names() []string { return slices.Sorted(maps.Keys(r)) }

func (r Resources) clone() Resources {
	if r == nil {
		return nil
	}
	out := make(Resources, len(r))
	for name, q := range r {
		out[name] = q.DeepCopy()
	}
	return out
}

// plus adds the amounts of more.
func (r Resources) plus(more Resources) {
	for name, q := range more {
		sum := r[name].DeepCopy()
		sum.Add(q)
		r[name] = sum
	}
}

// atLeast raises the amounts to those of other.
func (r Resources) atLeast(other Resources) {
	for name, q := range other {
		if have, ok := r[name]; !ok || q.Cmp(have) > 0 {
			r[name] = q.DeepCopy()
		}
	}
}

// isHugePages reports whether a resource is a size of huge pages.
func isHugePages(name string) bool { return strings.HasPrefix(name, hugePages) }

// isNative reports whether a resource is Kubernetes' own: its name has no domain, or kubernetes.io.
func isNative(name string) bool {
	return !strings.Contains(name, "/") || strings.Contains(name, "kubernetes.io/")
}

// isExtended reports whether a resource comes from a device plug-in or another program.
func isExtended(name string) bool { return !isNative(name) && !strings.HasPrefix(name, "requests.") }

// mayOvercommit reports whether a request may be below the limit.
func mayOvercommit(name string) bool { return isNative(name) && !isHugePages(name) }

// ofPod reports whether a pod as a whole can have a resource.
func ofPod(name string) bool { return name == CPU || name == Memory || isHugePages(name) }

// positive reports whether a quantity is above zero.
func positive(q resource.Quantity) bool { return q.Sign() > 0 }
