package scale

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/kube/machine"
)

// Begun is a roll of a machine set that has begun: the replicas that the set had, and
// the machines that are to be made anew. It is kept on the set (machine.RollAnnotation),
// so that who goes on with it knows the old machines from the new ones.
type Begun struct {
	Replicas int      `json:"replicas"`
	Machines []string `json:"machines"`
	// Set is the UID of the set: a record that was copied with a set is not the copy's.
	Set types.UID `json:"machine_set_uid"`
}

// ErrRecord means that the record of a roll is damaged, or another set's.
var ErrRecord = errors.New("the record of a roll cannot be gone by")

// BegunOn reads the roll that has begun on a set; false if there is none. What is no
// record of a roll of this set is ErrRecord: a roll that went by it would remove machines
// that serve.
func BegunOn(s *machine.Set) (b Begun, ok bool, err error) {
	text, ok := s.Annotations[machine.RollAnnotation]
	if !ok {
		return b, false, nil
	}
	if why := b.read(text, s); why != "" {
		return Begun{}, false, fmt.Errorf("%w: machine set %s, annotation %s: %s (%q); begin anew with --roll --afresh, which makes all machines anew that there are, or forget it: kubectl annotate machinesets.machine.openshift.io %s -n %s %s-",
			ErrRecord, s.Name, machine.RollAnnotation, why, text, s.Name, s.Namespace, machine.RollAnnotation)
	}
	return b, true, nil
}

// read reads a record of a set, and says what is wrong with it.
func (b *Begun) read(text string, s *machine.Set) (why string) {
	var has struct {
		Replicas *int       `json:"replicas"`
		Machines *[]string  `json:"machines"`
		Set      *types.UID `json:"machine_set_uid"`
	}
	switch err := json.Unmarshal([]byte(text), &has); {
	case err != nil:
		return err.Error()
	case has.Replicas == nil || has.Machines == nil || has.Set == nil:
		return "it does not say all of replicas, machines and machine_set_uid"
	case *has.Replicas < 0 || *has.Replicas > MaxMachines:
		return fmt.Sprintf("%d replicas: want 0 to %d", *has.Replicas, MaxMachines)
	case *has.Set != s.UID:
		return fmt.Sprintf("it is of the machine set with the UID %s, and this one has %s: it was copied from there", *has.Set, s.UID)
	}
	now := Begun{*has.Replicas, *has.Machines, *has.Set}
	if why := now.impossible(s); why != "" {
		return why
	}
	*b = now
	return ""
}

// impossible says what of a record no roll of a set has written: it would make the set
// smaller, or empty. One that began afresh names the new machines that it found, too, and
// of these a roll has no more than old ones.
func (b *Begun) impossible(s *machine.Set) string {
	switch most := 2 * b.Replicas; {
	case b.Replicas == 0 && len(b.Machines) > 0:
		return "0 replicas, and it names machines: the roll would empty the set"
	case b.Replicas == 0 && replicas(s) > 0:
		return fmt.Sprintf("0 replicas, and the set is to have %d: the roll would empty it", replicas(s))
	case len(b.Machines) > most:
		return fmt.Sprintf("%d machines of a set of %s: a roll has at most twice as many", len(b.Machines), text.Count(b.Replicas, "replica"))
	}
	return ""
}

func replicas(s *machine.Set) int {
	if s.Spec.Replicas == nil {
		return 1
	}
	return int(*s.Spec.Replicas)
}

// Begin is the roll that begins with a set as it is now.
func Begin(in Input, s *machine.Set) Begun {
	b := Begun{Replicas: replicas(s), Machines: []string{}, Set: s.UID}
	for i := range in.Machines {
		if m := &in.Machines[i]; m.Namespace == s.Namespace && m.Set() == s.Name && m.DeletionTimestamp == nil {
			b.Machines = append(b.Machines, m.Name)
		}
	}
	slices.Sort(b.Machines)
	return b
}

// Again is a roll that has begun on a set and begins anew: with all machines that there are
// now, and the replicas of before it was cut off, where that can be.
func Again(in Input, s *machine.Set, b Begun) Begun {
	n := Begin(in, s)
	if kept := (Begun{b.Replicas, n.Machines, n.Set}); kept.impossible(s) == "" {
		return kept
	}
	return n // the set has been given other machines by hand
}

// Roll plans that every machine of the sets is made anew, as a change of a machine set
// wants it that concerns existing machines: new ones first, then as many old ones go.
// Of a roll that has begun it plans the rest.
func Roll(in Input) (*Plan, error) {
	p, err := newPlanner(in)
	if err != nil {
		return nil, err
	}
	if err := p.known(); err != nil {
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
// If it was cut off with new machines on top, as many go first: of the new ones those that
// have not joined, since they replace nothing yet, then old ones.
func (p *planner) rest(x *pool, ready []*leaver) []*leaver {
	b, ok := p.Begun[x.set.Name]
	if !ok {
		return slices.DeleteFunc(ready, func(l *leaver) bool { return l.m == nil })
	}
	var old, others, never []*leaver
	for _, l := range ready {
		switch {
		case l.m != nil && slices.Contains(b.Machines, l.m.Name):
			old = append(old, l)
		case l.idle():
			never = append(never, l)
		default:
			others = append(others, l)
		}
	}
	p.note("a roll of machine set %s is gone on with: old machines that are left: %d of %d", x.set.Name, len(old), len(b.Machines))
	for x.replicas > b.Replicas {
		// Somebody may have removed old ones meanwhile: then new ones are too many.
		from := &old
		switch {
		case len(never) > 0:
			from = &never
		case len(old) == 0:
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
	before := p.replicas()
	x.replicas -= len(leave)
	p.plan.Steps = append(p.plan.Steps, p.drain(leave, p.resizes(before)))
}
