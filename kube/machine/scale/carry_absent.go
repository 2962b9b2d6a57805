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

	"fettle.dev/fettle/kube/corestate"
	"fettle.dev/fettle/kube/machine"
)

// errMoved means that a step is not to be done any more: there is something else now.
var errMoved = errors.New("there are other machines now")

// NotCome says which machines of a batch have not joined.
type NotCome struct {
	Namespace string
	// Machines are those that there are; Unmade says of sets that have made fewer than
	// they were asked for.
	Machines []Absent
	Unmade   []string
	// Counts says how many have.
	Counts string
	// Back is how many machines the sets have together without those that have not come.
	Back   int
	unmade int
	// Late is after how long that was so; 0 if it was not waited for.
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

// failed are those that never will; nil if there are none.
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

// What says what to look at.
func (n *NotCome) What() string {
	if len(n.Machines) == 0 {
		return fmt.Sprintf("kubectl -n %s describe machinesets.machine.openshift.io, and its controller (the Deployment machine-api-controllers), say why no machine was made", n.Namespace)
	}
	return fmt.Sprintf("kubectl -n %s describe machines.machine.openshift.io %s says why it has not come", n.Namespace, n.Machines[0].Name)
}

// absent returns why a machine has not joined.
func absent(in *Input, m *machine.Machine, within string) Absent {
	a := Absent{Name: m.Name, Failed: m.Phase() == machine.PhaseFailed}
	a.Why = fmt.Sprintf("machine %s of machine set %s ", m.Name, m.Set())
	switch n := nodeOf(in, m); {
	case a.Failed:
		a.Why += "is Failed"
	case m.Node() == "":
		a.Why += fmt.Sprintf("has no node%s (phase %s)", within, cmp.Or(m.Phase(), "not said"))
	case n == nil:
		a.Why += "is to be node " + m.Node() + ", which there is not"
	default:
		a.Why += "has joined, and its node " + n.Name + " is not Ready"
	}
	return a
}

// arrived says which of the machines of a step have not joined; nil where all have.
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
			case m.Phase() != machine.PhaseFailed && corestate.Ready(nodeOf(in, m)):
				joined++
			default:
				absents = append(absents, absent(in, m, ""))
			}
		}
		want := x.To - x.From
		if joined >= want {
			continue
		}
		counts = append(counts, fmt.Sprintf("of machine set %s %d of %d new machines have joined and are Ready", x.Set, joined, want))
		n.Machines = append(n.Machines, absents...)
		if unmade := want - joined - len(absents); unmade > 0 {
			n.unmade += unmade
			n.Unmade = append(n.Unmade, fmt.Sprintf("machine set %s has not made %d of %d machines", x.Set, unmade, want))
		}
		n.Back -= want - joined
	}
	if len(counts) == 0 {
		return nil
	}
	n.Counts = strings.Join(counts, ", ")
	return n
}

// some are the first of many names.
func some(names []string) string {
	const most = 5
	text := strings.Join(names[:min(len(names), most)], ", ")
	if more := len(names) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// begun are the rolls that have begun on the sets, for who goes on with them.
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
			return nil, fmt.Errorf("%w: of machine set %s; finish it with --roll, or forget it: kubectl annotate machinesets.machine.openshift.io %s -n %s %s-", ErrBegun, s.Name, s.Name, s.Namespace, machine.RollAnnotation)
		case ok:
			all[s.Name] = b
		}
	}
	return all, nil
}

// begin notes on the sets which of their machines are to be made anew.
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
