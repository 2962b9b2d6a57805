package machine

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"fettle.dev/fettle/internal/text"
)

// health evaluates MachineHealthChecks: which machines are or become unhealthy, whether remediation
// is open, and which machines to replace. It is pure computation; the operator acts on the result,
// if configured.

// States of a machine.
const (
	// Healthy has joined, and matches no condition of the check.
	Healthy = "healthy"
	// Pending machines have not joined yet, or match a condition for less than its timeout. They
	// count as unhealthy for the limit.
	Pending = "pending"
	// Unhealthy is to be replaced.
	Unhealthy = "unhealthy"
	// Leaving machines are being deleted, or remediated by the bare-metal provider.
	Leaving = "leaving"
)

// startupTimeout is the default of nodeStartupTimeout.
const startupTimeout = 10 * time.Minute

// StuckAfter is when a machine's deletion or external remediation counts as stuck; normally both
// need less time. A stuck deletion is only reported: what blocks it may protect the last copy of
// data. A stuck external remediation is reported and no longer blocks other machines, because its
// annotation may be stale.
const StuckAfter = 30 * time.Minute

// Judged is a machine and its state according to a check.
type Judged struct {
	Machine *Machine
	Node    *core.Node
	State   string
	Why     string
	// Cause is Why without constantly changing parts, such as durations.
	Cause string
	// Since is when the problem began; zero if unknown.
	Since time.Time
	// Due is when a pending machine becomes unhealthy, or a leaving one stuck; zero for others.
	Due time.Time
	// External reports whether the machine's annotation shows remediation by the bare-metal
	// provider.
	External bool
	// Stuck reports whether the machine has been leaving for longer than StuckAfter.
	Stuck bool
}

// holds reports whether other machines must wait until this one has left.
func (j *Judged) holds() bool { return j.State == Leaving && !(j.External && j.Stuck) }

// Judge applies a check to one machine. node is the machine's node, or nil. seen is when
// ExternalAnnotation was first seen on the machine, or zero. Source: openshift/machine-api-operator
// at 9511961, pkg/controller/machinehealthcheck, needsRemediation and healthCheckTargets: a healthy
// machine has a node, no deletion, no pending condition and no ExternalAnnotation; phase Failed is
// unhealthy despite the annotation.
func Judge(c *HealthCheck, m *Machine, node *core.Node, seen, now time.Time) Judged {
	j := judge(c, m, node, seen, now)
	j.Cause = cmp.Or(j.Cause, j.Why)
	return j
}

func judge(c *HealthCheck, m *Machine, node *core.Node, seen, now time.Time) Judged {
	j := Judged{Machine: m, Node: node, State: Healthy}
	if m.DeletionTimestamp != nil {
		j.deleted(now)
		return j
	}
	if m.Phase() == PhaseFailed {
		j.State, j.Why = Unhealthy, "its phase is Failed"
		return j
	}
	if _, ok := m.Annotations[ExternalAnnotation]; ok {
		j.external(seen, now)
		return j
	}
	if m.Node() == "" {
		j.starting(c, now)
		return j
	}
	if node == nil {
		j.State, j.Why = Unhealthy, "its node "+m.Node()+" is gone"
		return j
	}
	j.conditions(c, node, now)
	return j
}

// deleted judges a machine that is being deleted.
func (j *Judged) deleted(now time.Time) {
	m := j.Machine
	j.leaving("it is being deleted", m.DeletionTimestamp.Time, now,
		fmt.Sprintf("for the cause see kubectl -n %s describe machines.machine.openshift.io %s", m.Namespace, m.Name))
}

// external judges a machine that the bare-metal provider remediates. seen is when its annotation
// was first seen; managed fields may have an earlier time. Without a time, the machine does not
// count as stuck.
func (j *Judged) external(seen, now time.Time) {
	m := j.Machine
	if f := m.ExternalMark(); f != nil && (seen.IsZero() || f.Time.Time.Before(seen)) {
		seen = f.Time.Time
	}
	j.External = true
	j.leaving("waiting for the bare-metal provider to power-cycle its host ("+ExternalAnnotation+")", seen, now,
		fmt.Sprintf("if the provider does not act, remove the mark: kubectl -n %s annotate machines.machine.openshift.io %s %s-", m.Namespace, m.Name, ExternalAnnotation))
}

// leaving sets when the machine began to leave, and the advice after StuckAfter.
func (j *Judged) leaving(what string, since, now time.Time, advice string) {
	j.State, j.Why, j.Since = Leaving, what, since
	if since.IsZero() {
		return
	}
	j.Cause = what + " since " + since.UTC().Format(time.RFC3339)
	end := since.Add(StuckAfter)
	if !end.Before(now) {
		j.Due = end.Add(time.Second)
		return
	}
	j.Stuck = true
	more := fmt.Sprintf(", for longer than %s: %s", StuckAfter, advice)
	j.Why, j.Cause = j.Why+more, j.Cause+more
}

// starting judges a machine whose node has not joined.
func (j *Judged) starting(c *HealthCheck, now time.Time) {
	timeout := startupTimeout
	if t := c.Spec.NodeStartupTimeout; t != nil {
		timeout = t.Duration
	}
	// OpenShift's controller waits forever for a machine without lastUpdated.
	j.Since = j.Machine.CreationTimestamp.Time
	if t := j.Machine.Status.LastUpdated; t != nil {
		j.Since = t.Time
	}
	if timeout == 0 {
		// Never unhealthy, but not healthy either, so it counts against maxUnhealthy.
		j.State, j.Why = Pending, "it has no node, and no time limit for that (nodeStartupTimeout 0)"
		return
	}
	j.over(timeout, now, "it has no node", "nodeStartupTimeout")
}

// over marks the machine unhealthy if the problem has lasted longer than timeout, otherwise
// pending.
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

// conditions judges a node by the check's conditions: the node is unhealthy by the first whose
// timeout has passed, otherwise pending until the first timeout.
func (j *Judged) conditions(c *HealthCheck, node *core.Node, now time.Time) {
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

// Limit is a check's maximum number of unhealthy machines; above it nothing is remediated.
type Limit struct {
	// Machines is the number; -1 if it is invalid, which allows no remediation.
	Machines int
	// Words explain the number, such as "40 % of 6 machines is 2 (2.4 rounded down)".
	Words string
}

// LimitOf returns the limit for maxUnhealthy: a number (also as a string, "3") or a percentage.
// Negative numbers count as 0. Other strings and percentages over 100 allow no remediation; the
// pattern of the CRD rejects them (openshift/api, machine/v1beta1, spec.maxUnhealthy). If one is
// stored anyway, OpenShift's controller does not stop: 400 % of 10 machines is 40.
func LimitOf(max *intstr.IntOrString, machines int) Limit {
	if max == nil {
		return Limit{machines, fmt.Sprintf("maxUnhealthy is not set (100 %%): all of %s", text.Count(machines, "machine"))}
	}
	if max.Type == intstr.Int {
		return number(int(max.IntVal))
	}
	if p, ok := percentage(max); ok {
		if p > 100 {
			return Limit{-1, fmt.Sprintf("maxUnhealthy is %q; want at most 100%%", max.StrVal)}
		}
		return share(p, machines)
	}
	if n, err := strconv.Atoi(max.StrVal); err == nil {
		return number(n)
	}
	return Limit{-1, fmt.Sprintf("maxUnhealthy is %q; want a number or a percentage", max.StrVal)}
}

// percentage parses a text such as "40%".
func percentage(max *intstr.IntOrString) (percent int, ok bool) {
	text, ok := strings.CutSuffix(max.StrVal, "%")
	if !ok || max.Type != intstr.String {
		return 0, false
	}
	percent, err := strconv.Atoi(text)
	return percent, err == nil
}

// Unread reports whether maxUnhealthy is invalid.
func (l Limit) Unread() bool { return l.Machines < 0 }

func number(n int) Limit {
	if n < 0 {
		return Limit{0, text.Sprintf("maxUnhealthy is %d, which counts as 0", n)}
	}
	return Limit{n, text.Sprintf("maxUnhealthy is %d", n)}
}

// share returns the limit for a percentage of machines, rounded down.
func share(percent, machines int) Limit {
	product := max(percent, 0) * machines
	words := text.Sprintf("%d %% of %s is %d", percent, text.Count(machines, "machine"), product/100)
	if rest := product % 100; rest != 0 {
		words += fmt.Sprintf(" (%s rounded down)", strings.TrimRight(fmt.Sprintf("%d.%02d", product/100, rest), "0"))
	}
	return Limit{product / 100, words}
}

// Open reports whether this number of unhealthy machines allows remediation.
func (l Limit) Open(unhealthy int) bool { return unhealthy <= l.Machines }

// Sentence explains the limit, such as "40 % of 25 machines is 10; 11 are unhealthy: nothing is
// remediated".
func (l Limit) Sentence(unhealthy int) string {
	are := text.Sprintf("%d are unhealthy", unhealthy)
	if unhealthy == 1 {
		are = "1 is unhealthy"
	}
	switch {
	case l.Unread():
		return l.Words + ": nothing is remediated"
	case !l.Open(unhealthy):
		return l.Words + "; " + are + ": nothing is remediated"
	case unhealthy == 0:
		return l.Words + "; none is unhealthy"
	}
	return l.Words + "; " + are + ": remediation is allowed"
}
