package operator

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fettle.dev/fettle/kube/machine"
)

// told returns the new events that contain a text.
func (b *healthBench) told(what string) (out []string) {
	for {
		select {
		case e := <-b.events.(*record.FakeRecorder).Events:
			if strings.Contains(e, what) {
				out = append(out, e)
			}
		default:
			return out
		}
	}
}

// TestStuck tests that a deletion that does not end is checked in time without an event. Then the
// condition, one event and the metric name it. Nothing else is remediated until the machine is
// gone.
func TestStuck(t *testing.T) {
	b := healthNewBench(t, "40%", 25, 3).look()
	b.once()
	b.once()
	m := &machine.Machine{}
	if err := b.api.Get(t.Context(), client.ObjectKey{Namespace: machine.Namespace, Name: "m02"}, m); err != nil || m.DeletionTimestamp == nil {
		t.Fatalf("m02 is not being deleted: %v", err)
	}
	b.at = m.DeletionTimestamp.Time
	r, err := b.checks(t.Context())
	if err != nil || r.RequeueAfter <= machine.StuckAfter || r.RequeueAfter > machine.StuckAfter+2*minimum {
		t.Fatalf("looked at again in %s: %v", r.RequeueAfter, err)
	}
	if c := condition(b.status()); c.Reason != machine.InProgress {
		t.Errorf("%+v", c)
	}
	b.told("") // what was before
	b.at = b.at.Add(r.RequeueAfter)
	for range 3 {
		b.once()
	}
	c := condition(b.status())
	if c.Reason != machine.Stuck || c.Status != "False" || c.Severity != "Warning" || !strings.Contains(c.Message, "machine m02 is being replaced: it is being deleted since ") || !strings.Contains(c.Message, "for longer than 30m0s") {
		t.Errorf("%+v", c)
	}
	if e := b.told("RemediationStuck"); len(e) != 1 || !strings.Contains(e[0], "machines.machine.openshift.io m02") {
		t.Errorf("%q", e)
	}
	const check = "openshift-machine-api/workers"
	if got := healthValues(t, b.tally); got["machines_stuck{"+check+"}"] != 1 || got["machine_checks{Stuck}"] != 1 {
		t.Errorf("%v", got)
	}
	if fmt.Sprint(b.deleted) != "[m02]" {
		t.Errorf("deleted %v", b.deleted)
	}
	b.gone("m02")
	b.once()
	if got := healthValues(t, b.tally); fmt.Sprint(b.deleted) != "[m02 m01]" || got["machines_stuck{"+check+"}"] != 0 {
		t.Errorf("it is gone; deleted %v, %v", b.deleted, got)
	}
}

// TestStuckExternal tests a stale mark of the bare-metal provider. It blocks remediation for half
// an hour from the operator's first observation (the simulated API server keeps no managed fields),
// also across decisions with data from the API server. Then the metric names it, and remediation
// continues.
func TestStuckExternal(t *testing.T) {
	b := healthNewBench(t, "40%", 25, 1).look()
	m := &machine.Machine{}
	key := client.ObjectKey{Namespace: machine.Namespace, Name: "m20"}
	if err := b.api.Get(t.Context(), key, m); err != nil {
		t.Fatal(err)
	}
	m.Annotations = map[string]string{machine.ExternalAnnotation: ""}
	if err := b.api.Update(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	r, err := b.checks(t.Context())
	if err != nil || len(b.deleted) != 0 || r.RequeueAfter != machine.StuckAfter+minimum {
		t.Fatalf("deleted %v, again in %s: %v", b.deleted, r.RequeueAfter, err)
	}
	b.at = b.at.Add(r.RequeueAfter)
	b.once()
	const check = "openshift-machine-api/workers"
	if got := healthValues(t, b.tally); fmt.Sprint(b.deleted) != "[m00]" || got["machines_stuck{"+check+"}"] != 1 {
		t.Errorf("deleted %v, %v", b.deleted, got)
	}
	b.gone("m00")
	b.once()
	if c := condition(b.status()); c.Reason != machine.Stuck {
		t.Errorf("%+v", c)
	}
}

// TestKeepMark tests that the cached part of a machine contains what decisions read.
func TestKeepMark(t *testing.T) {
	yes, at := true, metav1.NewTime(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	m := &machine.Machine{ObjectMeta: metav1.ObjectMeta{
		Name: "m", Annotations: map[string]string{machine.ExternalAnnotation: "", "other": "x"},
		OwnerReferences: []metav1.OwnerReference{{Kind: "ControlPlaneMachineSet", Name: "cluster", Controller: &yes}},
		ManagedFields: []metav1.ManagedFieldsEntry{
			{Manager: "kubectl-annotate", Time: &at, FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:annotations":{".":{},"f:host.metal3.io/external-remediation":{}}}}`)},
		},
	}}
	o, err := keep(m)
	if err != nil {
		t.Fatal(err)
	}
	k := o.(*machine.Machine)
	if f := k.ExternalMark(); k.Controller() != "ControlPlaneMachineSet cluster" || len(k.Annotations) != 1 || f == nil || !f.Time.Equal(&at) {
		t.Errorf("%+v", k)
	}
}

// TestLimitThatIsNone tests that nothing is remediated with an invalid limit, and that the check
// reports the reason once.
func TestLimitThatIsNone(t *testing.T) {
	b := healthNewBench(t, "400%", 25, 3).look()
	b.once()
	b.once()
	const why = `maxUnhealthy is "400%"; want at most 100%: nothing is remediated`
	if c := condition(b.status()); len(b.deleted) != 0 || c.Reason != machine.BadCheck || c.Message != why {
		t.Errorf("deleted %v; %+v", b.deleted, c)
	}
	if e := b.told("BadCheck"); len(e) != 1 || e[0] != "Warning BadCheck "+why {
		t.Errorf("%q", e)
	}
	got := healthValues(t, b.tally)
	if got["machine_checks{BadCheck}"] != 1 || got["machine_check_short_circuited{openshift-machine-api/workers}"] != 0 {
		t.Errorf("%v", got)
	}
}
