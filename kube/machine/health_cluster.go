package machine

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/kube/cluster"
	"fettle.dev/fettle/kube/kubelet"
)

// Cluster is the input for deciding about all checks of a cluster.
type Cluster struct {
	Now      time.Time
	Checks   []HealthCheck
	Machines []Machine
	Nodes    []core.Node
	Others   []Other
	Pauses   []string
	// Rivals maps namespaces to other controllers of their checks; fettle does nothing there.
	Rivals map[string]string
	// Adopt, ControlPlane and External are the fields of Input.
	Adopt, ControlPlane bool
	External            map[types.UID]time.Time
}

// Answer is the decision about a check.
type Answer struct {
	Check *HealthCheck
	// Decision is nil for an unreadable check; Err has the reason.
	*Decision
	Err error
}

// Decide decides about all checks, ordered by namespace and name. It remediates only one machine at
// a time over all checks; the Waits of other checks name it.
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

// Turn returns the answer with the machine to remediate now, or nil.
func Turn(all []Answer) *Answer {
	for i := range all {
		if all[i].Decision != nil && len(all[i].Remediate) > 0 {
			return &all[i]
		}
	}
	return nil
}

// candidate is an unhealthy machine of a check.
type candidate struct {
	*Judged
	of *HealthCheck
}

// before orders candidates by their start time, then by name.
func (a candidate) before(b candidate) bool {
	return b.Judged == nil || cmp.Or(a.Since.Compare(b.Since), strings.Compare(a.of.Namespace, b.of.Namespace), strings.Compare(a.Machine.Name, b.Machine.Name)) < 0
}

// takeTurns keeps at most one machine to remediate over all checks: none while a machine of any
// check is leaving, otherwise the one unhealthy the longest. The result does not depend on the
// order of checks, and no check can block the others.
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
			why = fmt.Sprintf("machine %s of MachineHealthCheck %s is being replaced: %s", away.Machine.Name, away.seenFrom(a.Check), away.Cause)
		case next.of != a.Check:
			why = fmt.Sprintf("machine %s of MachineHealthCheck %s is replaced first", next.Machine.Name, next.seenFrom(a.Check))
		default:
			continue
		}
		a.Waits = append(a.Waits, "only one machine is replaced at a time, and "+why)
		a.Queued, a.Remediate, a.behind = append(a.Remediate, a.Queued...), nil, true
	}
}

// seenFrom returns the name of the candidate's check, with its namespace if it differs from
// other's.
func (a candidate) seenFrom(other *HealthCheck) string {
	if a.of.Namespace == other.Namespace {
		return a.of.Name
	}
	return a.of.Namespace + "/" + a.of.Name
}

// Reasons not to remediate an unhealthy machine. The conditions' reasons TooManyUnhealthy,
// OtherController, Waiting and BadCheck apply too.
const (
	ControlPlane     = "ControlPlane"
	ExternalStrategy = "ExternalStrategy"
	NoController     = "NoController"
	AnotherCheck     = "AnotherCheck"
	AnotherRemedy    = "AnotherRemedy"
)

// Refused returns the unhealthy machines that are not remediated, with the reasons. It omits
// machines that only wait for their turn.
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

// RollOut parses a KubeletPool (fettle.dev/v1alpha1), and returns the reason why remediation must
// wait for its rollout, or "". Remediation waits because a rollout makes nodes not Ready for a
// short time. It does not wait if the rollout is paused, has failed, is stuck at an unresponsive
// node, or itself waits for unavailable nodes. Such nodes may need remediation, so both would wait
// forever.
func RollOut(pool []byte) (why string, err error) {
	var p struct {
		Metadata meta.ObjectMeta `json:"metadata"`
		Status   struct {
			Nodes      int              `json:"nodes"`
			Updated    int              `json:"updated"`
			Changing   []string         `json:"changing"`
			Conditions []meta.Condition `json:"conditions"`
		} `json:"status"`
	}
	if err := json.Unmarshal(pool, &p); err != nil {
		return "", fmt.Errorf("KubeletPool: %w", err)
	}
	n := len(p.Status.Changing)
	stuck := slices.ContainsFunc(p.Status.Conditions, func(c meta.Condition) bool {
		return c.Type == kubelet.Degraded && c.Status == meta.ConditionTrue && c.Reason == kubelet.Stuck
	})
	if n == 0 || stuck {
		return "", nil
	}
	return text.Sprintf("a rollout of kubelet settings is in progress in pool %s: %d of %s %s the settings, %s %s changing", p.Metadata.Name, p.Status.Updated, text.Count(p.Status.Nodes, "node"), ifOne(p.Status.Updated, "has", "have"), cluster.First(p.Status.Changing, shown), ifOne(n, "is", "are")), nil
}

func ifOne(n int, one, more string) string {
	if n == 1 {
		return one
	}
	return more
}

// Upgrade parses OpenShift's ClusterVersion (config.openshift.io/v1), and returns why remediation
// waits for an upgrade; "" if none runs.
func Upgrade(version []byte) (why string, err error) {
	var v struct {
		Status struct {
			Desired struct {
				Version string `json:"version"`
			} `json:"desired"`
			Conditions []struct{ Type, Status, Message string } `json:"conditions"`
		} `json:"status"`
	}
	if err := json.Unmarshal(version, &v); err != nil {
		return "", fmt.Errorf("ClusterVersion: %w", err)
	}
	for _, c := range v.Status.Conditions {
		if c.Type == "Progressing" && c.Status == string(meta.ConditionTrue) {
			to := ""
			if v.Status.Desired.Version != "" {
				to = " to " + v.Status.Desired.Version
			}
			// Its message has progress counts, and changes constantly.
			return "an upgrade of the cluster" + to + " runs (ClusterVersion, condition Progressing)", nil
		}
	}
	return "", nil
}

// LeaseSeen is the last observed version of a lease, and when it was first observed.
type LeaseSeen struct {
	Version string
	At      time.Time
}

// leaseTime is the default duration of a lease.
const leaseTime = time.Minute

// Scaling returns why remediation waits for the process that scales machine sets, or "". That
// process holds and renews the lease machine.ScaleLease, l; nil means none. A lease that is
// unchanged for its duration belongs to a killed process. The duration counts from the first
// observation here, not by the holder's clock. until is the end of the lease unless it is renewed.
func Scaling(l *coordination.Lease, last LeaseSeen, now time.Time) (why string, seen LeaseSeen, until time.Time) {
	if l == nil {
		return "", LeaseSeen{}, time.Time{}
	}
	if seen = last; seen.At.IsZero() || seen.Version != l.ResourceVersion {
		seen = LeaseSeen{l.ResourceVersion, now}
	}
	if l.Spec.HolderIdentity == nil || *l.Spec.HolderIdentity == "" {
		return "", seen, time.Time{}
	}
	holds := leaseTime
	if s := l.Spec.LeaseDurationSeconds; s != nil && *s > 0 {
		holds = time.Duration(*s) * time.Second
	}
	if until = seen.At.Add(holds); !now.Before(until) {
		return "", seen, time.Time{}
	}
	what := l.Annotations[ScaleAnnotation]
	if what != "" {
		what = ": " + what
	}
	return "machine sets are being scaled by " + *l.Spec.HolderIdentity + what, seen, until
}
