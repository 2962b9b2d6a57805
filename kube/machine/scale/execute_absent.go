package scale

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/kube/cluster"
	"fettle.dev/fettle/kube/machine"
)

// errMoved means that a step is outdated because the machines have changed.
var errMoved = errors.New("the machines have changed")

// NotCome is the error for machines of a batch that have not joined.
type NotCome struct {
	Namespace string
	// Machines are the existing machines that have not joined. Unmade names sets that created fewer
	// machines than requested.
	Machines []Absent
	Unmade   []string
	// Counts describes how many have joined.
	Counts string
	// Back is the number of machines to which the sets would return without the machines that have
	// not joined.
	Back   int
	unmade int
	// Late is how long the run waited for them; 0 if it did not wait.
	Late time.Duration
}

// Absent is a machine that has not joined.
type Absent struct {
	Name, Why string
	Failed    bool
}

func (n *NotCome) Error() string {
	var out []string
	for _, m := range n.Machines {
		out = append(out, m.Why)
	}
	text := some(append(out, n.Unmade...))
	if n.Counts != "" {
		text = n.Counts + ": " + text
	}
	if n.Late > 0 {
		text = fmt.Sprintf("after %s: %s", n.Late, text)
	}
	return text
}

// failed returns the machines that will never join, or nil.
func (n *NotCome) failed() *NotCome {
	f := &NotCome{Namespace: n.Namespace, Back: n.Back + len(n.Machines) + n.unmade}
	for _, m := range n.Machines {
		if m.Failed {
			f.Machines = append(f.Machines, m)
			f.Back--
		}
	}
	if len(f.Machines) == 0 {
		return nil
	}
	return f
}

// What returns advice on where to look for the cause.
func (n *NotCome) What() string {
	if len(n.Machines) == 0 {
		return fmt.Sprintf("see kubectl -n %s describe machinesets.machine.openshift.io, and the log of Deployment machine-api-controllers, for why no machine was created", n.Namespace)
	}
	return fmt.Sprintf("see kubectl -n %s describe machines.machine.openshift.io %s for why it has not joined", n.Namespace, n.Machines[0].Name)
}

// absent returns why a machine has not joined.
func absent(in *Input, m *machine.Machine, within string) Absent {
	a := Absent{Name: m.Name, Failed: m.Phase() == machine.PhaseFailed}
	a.Why = fmt.Sprintf("machine %s of machine set %s ", m.Name, m.Set())
	switch n := nodeOf(in, m); {
	case a.Failed:
		a.Why += "is Failed"
	case m.Node() == "":
		a.Why += fmt.Sprintf("has no node%s (phase %s)", within, cmp.Or(m.Phase(), "unknown"))
	case n == nil:
		a.Why += "has the node " + m.Node() + ", which does not exist"
	default:
		a.Why += "has joined, and its node " + n.Name + " is not Ready"
	}
	return a
}

// arrived returns a step's machines that have not joined, or nil.
func arrived(in *Input, s *Step, known map[types.UID]bool) *NotCome {
	var counts []string
	n := &NotCome{}
	for i := range in.Sets {
		n.Namespace = in.Sets[i].Namespace
		n.Back += replicas(&in.Sets[i])
	}
	for _, x := range s.Sets {
		joined, absents := 0, []Absent{}
		for _, m := range members(in) {
			switch {
			case m.Set() != x.Set || known[m.UID] || m.DeletionTimestamp != nil:
			case m.Phase() != machine.PhaseFailed && cluster.Ready(nodeOf(in, m)):
				joined++
			default:
				absents = append(absents, absent(in, m, ""))
			}
		}
		want := x.To - x.From
		if joined >= want {
			continue
		}
		counts = append(counts, text.Sprintf("machine set %s: %d of %d new machines have joined and are Ready", x.Set, joined, want))
		n.Machines = append(n.Machines, absents...)
		if unmade := want - joined - len(absents); unmade > 0 {
			n.unmade += unmade
			n.Unmade = append(n.Unmade, text.Sprintf("machine set %s has not created %d of %d machines", x.Set, unmade, want))
		}
		n.Back -= want - joined
	}
	if len(counts) == 0 {
		return nil
	}
	n.Counts = strings.Join(counts, ", ")
	return n
}

// some returns the first of many names, and how many more there are.
func some(names []string) string { return cluster.First(names, 5) }

// begun returns the rollouts in progress on the sets.
func (r *Run) begun(in *Input) (map[string]Begun, error) {
	all := map[string]Begun{}
	for i := range in.Sets {
		s := &in.Sets[i]
		b, ok, err := BegunOn(s)
		switch {
		case r.Roll && r.Afresh:
			if ok {
				all[s.Name] = Again(*in, s, b)
			}
		case err != nil:
			return nil, err
		case ok && !r.Roll:
			return nil, fmt.Errorf("%w: machine set %s; finish it with --roll, or drop its record: kubectl annotate machinesets.machine.openshift.io %s -n %s %s-", ErrBegun, s.Name, s.Name, s.Namespace, machine.RollAnnotation)
		case ok:
			all[s.Name] = b
		}
	}
	return all, nil
}

// begin records the machines to replace on each set.
func (r *Run) begin(ctx context.Context) error {
	in, err := r.Read(ctx, false)
	if err != nil {
		return err
	}
	for i := range in.Sets {
		s := &in.Sets[i]
		b, ok, err := BegunOn(s)
		switch {
		case ok && r.Afresh:
			b = Again(*in, s, b)
		case ok:
			continue
		case err != nil && !r.Afresh:
			return err
		default:
			b = Begin(*in, s)
		}
		text, err := json.Marshal(b)
		if err != nil {
			return err
		}
		if err := r.Annotate(ctx, s, machine.RollAnnotation, string(text)); err != nil {
			return err
		}
		r.Changed = true
	}
	r.Afresh = false // it has begun now
	return nil
}
