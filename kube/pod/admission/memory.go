package admission

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	"fettle.dev/fettle/internal/text"
)

// memoryManager is the memory manager of a kubelet that has started.
type memoryManager struct {
	static  bool
	release Release
	// nodes are the present accounts.
	nodes memoryAccounts
	// restart is why the kubelet would not start again, or nil.
	restart error
	// chance is why the kubelet may not start, or nil.
	chance error
}

// memoryAccounts are the accounts of the NUMA nodes.
type memoryAccounts map[int]*MemoryNode

func (a memoryAccounts) clone() memoryAccounts {
	out := make(memoryAccounts, len(a))
	for id, n := range a {
		c := &MemoryNode{Assignments: n.Assignments, Group: n.Group, Tables: make(map[string]*MemoryTable, len(n.Tables))}
		for name, t := range n.Tables {
			copied := *t
			c.Tables[name] = &copied
		}
		out[id] = c
	}
	return out
}

func (a memoryAccounts) ids() []int { return slices.Sorted(maps.Keys(a)) }

// startMemoryManager starts the memory manager like the kubelet; the error says why the kubelet
// does not start.
func startMemoryManager(in *Input, s Settings) (*memoryManager, error) {
	switch s.MemoryManagerPolicy {
	case MemoryPolicyNone:
		if st := in.State.Memory; st != nil && st.Policy != MemoryPolicyNone {
			return nil, otherPolicy("memoryManagerPolicy", MemoryPolicyNone, st.Policy, "memory_manager_state")
		}
		return &memoryManager{}, nil
	case MemoryPolicyStatic:
	default:
		return nil, fmt.Errorf("memoryManagerPolicy %q: want None or Static", s.MemoryManagerPolicy)
	}
	reserved, err := s.reservedMemory(&in.Node)
	if err != nil {
		return nil, err
	}
	m := &memoryManager{static: true, release: s.Release.orNewest()}
	if m.nodes, err = emptyAccounts(&in.Node, reserved); err != nil {
		return nil, err
	}
	if err := m.load(in.State.Memory); err != nil {
		if !in.State.Running || in.State.Memory == nil || !m.nodes.coveredBy(in.State.Memory.Nodes) {
			return nil, err
		}
		m.nodes, m.restart = memoryAccounts(in.State.Memory.Nodes).clone(), err
	}
	if in.State.Running && m.chance != nil {
		m.restart, m.chance = m.chance, nil
	}
	return m, nil
}

// coveredBy reports whether b contains all nodes and resources of a.
func (a memoryAccounts) coveredBy(b memoryAccounts) bool {
	for id, n := range a {
		for name := range n.Tables {
			if b[id] == nil || b[id].Tables[name] == nil {
				return false
			}
		}
	}
	return len(a) == len(b)
}

// memoryNeeds returns an error for settings that the memory manager's policy Static rejects on any
// machine.
func (s Settings) memoryNeeds() error {
	sums := map[string]*amount{Memory: {}}
	for _, r := range s.ReservedMemory {
		for _, name := range r.Limits.names() {
			q := r.Limits[name]
			bytes, whole := q.AsInt64()
			switch {
			case name != Memory && !isHugePages(name):
				return fmt.Errorf("reservedMemory: %s of NUMA node %d: only memory and hugepages-SIZE can be reserved", name, r.NUMANode)
			case !whole || bytes <= 0:
				return fmt.Errorf("reservedMemory: %s of NUMA node %d: %s is not a number of bytes above zero", name, r.NUMANode, q.String())
			}
			if sums[name] == nil {
				sums[name] = &amount{}
			}
			sums[name].add(q)
		}
	}
	for _, name := range sorted(sums) {
		want := s.reserved(name)
		if sums[name].Cmp(want.Quantity) != 0 {
			return fmt.Errorf("reservedMemory: %s of all NUMA nodes must add up to the node's reservation (kubeReserved + systemReserved, for memory + evictionHard), %s; it is %s", name, want.String(), sums[name].String())
		}
	}
	if sums[Memory].Sign() <= 0 {
		return errors.New("the static memory manager needs reservedMemory; set it")
	}
	return nil
}

// reservedMemory returns reservedMemory by node and resource, or an error if the sums differ
// from the node's reservations.
func (s Settings) reservedMemory(n *Node) (map[int]map[string]uint64, error) {
	if err := s.memoryNeeds(); err != nil {
		return nil, err
	}
	out := map[int]map[string]uint64{}
	for _, m := range n.NUMA {
		out[m.ID] = map[string]uint64{}
	}
	for _, r := range s.ReservedMemory {
		if out[r.NUMANode] == nil {
			return nil, fmt.Errorf("reservedMemory: the machine has no NUMA node %d", r.NUMANode)
		}
		for _, name := range r.Limits.names() {
			if _, twice := out[r.NUMANode][name]; twice {
				return nil, fmt.Errorf("reservedMemory: %s of NUMA node %d is listed twice", name, r.NUMANode)
			}
			q := r.Limits[name]
			out[r.NUMANode][name] = uint64(q.Value())
		}
	}
	return out, nil
}

// emptyAccounts returns the accounts of a machine without assignments.
func emptyAccounts(n *Node, reserved map[int]map[string]uint64) (memoryAccounts, error) {
	out := memoryAccounts{}
	for _, m := range n.NUMA {
		account := &MemoryNode{Tables: map[string]*MemoryTable{}, Group: maskOf(m.ID)}
		var pages uint64
		add := func(name string, total, less uint64) error {
			kept := reserved[m.ID][name]
			if kept > total || less > total-kept {
				return fmt.Errorf("reservedMemory: %s of NUMA node %d: %d bytes, but only %d exist without huge pages", name, m.ID, kept, total-less)
			}
			account.Tables[name] = &MemoryTable{TotalBytes: total, SystemReservedBytes: kept, AllocatableBytes: total - kept - less, FreeBytes: total - kept - less}
			return nil
		}
		for _, h := range m.HugePages {
			pages += h.Pages * h.SizeBytes
			if err := add(h.resource(), h.Pages*h.SizeBytes, 0); err != nil {
				return nil, err
			}
		}
		if err := add(Memory, m.MemoryBytes, pages); err != nil {
			return nil, err
		}
		out[m.ID] = account
	}
	return out, nil
}

// load loads the state file; the error says how it contradicts the machine or the settings.
func (m *memoryManager) load(st *MemoryState) error {
	const remedy = ": drain the node and remove memory_manager_state"
	if st == nil {
		return nil
	}
	if st.Policy != MemoryPolicyStatic {
		return otherPolicy("memoryManagerPolicy", MemoryPolicyStatic, st.Policy, "memory_manager_state")
	}
	if len(st.Nodes) == 0 {
		if len(st.Entries) > 0 {
			return errors.New("memory_manager_state has assignments but no machine state" + remedy)
		}
		return nil
	}
	found := memoryAccounts(st.Nodes).clone()
	var same, different int
	var last error
	for _, order := range st.orders() {
		expected := m.nodes.clone()
		for _, c := range order {
			for _, b := range st.Entries[c.pod][c.container] {
				for _, id := range b.Nodes.Nodes() {
					if n := expected[id]; n == nil || n.Tables[b.Resource] == nil {
						return fmt.Errorf("memory_manager_state gives container %s of pod %s %s on NUMA node %d, which the machine does not have%s", c.container, c.pod, b.Resource, id, remedy)
					}
				}
				expected.assign(b)
			}
		}
		if err := expected.same(found, m.release); err != nil {
			last = err
			different++
		} else {
			same++
		}
	}
	switch {
	case same == 0:
		return fmt.Errorf("memory_manager_state does not match this machine and the kubelet's settings (%w)%s", last, remedy)
	case different > 0:
		m.chance = fmt.Errorf("with this memory_manager_state the kubelet starts only by chance: a NUMA node is in two groups, and the kubelet adds up containers in random order (%w)%s", last, remedy)
	}
	m.nodes = found
	return nil
}

// holder is a container that holds memory.
type holder struct{ pod, container string }

// orders returns the orders in which a kubelet may add up the containers' blocks. Normally the
// order does not matter, and it returns one. If a NUMA node is in two groups, its last block
// decides its group (validateState, 1.29 to 1.37), so orders returns a fixed sample of Go's random
// map orders. Kubelets before 1.32 often wrote such files; 1.33.13 wrote one, too.
func (st *MemoryState) orders() [][]holder {
	var all [][]holder
	number := 1
	if st.overlaps() {
		number = 64
	}
	dice := rand.New(rand.NewPCG(1, 32)) //nolint:gosec // the same orders at each call
	for i := range number {
		pods := sorted(st.Entries)
		if i > 0 {
			dice.Shuffle(len(pods), func(a, b int) { pods[a], pods[b] = pods[b], pods[a] })
		}
		var order []holder
		for _, pod := range pods {
			containers := sorted(st.Entries[pod])
			if i > 0 {
				dice.Shuffle(len(containers), func(a, b int) { containers[a], containers[b] = containers[b], containers[a] })
			}
			for _, c := range containers {
				order = append(order, holder{pod, c})
			}
		}
		all = append(all, order)
	}
	return all
}

// overlaps reports whether a NUMA node is in two groups.
func (st *MemoryState) overlaps() bool {
	var groups []Mask
	for _, containers := range st.Entries {
		for _, blocks := range containers {
			for _, b := range blocks {
				if slices.ContainsFunc(groups, func(g Mask) bool { return g != b.Nodes && g&b.Nodes != 0 }) {
					return true
				}
				groups = append(groups, b.Nodes)
			}
		}
	}
	return false
}

// assign assigns a block to its nodes: it counts one use of every node, sets their group, and takes
// the size from them in order, as much as each has.
func (a memoryAccounts) assign(b MemoryBlock) {
	rest := b.SizeBytes
	for _, id := range b.Nodes.Nodes() {
		n := a[id]
		n.Assignments++
		n.Group = b.Nodes
		t := n.Tables[b.Resource]
		part := min(rest, t.FreeBytes)
		t.ReservedBytes += part
		t.FreeBytes -= part
		rest -= part
	}
}

// release releases a block.
func (a memoryAccounts) release(b MemoryBlock) {
	rest := b.SizeBytes
	for _, id := range b.Nodes.Nodes() {
		n := a[id]
		if n == nil || n.Tables[b.Resource] == nil {
			continue
		}
		if n.Assignments--; n.Assignments == 0 {
			n.Group = maskOf(id)
		}
		t := n.Tables[b.Resource]
		part := min(rest, t.ReservedBytes)
		t.FreeBytes += part
		t.ReservedBytes -= part
		rest -= part
	}
}

// same returns an error if accounts differ in the way that a starting kubelet checks: from
// groupsChecked on, a group's free and reserved memory is compared only in total.
func (a memoryAccounts) same(b memoryAccounts, r Release) error {
	if !slices.Equal(a.ids(), b.ids()) {
		return fmt.Errorf("calculated NUMA nodes %v, the file has %v", a.ids(), b.ids())
	}
	for _, id := range a.ids() {
		x, y := a[id], b[id]
		switch {
		case x.Assignments != y.Assignments:
			return fmt.Errorf("NUMA node %d: calculated %d assignments, the file has %d", id, x.Assignments, y.Assignments)
		case x.Group != y.Group:
			return fmt.Errorf("NUMA node %d: calculated the group %s, the file has %s", id, x.Group, y.Group)
		case !slices.Equal(sorted(x.Tables), sorted(y.Tables)):
			return fmt.Errorf("NUMA node %d: calculated %v, the file has %v", id, sorted(x.Tables), sorted(y.Tables))
		}
		for _, name := range sorted(x.Tables) {
			s, t := x.Tables[name], y.Tables[name]
			if s.TotalBytes != t.TotalBytes || s.SystemReservedBytes != t.SystemReservedBytes || s.AllocatableBytes != t.AllocatableBytes {
				return fmt.Errorf("NUMA node %d, %s: calculated %d bytes, %d reserved, %d for pods; the file has %d, %d, %d", id, name,
					s.TotalBytes, s.SystemReservedBytes, s.AllocatableBytes, t.TotalBytes, t.SystemReservedBytes, t.AllocatableBytes)
			}
			var free, given [2]uint64
			group := x.Group
			if r < groupsChecked {
				group = maskOf(id)
			}
			for _, other := range group.Nodes() {
				for i, side := range []memoryAccounts{a, b} {
					if n := side[other]; n != nil && n.Tables[name] != nil {
						free[i] += n.Tables[name].FreeBytes
						given[i] += n.Tables[name].ReservedBytes
					}
				}
			}
			if free[0] != free[1] || given[0] != given[1] {
				return text.Errorf("NUMA nodes %s, %s: calculated %d bytes assigned and %d free, the file has %d and %d", group, name, given[0], free[0], given[1], free[1])
			}
		}
	}
	return nil
}

// drop releases the blocks of containers that are gone.
func (m *memoryManager) drop(st *MemoryState, gone func(pod, container string) bool) {
	if !m.static || st == nil {
		return
	}
	for _, pod := range sorted(st.Entries) {
		for _, container := range sorted(st.Entries[pod]) {
			if !gone(pod, container) {
				continue
			}
			for _, b := range st.Entries[pod][container] {
				m.nodes.release(b)
			}
		}
	}
}
