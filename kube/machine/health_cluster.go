package machine

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Cluster is all that the decisions about the checks of a cluster are made of, whatever
// their namespaces.
type Cluster struct {
	Now      time.Time
	Checks   []HealthCheck
	Machines []Machine
	Nodes    []core.Node
	Others   []Other
	Pauses   []string
	// Rivals name the controllers that have the checks of a namespace, so that nothing
	// is done there.
	Rivals map[string]string
	// Adopt, ControlPlane and External are those of Input.
	Adopt, ControlPlane bool
	External            map[types.UID]time.Time
}

// Answer is what was decided about a check.
type Answer struct {
	Check *HealthCheck
	// Decision is nil if the check cannot be read, which Err says.
	*Decision
	Err error
}

// Decide decides about all checks, in the order of their namespaces and names. Over all
// of them one machine is remedied at a time: whoever has to wait for that says so in
// Waits.
func (c Cluster) Decide() []Answer {
	k := knownOf(c.Nodes, c.Checks)
	all := make([]Answer, len(c.Checks))
	for i := range c.Checks {
		check := &c.Checks[i]
		d, err := Decide(Input{
			Now: c.Now, Check: check, Machines: c.Machines, Others: c.Others, Pauses: c.Pauses,
			ReportOnly: c.Rivals[check.Namespace], Adopt: c.Adopt, ControlPlane: c.ControlPlane, External: c.External, known: k,
		})
		all[i] = Answer{check, d, err}
	}
	slices.SortFunc(all, func(a, b Answer) int {
		return cmp.Or(strings.Compare(a.Check.Namespace, b.Check.Namespace), strings.Compare(a.Check.Name, b.Check.Name))
	})
	takeTurns(all)
	return all
}

// Turn is the answer for the machine whose turn it is; nil if it is no machine's turn.
func Turn(all []Answer) *Answer {
	for i := range all {
		if all[i].Decision != nil && len(all[i].Remediate) > 0 {
			return &all[i]
		}
	}
	return nil
}

// candidate is a machine of a check.
type candidate struct {
	*Judged
	of *HealthCheck
}

// before orders candidates: since when, then by name.
func (a candidate) before(b candidate) bool {
	return b.Judged == nil || cmp.Or(a.Since.Compare(b.Since), strings.Compare(a.of.Namespace, b.of.Namespace), strings.Compare(a.Machine.Name, b.Machine.Name)) < 0
}

// takeTurns leaves one machine to be remedied over all checks: none while one of any
// check is on its way, else the one that has been ill the longest. So the order does not
// depend on whose check is looked at first, and no check can keep the others waiting for
// all of its machines.
func takeTurns(all []Answer) {
	var away, next candidate
	for _, a := range all {
		if a.Decision == nil {
			continue
		}
		for i := range a.Leaving {
			if c := (candidate{&a.Leaving[i], a.Check}); c.holds() && c.before(away) {
				away = c
			}
		}
		for i := range a.Remediate {
			if c := (candidate{&a.Remediate[i], a.Check}); c.before(next) {
				next = c
			}
		}
	}
	for _, a := range all {
		var why string
		switch {
		case a.Decision == nil || len(a.Remediate) == 0:
			continue
		case away.Judged != nil:
			why = fmt.Sprintf("machine %s of MachineHealthCheck %s is on its way: %s", away.Machine.Name, away.seenFrom(a.Check), away.Cause)
		case next.of != a.Check:
			why = fmt.Sprintf("machine %s of MachineHealthCheck %s goes first", next.Machine.Name, next.seenFrom(a.Check))
		default:
			continue
		}
		a.Waits = append(a.Waits, "one machine of the cluster is made anew at a time, and "+why)
		a.Queued, a.Remediate, a.behind = append(a.Remediate, a.Queued...), nil, true
	}
}

// seenFrom is the name of the candidate's check, with its namespace where that is
// another one.
func (a candidate) seenFrom(other *HealthCheck) string {
	if a.of.Namespace == other.Namespace {
		return a.of.Name
	}
	return a.of.Namespace + "/" + a.of.Name
}

// Reasons for which an unhealthy machine is not remediated, in addition to those of conditions:
// TooManyUnhealthy, OtherController, Waiting, BadCheck.
const (
	ControlPlane     = "ControlPlane"
	ExternalStrategy = "ExternalStrategy"
	NoController     = "NoController"
	AnotherCheck     = "AnotherCheck"
	AnotherRemedy    = "AnotherRemedy"
)

// Refused are the unhealthy machines that are not remediated, each with the reason. One
// that only waits for those before it is not among them.
func (a *Answer) Refused() map[*Machine]string {
	if a.Decision == nil {
		return nil
	}
	reason := ""
	switch {
	case a.ReportOnly != "":
		reason = OtherController
	case a.Limit.Unread():
		reason = BadCheck
	case !a.Limit.Open(a.Unhealthy):
		reason = TooManyUnhealthy
	case len(a.Waits) > 0 && !a.behind:
		reason = Waiting
	}
	out := map[*Machine]string{}
	for _, j := range a.Queued {
		if reason != "" {
			out[j.Machine] = reason
		}
	}
	for _, s := range a.Skipped {
		i := slices.IndexFunc(a.Machines, func(j Judged) bool { return j.Machine.Name == s.Machine })
		out[a.Machines[i].Machine] = s.Reason
	}
	return out
}
