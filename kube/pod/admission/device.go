package admission

import (
	"fmt"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/text"
)

// deviceManager is the device manager of a started kubelet.
type deviceManager struct {
	resources map[string]*deviceResource
	nodes     []int // NUMA nodes of the machine
	// onlyNodes limits hints to NUMA nodes with devices of the resource.
	onlyNodes bool
}

// deviceResource is a resource with its devices. Devices of one class have the same NUMA nodes and
// are interchangeable.
type deviceResource struct {
	devices []Device
	class   map[string]Mask // NUMA nodes of each device; 0 if it has none
	aligned bool            // at least one device belongs to a NUMA node
}

func newDeviceManager(in *Input) (*deviceManager, error) {
	m := &deviceManager{resources: map[string]*deviceResource{}, nodes: in.Node.nodeIDs(), onlyNodes: in.Settings.Release.orNewest() >= nodesWithDevices}
	for _, r := range in.Devices {
		if m.resources[r.Name] != nil || !isExtended(r.Name) {
			return nil, fmt.Errorf("devices: %q is listed twice, or is not a resource name such as example.com/nic", r.Name)
		}
		d := &deviceResource{devices: slices.Clone(r.Devices), class: map[string]Mask{}}
		slices.SortFunc(d.devices, func(a, b Device) int { return strings.Compare(a.ID, b.ID) })
		for _, dev := range d.devices {
			if _, twice := d.class[dev.ID]; twice || dev.ID == "" {
				return nil, fmt.Errorf("devices: %s has an empty or duplicate device id %q", r.Name, dev.ID)
			}
			var class Mask
			for _, n := range dev.NUMA {
				if n < 0 || n > 63 {
					return nil, fmt.Errorf("devices: %s %s: invalid NUMA node %d", r.Name, dev.ID, n)
				}
				class |= maskOf(n)
			}
			d.class[dev.ID] = class
			d.aligned = d.aligned || class != 0
		}
		m.resources[r.Name] = d
	}
	return m, nil
}

// deviceSet is a set of device IDs.
type deviceSet map[string]bool

func (s deviceSet) ids() []string { return sorted(s) }

// with and without return new sets.

func (s deviceSet) with(ids []string) deviceSet {
	out := deviceSet{}
	for id := range s {
		out[id] = true
	}
	for _, id := range ids {
		out[id] = true
	}
	return out
}

func (s deviceSet) without(ids []string) deviceSet {
	out := s.with(nil)
	for _, id := range ids {
		delete(out, id)
	}
	return out
}

// free returns the healthy devices that no container holds.
func (d *deviceResource) free(taken deviceSet) []string {
	var out []string
	for _, dev := range d.devices {
		if !dev.Unhealthy && !dev.Used && !taken[dev.ID] {
			out = append(out, dev.ID)
		}
	}
	return out
}

func (d *deviceResource) healthy() int {
	n := 0
	for _, dev := range d.devices {
		if !dev.Unhealthy {
			n++
		}
	}
	return n
}

// wanted returns the number of devices per resource in a list of limits.
func (m *deviceManager) wanted(limits Resources) map[string]int {
	out := map[string]int{}
	for name, q := range limits {
		if m.resources[name] != nil {
			out[name] = int(q.Value())
		}
	}
	return out
}

// answers returns the device manager's hints.
func (m *deviceManager) answers(want map[string]int, taken, reuse map[string]deviceSet) []Answer {
	var out []Answer
	for _, name := range sorted(want) {
		d, number := m.resources[name], want[name]
		a := Answer{Provider: deviceProvider, Resource: name}
		free := d.free(taken[name])
		again := reuse[name].ids()
		switch {
		case !d.aligned:
			a.Any, a.Why = true, "the device plug-in does not report the NUMA nodes of its devices"
		case len(free)+len(again) < number:
			a.None, a.Why = true, text.Sprintf("%s requested, %d free", text.Count(number, "device"), len(free)+len(again))
		default:
			d.hints(&a, m.nodesOf(d), free, again, number)
		}
		out = append(out, a)
	}
	if len(out) == 0 {
		out = append(out, Answer{Provider: deviceProvider, Any: true, Why: "the request names no resource of the node's device plug-ins"})
	}
	return out
}

// nodesOf returns the NUMA nodes from which a resource's hints are formed.
func (m *deviceManager) nodesOf(d *deviceResource) []int {
	if !m.onlyNodes {
		return m.nodes
	}
	var with Mask
	for _, class := range d.class {
		with |= class
	}
	var out []int
	for _, n := range m.nodes {
		if with.Has(n) {
			out = append(out, n)
		}
	}
	if len(out) == 0 {
		return m.nodes
	}
	return out
}

// hints adds the sets of NUMA nodes near enough devices. An init container's devices must be
// reused, so each set contains all of them.
func (d *deviceResource) hints(a *Answer, nodes []int, free, again []string, number int) {
	least := len(nodes)
	subsets(nodes, func(set Mask) {
		all, here := 0, 0
		for _, dev := range d.devices {
			if d.class[dev.ID]&set != 0 {
				all++
			}
		}
		if all >= number {
			least = min(least, set.Count())
		}
		for _, id := range again {
			switch class := d.class[id]; {
			case class == 0:
				continue
			case class&set == 0:
				return
			}
			here++
		}
		for _, id := range free {
			if d.class[id]&set != 0 {
				here++
			}
		}
		if here >= number {
			a.Hints = append(a.Hints, Hint{Nodes: set})
		}
	})
	for i, h := range a.Hints {
		a.Hints[i].Preferred = h.Nodes.Count() == least
	}
	a.None = len(a.Hints) == 0
	near := map[string]int{}
	for _, id := range free {
		near[nodeText(d.class[id])]++
	}
	var words []string
	for _, n := range sorted(near) {
		words = append(words, text.Sprintf("%d on %s", near[n], n))
	}
	a.Why = fmt.Sprintf("%s requested; free: %s", text.Count(number, "device"), strings.Join(words, ", "))
	if len(again) > 0 {
		a.Why += fmt.Sprintf("; an init container had %s, which are used again", strings.Join(again, ", "))
	}
}

func nodeText(class Mask) string {
	switch class.Count() {
	case 0:
		return "no node"
	case 1:
		return "node " + class.String()
	}
	return "nodes " + class.String()
}

// give allocates devices of a resource: first those of init containers, then those near the hint's
// NUMA nodes, then others. pick chooses among classes. certain reports whether no other devices are
// possible.
func (m *deviceManager) give(name string, number int, taken, reuse deviceSet, hint Alignment, pick func(of []string, number int, class map[string]Mask) []string) (got []string, certain bool, err error) {
	d := m.resources[name]
	refuse := func(format string, args ...any) ([]string, bool, error) {
		return nil, false, &refusal{ReasonUnexpected, fmt.Sprintf(format, args...)}
	}
	if d.healthy() == 0 {
		return refuse("%s has no healthy devices", name)
	}
	if number == 0 {
		return nil, true, nil
	}
	certain = true
	take := func(of []string) bool {
		n := min(number-len(got), len(of))
		got = append(got, pick(of, n, d.class)...)
		certain = certain && n == len(of)
		return len(got) == number
	}
	if take(reuse.ids()) {
		return got, certain, nil
	}
	free := d.free(taken)
	if len(free) < number-len(got) {
		return refuse("%s of %s requested, %d free", text.Count(number-len(got), "device"), name, len(free))
	}
	var near, elsewhere, nowhere []string
	for _, id := range free {
		switch class := d.class[id]; {
		case !d.aligned || hint.Any || class == 0:
			nowhere = append(nowhere, id)
		case class&hint.Nodes != 0:
			near = append(near, id)
		default:
			elsewhere = append(elsewhere, id)
		}
	}
	for _, list := range [][]string{near, elsewhere, nowhere} {
		if take(list) {
			break
		}
	}
	return got, certain, nil
}

// maxOutcomes limits the explored choices of devices.
const maxOutcomes = 256

// choices enumerates the results of unpredictable choices. The prediction is repeated until every
// combination of choices was made.
type choices struct {
	made  []int // choices of this round
	sizes []int
	at    int
}

// one returns this round's choice among n.
func (c *choices) one(n int) int {
	if n < 2 {
		return 0
	}
	if c.at == len(c.made) {
		c.made, c.sizes = append(c.made, 0), append(c.sizes, n)
	}
	c.at++
	return c.made[c.at-1]
}

// next prepares the next round. It returns false after the last one.
func (c *choices) next() bool {
	c.at = 0
	for len(c.made) > 0 {
		last := len(c.made) - 1
		if c.made[last]++; c.made[last] < c.sizes[last] {
			return true
		}
		c.made, c.sizes = c.made[:last], c.sizes[:last]
	}
	return false
}

// first returns the first devices; it is used if the choice does not matter.
func first(of []string, number int, _ map[string]Mask) []string { return of[:number] }

// devices chooses devices. Within a class it takes the first, because the others are equivalent.
func (c *choices) devices(of []string, number int, class map[string]Mask) []string {
	var order []Mask
	byClass := map[Mask][]string{}
	for _, id := range of {
		if byClass[class[id]] == nil {
			order = append(order, class[id])
		}
		byClass[class[id]] = append(byClass[class[id]], id)
	}
	var out []string
	left, behind := number, len(of)
	for _, k := range order {
		list := byClass[k]
		behind -= len(list)
		least := max(0, left-behind) // minimum, because later classes have too few
		most := min(left, len(list))
		n := most - c.one(most-least+1)
		out = append(out, list[:n]...)
		left -= n
	}
	return out
}
