package scale

import (
	"encoding/json"
	"fmt"
	"slices"

	"fettle.dev/fettle/internal/kube/machine"
)

// Begun is a roll of a machine set that has begun: the replicas that the set had, and
// the machines that are to be made anew. It is kept on the set (machine.RollAnnotation),
// so that who goes on with it knows the old machines from the new ones.
type Begun struct {
	Replicas int      `json:"replicas"`
	Machines []string `json:"machines"`
}

// BegunOn reads the roll that has begun on a set; false if there is none.
func BegunOn(s *machine.Set) (b Begun, ok bool, err error) {
	text, ok := s.Annotations[machine.RollAnnotation]
	if !ok {
		return b, false, nil
	}
	if err := json.Unmarshal([]byte(text), &b); err != nil || b.Replicas < 0 {
		return b, false, fmt.Errorf("machine set %s: its annotation %s cannot be read (%q): remove it, and the roll begins anew", s.Name, machine.RollAnnotation, text)
	}
	return b, true, nil
}

// Begin is the roll that begins with a set as it is now.
func Begin(in Input, s *machine.Set) Begun {
	b := Begun{Replicas: 1, Machines: []string{}}
	if s.Spec.Replicas != nil {
		b.Replicas = int(*s.Spec.Replicas)
	}
	for i := range in.Machines {
		if m := &in.Machines[i]; m.Namespace == s.Namespace && m.Set() == s.Name && m.DeletionTimestamp == nil {
			b.Machines = append(b.Machines, m.Name)
		}
	}
	slices.Sort(b.Machines)
	return b
}

// Roll plans that every machine of the sets is made anew, as a change of a machine set
// wants it that concerns existing machines: new ones first, then as many old ones go.
// Of a roll that has begun it plans the rest.
func Roll(in Input) (*Plan, error) {
	p, err := newPlanner(in)
	if err != nil {
		return nil, err
	}
	p.plan.To = p.plan.From
	ready := p.leavers()
	for _, x := range p.pools {
		old := p.rest(x, ready[x])
		for len(old) > 0 {
			n := p.exchange(x, old)
			if n == 0 {
				p.closed(len(old))
				return p.plan, nil
			}
			old = old[n:]
		}
	}
	if len(p.plan.Steps) == 0 {
		p.note("the sets have no machines that are to be made anew: nothing is to be done")
	}
	p.together()
	return p.plan, nil
}

// rest are the old machines that a roll has left of a set, in the order in which they go.
// If it was cut off with new machines on top, as many old ones go first.
func (p *planner) rest(x *pool, ready []*leaver) []*leaver {
	b, ok := p.Begun[x.set.Name]
	if !ok {
		return ready
	}
	var old, others []*leaver
	for _, l := range ready {
		if slices.Contains(b.Machines, l.m.Name) {
			old = append(old, l)
		} else {
			others = append(others, l)
		}
	}
	p.note("a roll of machine set %s is gone on with: %d of its %d old machines are left", x.set.Name, len(old), len(b.Machines))
	for x.replicas > b.Replicas {
		// Somebody may have removed old ones meanwhile: then new ones are too many.
		from := &old
		if len(old) == 0 {
			from = &others
		}
		n := min(x.replicas-b.Replicas, len(*from), p.Batch)
		if n == 0 {
			break
		}
		p.shrink(x, (*from)[:n])
		*from = (*from)[n:]
		p.plan.To -= n
	}
	return old
}

// exchange adds as many machines to a set as remediation bears, and removes as many of
// its old ones, the first of them first. It returns how many. With n on their way in and
// then n on their way out the check counts the same: n of machines + n.
func (p *planner) exchange(x *pool, old []*leaver) int {
	on := map[*watch]int{}
	n := 0
	for n < min(len(old), p.Batch) && p.open(x, on) {
		n++
		for _, w := range p.watched {
			if w.covers(x) {
				on[w]++
			}
		}
	}
	if n == 0 {
		return 0
	}
	before := p.replicas()
	x.replicas += n
	p.plan.Steps = append(p.plan.Steps, p.join(n, on, p.resizes(before)))
	p.shrink(x, old[:n])
	return n
}

// shrink is the step in which machines of a set go.
func (p *planner) shrink(x *pool, leave []*leaver) {
	left := map[*watch]int{}
	for _, w := range p.watched {
		if w.covers(x) {
			left[w] = len(leave)
		}
	}
	before := p.replicas()
	x.replicas -= len(leave)
	p.plan.Steps = append(p.plan.Steps, p.drain(leave, left, p.resizes(before)))
}
