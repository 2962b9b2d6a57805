package control

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fettle.dev/fettle/internal/kube/health"
	"fettle.dev/fettle/internal/kube/machine"
)

// told are the events since it was asked last that say this.
func (b *bench) told(what string) (out []string) {
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

// TestStuck: a deletion that does not come to an end is looked at when it is time, without
// an event; then the condition, one event and the metric name it. Nothing else is
// remediated until it is gone.
func TestStuck(t *testing.T) {
	b := newBench(t, "40%", 25, 3).look()
	b.once()
	b.once()
	m := &machine.Machine{}
	if err := b.api.Get(t.Context(), client.ObjectKey{Namespace: machine.Namespace, Name: "m02"}, m); err != nil || m.DeletionTimestamp == nil {
		t.Fatalf("m02 is not being deleted: %v", err)
	}
	b.at = m.DeletionTimestamp.Time
	r, err := b.checks(t.Context())
	if err != nil || r.RequeueAfter <= health.StuckAfter || r.RequeueAfter > health.StuckAfter+2*minimum {
		t.Fatalf("looked at again in %s: %v", r.RequeueAfter, err)
	}
	if c := condition(b.status()); c.Reason != health.InProgress {
		t.Errorf("%+v", c)
	}
	b.told("") // what was before
	b.at = b.at.Add(r.RequeueAfter)
	for range 3 {
		b.once()
	}
	c := condition(b.status())
	if c.Reason != health.Stuck || c.Status != "False" || c.Severity != "Warning" || !strings.Contains(c.Message, "machine m02 is on its way: it is being deleted since ") || !strings.Contains(c.Message, "for longer than 30m0s") {
		t.Errorf("%+v", c)
	}
	if e := b.told("RemediationStuck"); len(e) != 1 || !strings.Contains(e[0], "machines.machine.openshift.io m02") {
		t.Errorf("%q", e)
	}
	const check = "openshift-machine-api/workers"
	if got := values(t, b.tally); got["machines_stuck{"+check+"}"] != 1 || got["machine_checks{Stuck}"] != 1 {
		t.Errorf("%v", got)
	}
	if fmt.Sprint(b.deleted) != "[m02]" {
		t.Errorf("deleted %v", b.deleted)
	}
	b.gone("m02")
	b.once()
	if got := values(t, b.tally); fmt.Sprint(b.deleted) != "[m02 m01]" || got["machines_stuck{"+check+"}"] != 0 {
		t.Errorf("it is gone; deleted %v, %v", b.deleted, got)
	}
}

// TestLimitThatIsNone: with a limit that cannot be read nothing is remediated, and the
// check says why, once.
func TestLimitThatIsNone(t *testing.T) {
	b := newBench(t, "400%", 25, 3).look()
	b.once()
	b.once()
	const why = `maxUnhealthy is "400%", and a percentage is 100% at the most: nothing is remediated`
	if c := condition(b.status()); len(b.deleted) != 0 || c.Reason != health.BadCheck || c.Message != why {
		t.Errorf("deleted %v; %+v", b.deleted, c)
	}
	if e := b.told("BadCheck"); len(e) != 1 || e[0] != "Warning BadCheck "+why {
		t.Errorf("%q", e)
	}
	got := values(t, b.tally)
	if got["machine_checks{BadCheck}"] != 1 || got["machine_check_short_circuited{openshift-machine-api/workers}"] != 0 {
		t.Errorf("%v", got)
	}
}
