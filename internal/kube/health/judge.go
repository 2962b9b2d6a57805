// Package health says what a MachineHealthCheck makes of machines: who is unhealthy, who
// will be and when, whether remediation is open, and which machines are to be made anew.
// It sees values and does nothing: who acts is the operator, and by default nobody.
package health

import (
	"cmp"
	"fmt"
	"time"

	core "k8s.io/api/core/v1"

	"fettle.dev/fettle/internal/kube/machine"
)

// States of a machine.
const (
	// Healthy has joined, and no condition of the check holds.
	Healthy = "healthy"
	// Pending has not joined yet, or a condition holds that has not lasted long enough.
	// It counts as unhealthy for the limit.
	Pending = "pending"
	// Unhealthy is to be made anew.
	Unhealthy = "unhealthy"
	// Leaving is being deleted, or something outside is at work on it.
	Leaving = "leaving"
)

// startupTimeout is nodeStartupTimeout where nothing is said.
const startupTimeout = 10 * time.Minute

// StuckAfter is how long a machine may be being deleted before its deletion counts as
// stuck: as long as a drain that goes on and a provider that answers take. It is said then,
// not worked around: what keeps a machine may be the last copy of somebody's data.
const StuckAfter = 30 * time.Minute

// Judged is a machine and its state.
type Judged struct {
	Machine *machine.Machine
	Node    *core.Node
	State   string
	Why     string
	// Cause is why, without what changes from one moment to the next.
	Cause string
	// Since is when what is wrong with it began; zero if it is not known.
	Since time.Time
	// Due is when a pending machine becomes unhealthy, and one that is being deleted stuck,
	// if nothing changes; zero for others.
	Due time.Time
	// Stuck says that it has been being deleted for longer than StuckAfter.
	Stuck bool
}

// Judge says what a check makes of one machine at a time. node is nil if there is none of
// the name that the machine has.
// Source: openshift/machine-api-operator, pkg/controller/machinehealthcheck, needsRemediation.
func Judge(c *machine.HealthCheck, m *machine.Machine, node *core.Node, now time.Time) Judged {
	j := judge(c, m, node, now)
	j.Cause = cmp.Or(j.Cause, j.Why)
	return j
}

func judge(c *machine.HealthCheck, m *machine.Machine, node *core.Node, now time.Time) Judged {
	j := Judged{Machine: m, Node: node, State: Healthy}
	if m.DeletionTimestamp != nil {
		j.leaving(now)
		return j
	}
	if _, ok := m.Annotations[machine.ExternalAnnotation]; ok {
		j.State, j.Why = Leaving, "something outside of the cluster is at work on it ("+machine.ExternalAnnotation+")"
		return j
	}
	if m.Phase() == machine.PhaseFailed {
		j.State, j.Why = Unhealthy, "its phase is Failed"
		return j
	}
	if m.Node() == "" {
		j.starting(c, now)
		return j
	}
	if node == nil {
		j.State, j.Why = Unhealthy, "its node "+m.Node()+" is no more"
		return j
	}
	j.conditions(c, node, now)
	return j
}

// leaving judges a machine that is being deleted.
func (j *Judged) leaving(now time.Time) {
	m := j.Machine
	j.State, j.Why, j.Since = Leaving, "it is being deleted", m.DeletionTimestamp.Time
	j.Cause = "it is being deleted since " + j.Since.UTC().Format(time.RFC3339)
	end := j.Since.Add(StuckAfter)
	if !end.Before(now) {
		j.Due = end.Add(time.Second)
		return
	}
	j.Stuck = true
	more := fmt.Sprintf(", for longer than %s: kubectl -n %s describe machines.machine.openshift.io %s says what holds it up", StuckAfter, m.Namespace, m.Name)
	j.Why, j.Cause = j.Why+more, j.Cause+more
}

// starting judges a machine that has not joined.
func (j *Judged) starting(c *machine.HealthCheck, now time.Time) {
	timeout := startupTimeout
	if t := c.Spec.NodeStartupTimeout; t != nil {
		timeout = t.Duration
	}
	if timeout == 0 {
		j.Why = "it has no node, and may take as long as it likes (nodeStartupTimeout 0)"
		return
	}
	// The original waits without end for a machine that nothing was ever said of.
	j.Since = j.Machine.CreationTimestamp.Time
	if t := j.Machine.Status.LastUpdated; t != nil {
		j.Since = t.Time
	}
	j.over(timeout, now, "it has no node", "nodeStartupTimeout")
}

// over makes it unhealthy if what began lasts longer than the timeout, else pending.
func (j *Judged) over(timeout time.Duration, now time.Time, what, name string) {
	end := j.Since.Add(timeout)
	lasts := now.Sub(j.Since).Truncate(time.Second)
	if end.Before(now) {
		j.State, j.Why = Unhealthy, fmt.Sprintf("%s for %s, longer than %s %s", what, lasts, name, timeout)
		j.Cause = fmt.Sprintf("%s for longer than %s %s", what, name, timeout)
		return
	}
	j.State, j.Why = Pending, fmt.Sprintf("%s for %s, of %s %s", what, lasts, name, timeout)
	j.Due = end.Add(time.Second)
	j.Cause = fmt.Sprintf("%s; unhealthy at %s", what, end.UTC().Format(time.RFC3339))
}

// conditions judges a node by the conditions of the check: unhealthy by the first that
// has lasted too long, else pending until the first that will have.
func (j *Judged) conditions(c *machine.HealthCheck, node *core.Node, now time.Time) {
	var soonest *Judged
	for _, u := range c.Spec.UnhealthyConditions {
		for _, has := range node.Status.Conditions {
			if has.Type != u.Type || has.Status != u.Status {
				continue
			}
			x := *j
			x.Since = has.LastTransitionTime.Time
			x.over(u.Timeout.Duration, now, fmt.Sprintf("node %s is %s=%s", node.Name, has.Type, has.Status), "the timeout")
			if x.State == Unhealthy {
				*j = x
				return
			}
			if soonest == nil || x.Due.Before(soonest.Due) {
				soonest = &x
			}
		}
	}
	if soonest != nil {
		*j = *soonest
	}
}
