package machine

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// openshift states what OpenShift's controller makes of one machine: whether it counts as
// healthy, and whether it is deleted if maxUnhealthy allows. It is written from the
// controller's behavior (openshift/machine-api-operator at 9511961,
// pkg/controller/machinehealthcheck: Reconcile, needsRemediation, healthCheckTargets,
// internalRemediation), not from judge.go, and knows none of its types of state.
func openshift(c *HealthCheck, m *Machine, node *core.Node) (healthy, deleted bool) {
	_, marked := m.Annotations[ExternalAnnotation]
	failed := m.Status.Phase != nil && *m.Status.Phase == "Failed"
	ill, pending := failed, false
	switch {
	case failed:
	case m.Status.NodeRef == nil:
		limit := 10 * time.Minute
		if c.Spec.NodeStartupTimeout != nil {
			limit = c.Spec.NodeStartupTimeout.Duration
		}
		if limit > 0 {
			ill = m.Status.LastUpdated.Add(limit).Before(healthNow)
			pending = !ill
		}
	case node == nil:
		ill = true
	default:
		for _, u := range c.Spec.UnhealthyConditions {
			for _, has := range node.Status.Conditions {
				if has.Type == u.Type && has.Status == u.Status {
					over := has.LastTransitionTime.Add(u.Timeout.Duration).Before(healthNow)
					ill, pending = ill || over, true
				}
			}
		}
	}
	healthy = !ill && !pending && m.DeletionTimestamp == nil && m.Status.NodeRef != nil && !marked
	external := c.Annotations["machine.openshift.io/remediation-strategy"] == "external-baremetal"
	owned := slices.ContainsFunc(m.OwnerReferences, func(o meta.OwnerReference) bool { return o.Controller != nil && *o.Controller })
	return healthy, ill && (failed || !external) && owned && m.DeletionTimestamp == nil
}

// TestUpstream: on clusters made at random fettle counts the machines that OpenShift's
// controller counts, closes remediation where it does, and deletes those that it deletes,
// but for one difference that the manual states: of a machine that the bare-metal provider
// works on, and that has not failed, fettle waits for the provider. (How many at once, and
// the control plane without --remediate-control-plane, are other tests' differences.)
func TestUpstream(t *testing.T) {
	r := rand.New(rand.NewPCG(20, 5))
	yes, no := true, false
	one := func(of ...string) string { return of[r.IntN(len(of))] }
	some := func(percent int) bool { return r.IntN(100) < percent }
	seen := map[string]int{}
	for i := range 5000 {
		in := pool(1+r.IntN(12), 0)
		c := in.Check
		c.Spec.MaxUnhealthy = maximum(one("40%", "100%", "0%", "2", "10%"))
		switch one("none", "never", "short") {
		case "never":
			c.Spec.NodeStartupTimeout = &meta.Duration{}
		case "short":
			c.Spec.NodeStartupTimeout = &meta.Duration{Duration: 3 * time.Minute}
		}
		if some(20) {
			c.Annotations = map[string]string{StrategyAnnotation: one(StrategyExternal, "reboot", "")}
		}
		in.ControlPlane, in.Checks = true, []HealthCheck{*c}
		healthy, want, nodes := 0, map[string]bool{}, map[string]*core.Node{}
		for k := range in.Machines {
			m, n := &in.Machines[k], &in.Nodes[k]
			at := meta.NewTime(healthNow.Add(-time.Duration(r.IntN(1200)) * time.Second))
			m.Status.LastUpdated = &at
			if some(30) {
				n.Status.Conditions[1].Status = core.ConditionStatus(one("True", "False", "Unknown"))
				n.Status.Conditions[1].LastTransitionTime = meta.NewTime(healthNow.Add(-time.Duration(r.IntN(600)) * time.Second))
			}
			if some(20) {
				m.Status.NodeRef = nil
			}
			if phase := one("", "Running", "Running", "Running", "Provisioned", "Failed"); phase != "" {
				m.Status.Phase = &phase
			}
			if some(10) {
				m.DeletionTimestamp = &at
			}
			if some(15) {
				marked(m, time.Duration(r.IntN(7200))*time.Second)
			}
			switch one("set", "set", "set", "control plane", "nobody", "not a controller") {
			case "control plane":
				m.OwnerReferences[0].Kind, n.Labels["node-role.kubernetes.io/master"] = "ControlPlaneMachineSet", ""
			case "nobody":
				m.OwnerReferences = nil
			case "not a controller":
				m.OwnerReferences[0].Controller = &no
			default:
				m.OwnerReferences[0].Controller = &yes
			}
			if !some(5) {
				nodes[n.Name] = n
			} else {
				n.Name = "gone"
			}
			h, d := openshift(c, m, nodes[m.Node()])
			if h {
				healthy++
			}
			if _, ok := m.Annotations[ExternalAnnotation]; ok && d && m.Phase() != "Failed" {
				seen["left to the provider"]++
				d = false
			}
			if d {
				want[m.Name] = true
			}
		}
		d := decide(t, in)
		if d.Healthy != healthy {
			t.Fatalf("cluster %d: %d of %d healthy, OpenShift counts %d: %+v", i, d.Healthy, d.Expected, healthy, d.Words())
		}
		got := map[string]bool{}
		for _, j := range append(slices.Clone(d.Remediate), d.Queued...) {
			got[j.Machine.Name] = true
		}
		if open := d.Limit.Open(d.Unhealthy); !open {
			seen["closed"]++
			if len(d.Remediate) > 0 {
				t.Fatalf("cluster %d: %v", i, d.Words())
			}
		}
		if !maps.Equal(got, want) {
			t.Fatalf("cluster %d: fettle deletes %v, OpenShift %v: %v", i, got, want, d.Words())
		}
		seen["deleted"] += len(want)
		seen["remediated now"] += len(d.Remediate)
	}
	for _, what := range []string{"left to the provider", "closed", "deleted", "remediated now"} {
		if seen[what] < 100 {
			t.Errorf("%s: %d times only: %v", what, seen[what], fmt.Sprint(seen))
		}
	}
}

// TestNeverJoined: machines without a node and without a time limit count against the
// limit (10 machines, 6 never joined, 1 not ready, 40 %).
func TestNeverJoined(t *testing.T) {
	in := pool(10, 1)
	in.Check.Spec.NodeStartupTimeout = &meta.Duration{}
	for i := 4; i < 10; i++ {
		in.Machines[i].Status.NodeRef = nil
	}
	d := decide(t, in)
	if d.Healthy != 3 || d.Unhealthy != 7 || len(d.Remediate) != 0 || d.Limit.Open(d.Unhealthy) || !d.Next.IsZero() {
		t.Errorf("%d healthy, next %s: %v", d.Healthy, d.Next, d.Words())
	}
}
