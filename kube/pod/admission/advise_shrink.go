package admission

import "slices"

// maxTries bounds how many sizes of a resource are tried.
const maxTries = 300

// shrink looks for the largest request that would be admitted, a resource at a time,
// in the container that failed or else in the one that asks for most.
func (p *Prediction) shrink() {
	for _, name := range p.in.Pod.requests().names() {
		c := p.largest(name)
		if c == nil || name == EphemeralStorage {
			continue
		}
		for i, amount := range p.smaller(name, c) {
			if i == maxTries || p.try(p.size(c.Name, name, amount, "")) {
				break
			}
		}
	}
}

func (p *Prediction) largest(name string) *Container {
	if c := p.in.Pod.container(p.Verdict.Container); c != nil {
		if q := c.Requests[name]; positive(q) {
			return c
		}
		return nil
	}
	var most *Container
	for _, c := range p.in.Pod.all() {
		if q := c.Requests[name]; positive(q) {
			if most == nil || q.Cmp(most.Requests[name]) > 0 {
				most = p.in.Pod.container(c.Name)
			}
		}
	}
	return most
}

// smaller lists smaller amounts of a resource that are worth trying, from the largest.
func (p *Prediction) smaller(name string, c *Container) []int64 {
	q := c.Requests[name]
	var out []int64
	switch {
	case name == Memory || isHugePages(name):
		for _, free := range p.freeMemory(name) {
			if size, err := pageSize(name); isHugePages(name) && err == nil && size.Value() > 0 {
				free -= free % size.Value()
			}
			if free > 0 && free < q.Value() {
				out = append(out, free)
			}
		}
	case name == CPU || isExtended(name):
		for n := min((q.MilliValue()+999)/1000-1, p.present(name)); n > 0; n-- {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	out = slices.Compact(out)
	slices.Reverse(out)
	return out
}

// present is how many CPUs or devices the node has.
func (p *Prediction) present(name string) int64 {
	if name == CPU {
		return int64(len(p.in.Node.CPUs))
	}
	for _, r := range p.in.Devices {
		if r.Name == name {
			return int64(len(r.Devices))
		}
	}
	if c := p.in.Capacity; c != nil {
		q := c.Allocatable[name]
		return min(q.Value(), maxTries)
	}
	return 0
}

// freeMemory lists what sets of NUMA nodes have free of a resource, and what is free on
// the node as a whole.
func (p *Prediction) freeMemory(name string) []int64 {
	var out []int64
	if k, problems := start(p.in); len(problems) == 0 {
		subsets(k.memory.nodes.ids(), func(set Mask) {
			var sum uint64
			for _, id := range set.Nodes() {
				if t := k.memory.nodes[id].Tables[name]; t != nil {
					sum += t.FreeBytes
				}
			}
			out = append(out, int64(sum))
		})
	}
	if c := p.in.Capacity; c != nil {
		have, used := c.Allocatable[name], c.Requested[name]
		out = append(out, have.Value()-used.Value())
	}
	return out
}
