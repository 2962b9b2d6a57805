package admission

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/text"
)

// memoryRequest is a request in bytes, by resource.
type memoryRequest map[string]uint64

// memoryOf returns a container's request to the memory manager, or an error if an amount is not
// a whole number of bytes.
func memoryOf(c *Container) (memoryRequest, error) {
	out := memoryRequest{}
	for _, name := range c.Requests.names() {
		if name != Memory && !isHugePages(name) {
			continue
		}
		q := c.Requests[name]
		bytes, ok := q.AsInt64()
		if !ok {
			return nil, fmt.Errorf("%s of container %s is %s, which is not a whole number of bytes", name, c.Name, q.String())
		}
		out[name] = uint64(bytes)
	}
	return out, nil
}

// memoryOfPod returns the memory that a pod's containers need together. It includes only resources
// that a container other than an init container requests.
func (p *Pod) memoryOfPod() (memoryRequest, error) {
	starting, sidecars, running := memoryRequest{}, memoryRequest{}, memoryRequest{}
	for i := range p.Init {
		asked, err := memoryOf(&p.Init[i])
		if err != nil {
			return nil, err
		}
		for name, bytes := range asked {
			if p.Init[i].Sidecar {
				sidecars[name] += bytes
			} else {
				starting[name] = max(starting[name], sidecars[name]+bytes)
			}
		}
	}
	for i := range p.Containers {
		asked, err := memoryOf(&p.Containers[i])
		if err != nil {
			return nil, err
		}
		for name, bytes := range asked {
			running[name] += bytes
		}
	}
	for name := range running {
		running[name] = max(running[name]+sidecars[name], starting[name])
	}
	return running, nil
}

// reusable is the memory held by the pod's init containers, by nodes and resource.
type reusable map[Mask]memoryRequest

// missing returns a resource for which a NUMA node has no account, or "". The kubelet crashes in
// this case.
func (a memoryAccounts) missing(want memoryRequest) string {
	for _, id := range a.ids() {
		for _, name := range sorted(want) {
			if a[id].Tables[name] == nil {
				return name
			}
		}
	}
	return ""
}

// hints returns the sets of NUMA nodes with room for all requests; they are the same for memory and
// every huge page size. A node that is used by itself cannot be part of a set, and a node that is
// used in a set cannot be used by itself.
func (a memoryAccounts) hints(want memoryRequest, reuse reusable) (hints []Hint, least int, held []string) {
	ids, names := a.ids(), sorted(want)
	least = len(ids)
	tables := make([]*MemoryTable, 0, len(ids)*len(names)) // accounts of each node, in the order of names
	for _, id := range ids {
		for _, name := range names {
			tables = append(tables, a[id].Tables[name])
		}
	}
	conflicts := map[string]bool{}
	// sums reports whether, for every request, the sum of get over a set's nodes suffices.
	sums := func(set Mask, get func(*MemoryTable) uint64, more memoryRequest) bool {
		for j, name := range names {
			var sum uint64
			for i, id := range ids {
				if set.Has(id) {
					sum += get(tables[i*len(names)+j])
				}
			}
			if sum+more[name] < want[name] {
				return false
			}
		}
		return true
	}
	subsets(ids, func(set Mask) {
		if !sums(set, func(t *MemoryTable) uint64 { return t.AllocatableBytes }, nil) {
			return
		}
		least = min(least, set.Count())
		for _, id := range ids {
			if !set.Has(id) || a.agrees(id, set) {
				continue
			}
			if set.Count() <= least {
				conflicts[a.conflict(id, set)] = true
			}
			return
		}
		if sums(set, func(t *MemoryTable) uint64 { return t.FreeBytes }, reuse[set]) {
			hints = append(hints, Hint{Nodes: set})
		}
	})
	for i, h := range hints {
		hints[i].Preferred = h.Nodes.Count() == least
	}
	return hints, least, sorted(conflicts)
}

// agrees reports whether a node can be part of a set, given its present use.
func (a memoryAccounts) agrees(id int, set Mask) bool {
	n := a[id]
	if set.Count() == 1 {
		return n.Group.Count() == 1
	}
	return n.Assignments == 0 || n.Group == set
}

// conflict returns why a node cannot be part of a set.
func (a memoryAccounts) conflict(id int, set Mask) string {
	switch n := a[id]; {
	case set.Count() == 1:
		return fmt.Sprintf("node %d is used together with %s and not alone", id, n.Group)
	case n.Group.Count() == 1:
		return fmt.Sprintf("node %d is used alone and not together with others", id)
	default:
		return fmt.Sprintf("node %d is used together with %s and not in another group", id, n.Group)
	}
}

// answers returns the memory manager's hints for a request. If no node has room it returns none,
// like the kubelet: the allocation fails later with the reason UnexpectedAdmissionError.
func (a memoryAccounts) answers(want memoryRequest, reuse reusable) []Answer {
	hints, least, held := a.hints(want, reuse)
	words := map[string]string{}
	for _, name := range sorted(want) {
		var free []string
		for _, id := range a.ids() {
			free = append(free, fmt.Sprintf("%s on node %d", Bytes(a[id].Tables[name].FreeBytes), id))
		}
		words[name] = fmt.Sprintf("%s requested; free: %s", Bytes(want[name]), strings.Join(free, ", "))
	}
	conflicts := ""
	if len(held) > 0 {
		conflicts = "; " + strings.Join(held, ", ")
	}
	var out []Answer
	if len(hints) == 0 {
		var all []string
		for _, name := range sorted(want) {
			all = append(all, name+": "+words[name])
		}
		return []Answer{{Provider: memoryProvider, Any: true, Why: "no set of NUMA nodes has room, but the memory manager only rejects this when it allocates: " + strings.Join(all, "; ") + conflicts}}
	}
	for _, name := range sorted(want) {
		out = append(out, Answer{Provider: memoryProvider, Resource: name, Hints: hints,
			Why: words[name] + conflicts + fmt.Sprintf("; on an empty machine all requests together would fit on %s", text.Count(least, "NUMA node"))})
	}
	return out
}

// give allocates a container's request on the topology manager's nodes, or on more nodes if it does
// not fit, by the rules of a release.
func (a memoryAccounts) give(want memoryRequest, reuse reusable, hint Alignment, r Release) ([]MemoryBlock, error) {
	nodes, preferred := hint.Nodes, hint.Preferred
	refuse := func(format string, args ...any) ([]MemoryBlock, error) {
		return nil, &refusal{ReasonUnexpected, fmt.Sprintf(format, args...)}
	}
	var hints []Hint
	var held []string
	if hint.Any || !a.fits(want, nodes) {
		hints, _, held = a.hints(want, reuse)
	}
	room := func() string {
		if len(held) > 0 {
			return " (" + strings.Join(held, ", ") + ")"
		}
		return ""
	}
	if hint.Any {
		best, ok := bestHint(hints)
		if !ok {
			return refuse("no set of NUMA nodes has room for the memory%s", room())
		}
		if !best.Preferred && preferred {
			return refuse("the memory needs more NUMA nodes (%s) than on an empty machine%s", best.Nodes, room())
		}
		nodes, preferred = best.Nodes, best.Preferred
	}
	if !a.fits(want, nodes) {
		if hints == nil {
			hints, _, held = a.hints(want, reuse)
		}
		best, ok := bestHint(slices.DeleteFunc(slices.Clone(hints), func(h Hint) bool { return h.Nodes&nodes != nodes }))
		if !ok {
			return refuse("the memory does not fit on NUMA nodes %s, and not on any larger set of nodes%s", nodes, room())
		}
		if !best.Preferred && preferred {
			return refuse("the memory does not fit on NUMA nodes %s, and needs %s%s", nodes, best.Nodes, room())
		}
		nodes = best.Nodes
	}
	for _, id := range nodes.Nodes() {
		n := a[id]
		if r >= groupsChecked && nodes.Count() > 1 && n.Assignments > 0 && n.Group != nodes {
			return refuse("the memory would come from NUMA nodes %s, and %s", nodes, a.conflict(id, nodes))
		}
	}
	var blocks []MemoryBlock
	for _, name := range sorted(want) {
		bytes := want[name]
		blocks = append(blocks, MemoryBlock{Nodes: nodes, Resource: name, SizeBytes: bytes})
		a.assign(MemoryBlock{Nodes: nodes, Resource: name, SizeBytes: bytes - min(bytes, reuse[nodes][name])})
	}
	return blocks, nil
}

// fits reports whether a set of nodes has enough free memory, without the memory of init
// containers.
func (a memoryAccounts) fits(want memoryRequest, nodes Mask) bool {
	for name, bytes := range want {
		var free uint64
		for _, id := range nodes.Nodes() {
			free += a[id].Tables[name].FreeBytes
		}
		if free < bytes {
			return false
		}
	}
	return true
}

// bestHint returns the preferred hint, or else the narrowest; ok is false without hints.
func bestHint(hints []Hint) (Hint, bool) {
	if len(hints) == 0 {
		return Hint{}, false
	}
	return slices.MinFunc(hints, func(x, y Hint) int {
		switch {
		case x.Preferred != y.Preferred && x.Preferred, x.Preferred == y.Preferred && x.Nodes.narrower(y.Nodes):
			return -1
		case x == y:
			return 0
		}
		return 1
	}), true
}

// after records memory that an init container leaves to later containers, or that another container
// took from it.
func (r reusable) after(isInit bool, blocks []MemoryBlock) {
	for _, b := range blocks {
		switch had := r[b.Nodes][b.Resource]; {
		case isInit:
			if r[b.Nodes] == nil {
				r[b.Nodes] = memoryRequest{}
			}
			r[b.Nodes][b.Resource] = max(had, b.SizeBytes)
		case had > 0:
			r[b.Nodes][b.Resource] = had - min(had, b.SizeBytes)
		}
	}
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
