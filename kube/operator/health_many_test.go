package operator

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	core "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fettle.dev/fettle/kube/machine"
)

// fleet is a check of a namespace with its machines, some of which have been unhealthy for the
// given minutes.
func fleet(at time.Time, namespace, name string, machines int, ill ...int) (out []client.Object) {
	c := &machine.HealthCheck{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	c.Spec.Selector.MatchLabels = map[string]string{"fleet": name}
	c.Spec.UnhealthyConditions = []machine.UnhealthyCondition{{Type: core.NodeReady, Status: core.ConditionFalse, Timeout: metav1.Duration{Duration: 5 * time.Minute}}}
	out = append(out, c)
	yes := true
	for i := range machines {
		m := &machine.Machine{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: fmt.Sprintf("%s-%d", name, i), UID: types.UID(fmt.Sprintf("%s/%s-%d", namespace, name, i)), Labels: map[string]string{"fleet": name}, Finalizers: []string{"test/provider"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: machine.APIVersion, Kind: "MachineSet", Name: name, UID: "set", Controller: &yes}},
		}}
		m.Status.NodeRef = &core.ObjectReference{Name: namespace + "-" + m.Name}
		n := &core.Node{ObjectMeta: metav1.ObjectMeta{Name: m.Status.NodeRef.Name}}
		status, since := core.ConditionTrue, 10*time.Hour
		if i < len(ill) {
			status, since = core.ConditionFalse, time.Duration(ill[i])*time.Minute
		}
		n.Status.Conditions = []core.NodeCondition{{Type: core.NodeReady, Status: status, LastTransitionTime: metav1.NewTime(at.Add(-since))}}
		out = append(out, m, n)
	}
	return out
}

// newFleets returns checks of several namespaces, in addition to the bench's own check, which has
// nothing to do.
func newFleets(t *testing.T) *healthBench {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	b := healthNewBench(t, "40%", 5, 0, slices.Concat(fleet(at, "east", "a", 6, 20, 50), fleet(at, "east", "b", 6, 40), fleet(at, "west", "a", 6, 30, 10))...)
	b.Namespaces = []string{machine.Namespace, "east", "west"}
	b.reader.Namespaces = b.Namespaces
	return b.look()
}

func (b *healthBench) says(namespace, name string) machine.Condition {
	b.t.Helper()
	c := &machine.HealthCheck{}
	if err := b.api.Get(b.t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, c); err != nil {
		b.t.Fatal(err)
	}
	return condition(c.Status)
}

// finish removes a machine that is being deleted.
func (b *healthBench) finish(namespace, name string) {
	b.t.Helper()
	m := &machine.Machine{}
	if err := b.api.Get(b.t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, m); err != nil {
		b.t.Fatal(err)
	}
	if m.DeletionTimestamp == nil {
		b.t.Fatalf("%s/%s is not being deleted", namespace, name)
	}
	m.Finalizers = nil
	if err := b.api.Update(b.t.Context(), m); err != nil {
		b.t.Fatal(err)
	}
}

// TestOneOfAllChecks tests that one machine at a time is remediated over the checks of all
// namespaces, the one unhealthy the longest first, and that waiting checks name it.
func TestOneOfAllChecks(t *testing.T) {
	b := newFleets(t)
	order := []string{"east/a-1", "east/b-0", "west/a-0", "east/a-0", "west/a-1"}
	for i, next := range order {
		b.once()
		b.once()
		namespace, name, _ := strings.Cut(next, "/")
		if len(b.deleted) != i+1 || b.deleted[i] != name {
			t.Fatalf("deleted %v, want %s as number %d", b.deleted, name, i+1)
		}
		set, _, _ := strings.Cut(name, "-")
		if c := b.says(namespace, set); c.Reason != machine.InProgress || !strings.HasPrefix(c.Message, "machine "+name+" is being replaced") {
			t.Errorf("%s: %+v", next, c)
		}
		b.finish(namespace, name)
		if i > 0 {
			continue
		}
		for check, who := range map[string]string{"east/b": "a", "west/a": "east/a"} {
			namespace, name, _ := strings.Cut(check, "/")
			want := "nothing is remediated: only one machine is replaced at a time, and machine a-1 of MachineHealthCheck " + who + " is being replaced: it is being deleted since "
			if c := b.says(namespace, name); c.Reason != machine.Waiting || c.Status != core.ConditionFalse || !strings.HasPrefix(c.Message, want) {
				t.Errorf("%s: %+v, want %s", check, c, want)
			}
		}
	}
	b.once()
	for _, check := range []string{"east/a", "east/b", "west/a"} {
		namespace, name, _ := strings.Cut(check, "/")
		if c := b.says(namespace, name); c.Reason != machine.NothingToDo {
			t.Errorf("at the end %s: %+v", check, c)
		}
	}
	if len(b.deleted) != len(order) {
		t.Errorf("deleted %v", b.deleted)
	}
}

// TestSomebodyElseDeletes tests that a machine of any check that another program deletes counts.
func TestSomebodyElseDeletes(t *testing.T) {
	b := newFleets(t)
	m := &machine.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "west", Name: "a-5"}}
	if err := b.api.Delete(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	b.deleted = nil
	b.once()
	if c := b.says("east", "a"); len(b.deleted) > 0 || c.Reason != machine.Waiting || !strings.Contains(c.Message, "machine a-5 of MachineHealthCheck west/a is being replaced") {
		t.Errorf("deleted %v; %+v", b.deleted, c)
	}
}

// TestTwoOperatorsAndTwoChecks tests two operators that act at once on machines of different
// checks: the one with the older data fails to write the status of a waiting check, and deletes
// nothing.
func TestTwoOperatorsAndTwoChecks(t *testing.T) {
	b := newFleets(t)
	b.lost = func() { // before this one has written anything, the other one deletes
		for _, name := range []string{"a", "b"} {
			c := &machine.HealthCheck{}
			if err := b.api.Get(t.Context(), client.ObjectKey{Namespace: "east", Name: name}, c); err != nil {
				t.Fatal(err)
			}
			c.Status.Conditions = []machine.Condition{{Type: machine.Remediating, Status: core.ConditionTrue, Reason: "Other"}}
			if err := b.api.Status().Update(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
		if err := b.api.Delete(t.Context(), &machine.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "east", Name: "b-0"}}); err != nil {
			t.Fatal(err)
		}
	}
	r, err := b.checks(t.Context())
	if err != nil || r.RequeueAfter != minimum || fmt.Sprint(b.deleted) != "[b-0]" {
		t.Errorf("%v %v, deleted %v", r, err, b.deleted)
	}
	b.once()
	if fmt.Sprint(b.deleted) != "[b-0]" || b.says("east", "a").Reason != machine.Waiting {
		t.Errorf("deleted %v; %+v", b.deleted, b.says("east", "a"))
	}
}

// TestRivalOfOneNamespace tests that a check in a namespace with another controller is left to that
// controller, and that the others continue.
func TestRivalOfOneNamespace(t *testing.T) {
	b := newFleets(t)
	b.found.Rivals["east"] = "somebody remedies machines by these checks"
	all, err := b.all(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if turn := machine.Turn(all); turn == nil || turn.Check.Namespace != "west" || turn.Remediate[0].Machine.Name != "a-0" {
		t.Errorf("%+v", turn)
	}
}

// TestKeep tests that the fields that decisions read are kept, and that decisions stay the same.
func TestKeep(t *testing.T) {
	yes, failed := true, machine.PhaseFailed
	at := metav1.NewTime(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	in := &machine.Machine{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "m", UID: "u", ResourceVersion: "7", Labels: map[string]string{"a": "b"}, CreationTimestamp: at, DeletionTimestamp: &at,
		Annotations: map[string]string{machine.ExternalAnnotation: "", "else": "long"}, Finalizers: []string{"f"}, Generation: 3,
		OwnerReferences: []metav1.OwnerReference{{Kind: "Other", Name: "o"}, {APIVersion: machine.APIVersion, Kind: "MachineSet", Name: "s", UID: "us", Controller: &yes}},
		ManagedFields:   []metav1.ManagedFieldsEntry{{Manager: "m"}},
	}}
	in.Status = machine.Status{NodeRef: &core.ObjectReference{Kind: "Node", Name: "n", UID: "x"}, LastUpdated: &at, Phase: &failed}
	want := &machine.Machine{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "m", UID: "u", ResourceVersion: "7", Labels: map[string]string{"a": "b"}, CreationTimestamp: at, DeletionTimestamp: &at,
		Annotations:     map[string]string{machine.ExternalAnnotation: ""},
		OwnerReferences: []metav1.OwnerReference{{Kind: "MachineSet", Name: "s", UID: "us", Controller: &yes}},
	}}
	want.Status = machine.Status{NodeRef: &core.ObjectReference{Name: "n"}, LastUpdated: &at, Phase: &failed}
	out, err := keep(in)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, out); d != "" {
		t.Error(d)
	}
	if m := out.(*machine.Machine); m.Set() != "s" || m.Node() != "n" || m.Phase() != failed {
		t.Errorf("%+v", m)
	}
	none := &machine.Machine{ObjectMeta: metav1.ObjectMeta{Name: "none"}}
	if out, err = keep(none); err != nil || !cmp.Equal(out, none) {
		t.Errorf("%+v %v", out, err)
	}
	c := &machine.HealthCheck{ObjectMeta: metav1.ObjectMeta{Name: "c", Generation: 2, Annotations: map[string]string{"a": "b"}, ManagedFields: in.ManagedFields}}
	out, err = keep(c)
	if err != nil || out.(*machine.HealthCheck).ManagedFields != nil || out.(*machine.HealthCheck).Annotations["a"] != "b" {
		t.Errorf("%+v %v", out, err)
	}
}
