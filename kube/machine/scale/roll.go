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

// Begun is the record of a rollout in progress: the set's original replicas, and the machines to
// replace. It is stored on the set (machine.RollAnnotation), so that a later call can distinguish
// old machines from new ones.
type Begun struct {
	Replicas int      `json:"replicas"`
	Machines []string `json:"machines"`
	// Set is the set's UID, which shows whether the record was copied from another set.
	Set types.UID `json:"machine_set_uid"`
}

// ErrRecord means that the record of a rollout (--roll) is damaged, or belongs to another set.
var ErrRecord = errors.New("invalid record of a rollout")

// BegunOn returns the record of the rollout in progress on a set; ok is false if none exists. It
// returns ErrRecord for an invalid record, with which a rollout would remove serving machines.
func BegunOn(s *machine.Set) (b Begun, ok bool, err error) {
	text, ok := s.Annotations[machine.RollAnnotation]
	if !ok {
		return b, false, nil
	}
	if why := b.read(text, s); why != "" {
		return Begun{}, false, fmt.Errorf("%w: machine set %s, annotation %s: %s (%q); start over with --roll --restart, which replaces all machines, or drop the record: kubectl annotate machinesets.machine.openshift.io %s -n %s %s-",
			ErrRecord, s.Name, machine.RollAnnotation, why, text, s.Name, s.Namespace, machine.RollAnnotation)
	}
	return b, true, nil
}

// read parses a set's record, and returns why it is invalid, or "".
func (b *Begun) read(raw string, s *machine.Set) (why string) {
	var has struct {
		Replicas *int       `json:"replicas"`
		Machines *[]string  `json:"machines"`
		Set      *types.UID `json:"machine_set_uid"`
	}
	switch err := json.Unmarshal([]byte(raw), &has); {
	case err != nil:
		return err.Error()
	case has.Replicas == nil || has.Machines == nil || has.Set == nil:
		return "replicas, machines or machine_set_uid missing"
	case *has.Replicas < 0 || *has.Replicas > MaxMachines:
		return text.Sprintf("%d replicas: want 0 to %d", *has.Replicas, MaxMachines)
	case *has.Set != s.UID:
		return fmt.Sprintf("copied from the machine set with UID %s; this one has %s", *has.Set, s.UID)
	}
	now := Begun{*has.Replicas, *has.Machines, *has.Set}
	if why := now.impossible(s); why != "" {
		return why
	}
	*b = now
	return ""
}

// impossible returns why no rollout of the set can have written a record, or "": it would shrink or
// empty the set. A restarted rollout also lists the new machines that it found, at most as many as
// old ones.
func (b *Begun) impossible(s *machine.Set) string {
	switch most := 2 * b.Replicas; {
	case b.Replicas == 0 && len(b.Machines) > 0:
		return "0 replicas but machines named: the roll would empty the set"
	case b.Replicas == 0 && replicas(s) > 0:
		return text.Sprintf("0 replicas but the set wants %d: the roll would empty it", replicas(s))
	case len(b.Machines) > most:
		return text.Sprintf("%d machines for a set of %s; a rollout has at most twice as many", len(b.Machines), text.Count(b.Replicas, "replica"))
	}
	return ""
}

func replicas(s *machine.Set) int {
	if s.Spec.Replicas == nil {
		return 1
	}
	return int(*s.Spec.Replicas)
}

// Begin returns the record for a rollout that starts with a set's present state.
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

// Again returns the record for a restarted rollout: all present machines, and if possible the
// replicas from before the interrupted rollout.
func Again(in Input, s *machine.Set, b Begun) Begun {
	n := Begin(in, s)
	if kept := (Begun{b.Replicas, n.Machines, n.Set}); kept.impossible(s) == "" {
		return kept
	}
	return n // an administrator has resized the set
}

// Roll plans the replacement of all machines of the sets: new machines join first, then as many old
// ones are removed. For a rollout in progress it plans the rest.
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
		p.note("no machines to replace; nothing to do")
	}
	p.together()
	return p.plan, nil
}

// rest returns a rollout's remaining old machines in removal order. Extra new machines from an
// interruption are balanced first: by new ones that have not joined, then by old ones.
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
	p.note("continuing the roll of machine set %s: %d of %d old machines left", x.set.Name, len(old), len(b.Machines))
	for x.replicas > b.Replicas {
		// If old machines were removed in the meantime, there are too many new ones.
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

// exchange adds as many machines to a set as open remediation allows, removes as many old ones in
// order, and returns their number. For the check, n joining and later n leaving machines count the
// same.
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

// shrink adds the step that removes machines from a set.
func (p *planner) shrink(x *pool, leave []*leaver) {
	before := p.replicas()
	x.replicas -= len(leave)
	p.plan.Steps = append(p.plan.Steps, p.drain(leave, p.resizes(before)))
}
