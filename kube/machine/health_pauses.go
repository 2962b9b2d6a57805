package machine

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	coordination "k8s.io/api/coordination/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/kube/kubelet"
)

// RollOut reads a KubeletPool (fettle.dev/v1alpha1), and says why remediation waits for
// it: nodes change, and are not Ready meanwhile. "" if it does not. A roll-out that waits
// itself is no reason, be it paused, stopped by a failure, or waiting for nodes that are
// not available: these may be the ones to be remedied, and then both would wait for ever.
// Nor is one whose node has not been heard of for too long (Degraded, Stuck).
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
	names := strings.Join(p.Status.Changing[:min(n, shown)], ", ")
	if n > shown {
		names += fmt.Sprintf(" and %d more", n-shown)
	}
	return fmt.Sprintf("a roll-out of the kubelet's settings runs in pool %s: %d of %s %s them, %s %s changing", p.Metadata.Name, p.Status.Updated, text.Count(p.Status.Nodes, "node"), ifOne(p.Status.Updated, "has", "have"), names, ifOne(n, "is", "are")), nil
}

func ifOne(n int, one, more string) string {
	if n == 1 {
		return one
	}
	return more
}

// Upgrade reads OpenShift's ClusterVersion (config.openshift.io/v1), and says why
// remediation waits for it; "" if no upgrade of the cluster runs.
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
			// Its message counts what is done, and changes all the time.
			return "an upgrade of the cluster" + to + " runs (ClusterVersion, condition Progressing)", nil
		}
	}
	return "", nil
}

// LeaseSeen is the version of a lease that was seen last, and when it was first seen.
type LeaseSeen struct {
	Version string
	At      time.Time
}

// leaseTime is how long a lease holds where it does not say.
const leaseTime = time.Minute

// Scaling says by the lease machine.ScaleLease why remediation waits for a scale; "" if
// none runs. l is nil if there is no such lease. Whoever scales renews it: one that has
// not changed for its time is that of a program that was killed. When it was first seen
// counts, not what its holder's clock says; until is when it ends if it is not renewed.
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
