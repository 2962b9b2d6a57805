package operator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"fettle.dev/fettle/kube/machine"
)

// healthBench is a controller with a simulated API server. Its caches are the API server itself,
// unless stale is set: then they contain the state of that time. test/cluster uses a real one.
type healthBench struct {
	*healthController
	t       *testing.T
	api     client.WithWatch
	at      time.Time
	deleted []string
	writes  int
	works   int
	// fail is the answer to the next deletion, and lost what happens before the next status is
	// written.
	fail error
	lost func()
}

func healthNewBench(t *testing.T, limit string, machines, ill int, more ...client.Object) *healthBench {
	t.Helper()
	b := &healthBench{t: t, at: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	scheme := HealthScheme()
	_ = coordination.AddToScheme(scheme)
	objects := append(healthPool(b.at, limit, machines, ill), more...)
	b.api = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&machine.HealthCheck{}).WithInterceptorFuncs(interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			if err := b.fail; err != nil {
				b.fail = nil
				return err
			}
			err := c.Delete(ctx, o, opts...)
			if err == nil {
				b.deleted = append(b.deleted, o.GetName())
			}
			return err
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			if b.lost != nil {
				do := b.lost
				b.lost = nil
				do()
			}
			b.writes++
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		},
	}).Build()
	b.healthController = &healthController{
		HealthOptions: HealthOptions{Namespaces: []string{machine.Namespace}, Log: logr.Discard()}, client: b.api, api: b.api, machines: b.api,
		events: record.NewFakeRecorder(1000), now: func() time.Time { return b.at }, tally: healthNewTally(), worked: func() { b.works++ },
		items:  workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]()),
		reader: &machine.Reader{API: b.api, Mapper: none{}, Namespaces: []string{machine.Namespace}},
	}
	return b
}

// none is a mapper for a cluster without other controllers' kinds.
type none struct{ meta.RESTMapper }

func (none) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	return nil, &meta.NoKindMatchError{GroupKind: kind, SearchedVersions: versions}
}

// healthPool returns the machines of one set, of which the first ones are unhealthy, and a check of
// them. The machines have a finalizer, like those of a provider.
func healthPool(at time.Time, limit string, machines, ill int) (out []client.Object) {
	m := intstr.Parse(limit)
	c := &machine.HealthCheck{ObjectMeta: metav1.ObjectMeta{Namespace: machine.Namespace, Name: "workers", UID: "check"}}
	c.Spec.MaxUnhealthy = &m
	c.Spec.UnhealthyConditions = []machine.UnhealthyCondition{{Type: core.NodeReady, Status: core.ConditionFalse, Timeout: metav1.Duration{Duration: 5 * time.Minute}}}
	out = append(out, c)
	yes := true
	for i := range machines {
		name := fmt.Sprintf("m%02d", i)
		x := &machine.Machine{ObjectMeta: metav1.ObjectMeta{
			Namespace: machine.Namespace, Name: name, UID: types.UID("uid-" + name), Finalizers: []string{"test/provider"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: machine.APIVersion, Kind: "MachineSet", Name: "set", UID: "set", Controller: &yes}},
		}}
		x.Status.NodeRef = &core.ObjectReference{Name: "node-" + name}
		n := &core.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-" + name}}
		status, since := core.ConditionTrue, time.Hour
		if i < ill {
			status, since = core.ConditionFalse, time.Duration(10+i)*time.Minute
		}
		n.Status.Conditions = []core.NodeCondition{{Type: core.NodeReady, Status: status, LastTransitionTime: metav1.NewTime(at.Add(-since))}}
		out = append(out, x, n)
	}
	return out
}

func (b *healthBench) look() *healthBench {
	b.t.Helper()
	if err := b.lookAround(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
	return b
}

func (b *healthBench) once() {
	b.t.Helper()
	if _, err := b.checks(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
}

func (b *healthBench) status() machine.HealthCheckStatus {
	b.t.Helper()
	c := &machine.HealthCheck{}
	if err := b.api.Get(b.t.Context(), client.ObjectKey{Namespace: machine.Namespace, Name: "workers"}, c); err != nil {
		b.t.Fatal(err)
	}
	return c.Status
}

// gone removes a machine that is being deleted, and its node.
func (b *healthBench) gone(name string) {
	b.t.Helper()
	m := &machine.Machine{}
	if err := b.api.Get(b.t.Context(), client.ObjectKey{Namespace: machine.Namespace, Name: name}, m); err != nil {
		b.t.Fatal(err)
	}
	m.Finalizers = nil
	if err := b.api.Update(b.t.Context(), m); err != nil {
		b.t.Fatal(err)
	}
}

func TestOneAtATime(t *testing.T) {
	b := healthNewBench(t, "40%", 25, 3).look()
	b.once()
	b.once()
	if fmt.Sprint(b.deleted) != "[m02]" {
		t.Fatalf("deleted %v", b.deleted)
	}
	if c := condition(b.status()); c.Reason != machine.InProgress || !strings.HasPrefix(c.Message, "machine m02 is being replaced: it is being deleted since ") || !strings.HasSuffix(c.Message, ". 2 machines more after that") {
		t.Errorf("%+v", c)
	}
	writes, works := b.writes, b.works
	for range 5 {
		b.at = b.at.Add(time.Minute)
		b.once()
	}
	if b.writes != writes {
		t.Errorf("nothing has changed, and the status was written %d times", b.writes-writes)
	}
	if b.works != works {
		t.Error("nothing was done, and that counts as work: the process would not rest")
	}
	for _, want := range []string{"m02", "m01", "m00"} {
		if got := b.deleted[len(b.deleted)-1]; got != want {
			t.Fatalf("%s was deleted, want %s", got, want)
		}
		b.gone(want)
		b.once()
		b.once()
	}
	if s := b.status(); len(b.deleted) != 3 || *s.ExpectedMachines != 22 || *s.CurrentHealthy != 22 || condition(s).Reason != machine.NothingToDo {
		t.Errorf("deleted %v; %+v", b.deleted, s)
	}
}

// TestTables tests the tables of OpenShift 4.4 Scalability and Performance, 3.4.1.
func TestTables(t *testing.T) {
	for _, c := range []struct {
		limit         string
		machines, ill int
		acts          bool
		says          string
	}{
		{"2", 25, 2, true, "maxUnhealthy is 2; 2 are unhealthy: remediation is allowed"},
		{"2", 25, 3, false, "maxUnhealthy is 2; 3 are unhealthy: nothing is remediated"},
		{"40%", 25, 10, true, "40 % of 25 machines is 10; 10 are unhealthy: remediation is allowed"},
		{"40%", 25, 11, false, "40 % of 25 machines is 10; 11 are unhealthy: nothing is remediated"},
		{"40%", 6, 2, true, "40 % of 6 machines is 2 (2.4 rounded down); 2 are unhealthy: remediation is allowed"},
		{"40%", 6, 3, false, "40 % of 6 machines is 2 (2.4 rounded down); 3 are unhealthy: nothing is remediated"},
	} {
		b := healthNewBench(t, c.limit, c.machines, c.ill).look()
		b.once()
		s := b.status()
		i := slices.IndexFunc(s.Conditions, func(x machine.Condition) bool { return x.Type == machine.RemediationAllowed })
		if len(b.deleted) != 0 != c.acts || s.Conditions[i].Message != c.says || (s.Conditions[i].Status == core.ConditionTrue) != c.acts || *s.ExpectedMachines != c.machines {
			t.Errorf("%s: deleted %v; %+v", c.says, b.deleted, s.Conditions[i])
		}
	}
}

// TestStaleCache tests that changes that the caches lack are seen before a machine is deleted.
func TestStaleCache(t *testing.T) {
	b := healthNewBench(t, "40%", 25, 3).look()
	stale := fake.NewClientBuilder().WithScheme(HealthScheme()).WithObjects(healthPool(b.at, "40%", 25, 3)...).WithStatusSubresource(&machine.HealthCheck{}).Build()
	b.once()
	live := b.client
	b.client, b.machines = reading{live, stale}, stale
	b.once()
	if fmt.Sprint(b.deleted) != "[m02]" {
		t.Errorf("deleted %v", b.deleted)
	}
	b.client, b.machines = live, live
	// So is a machine that was deleted by others since.
	b = healthNewBench(t, "40%", 25, 3).look()
	live = b.client
	b.client, b.machines = reading{live, stale}, stale
	m := &machine.Machine{}
	m.Namespace, m.Name = machine.Namespace, "m10"
	if err := live.Delete(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	b.once()
	if fmt.Sprint(b.deleted) != "[m10]" {
		t.Errorf("somebody has deleted m10; deleted %v", b.deleted)
	}
	// A scale that has begun since the last look is seen, too.
	b = healthNewBench(t, "40%", 25, 3).look()
	who := "host/1"
	lease := &coordination.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: machine.Namespace, Name: machine.ScaleLease}, Spec: coordination.LeaseSpec{HolderIdentity: &who}}
	if err := b.api.Create(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	b.once()
	if c := condition(b.status()); len(b.deleted) != 0 || c.Reason != machine.Waiting || !strings.Contains(c.Message, "machine sets are being scaled by host/1") {
		t.Errorf("deleted %v; %+v", b.deleted, c)
	}
}

// reading is a client that reads and writes through different clients.
type reading struct {
	client.Client
	from client.Reader
}

func (r reading) Get(ctx context.Context, k client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	return r.from.Get(ctx, k, o, opts...)
}

func (r reading) List(ctx context.Context, l client.ObjectList, opts ...client.ListOption) error {
	return r.from.List(ctx, l, opts...)
}

// TestPauseThatIsFoundLate tests a pause that is found only when a machine is about to be deleted:
// when it ends, the check is decided again.
func TestPauseThatIsFoundLate(t *testing.T) {
	b := healthNewBench(t, "40%", 25, 3)
	queued := func() (all []string) {
		for b.items.Len() > 0 {
			name, _ := b.items.Get()
			b.items.Done(name)
			all = append(all, name)
		}
		return all
	}
	look := func() time.Duration {
		t.Helper()
		r, err := b.healthController.look(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return r.RequeueAfter
	}
	if d := look(); d != healthRecheck || fmt.Sprint(queued()) != "["+theChecks+"]" {
		t.Errorf("the first look: again in %s", d)
	}
	if look(); len(queued()) > 0 {
		t.Error("nothing has changed, and checks are decided again")
	}
	who, seconds := "host/1", int32(20)
	lease := &coordination.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: machine.Namespace, Name: machine.ScaleLease}, Spec: coordination.LeaseSpec{HolderIdentity: &who, LeaseDurationSeconds: &seconds}}
	if err := b.api.Create(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	b.once()
	if got := fmt.Sprint(queued()); got != "["+theLook+"]" || len(b.deleted) > 0 {
		t.Errorf("queued %s, deleted %v", got, b.deleted)
	}
	if d := look(); d != 20*time.Second || fmt.Sprint(queued()) != "["+theChecks+"]" {
		t.Errorf("again in %s", d)
	}
	b.once()
	b.at = b.at.Add(20 * time.Second)
	if look(); fmt.Sprint(queued()) != "["+theChecks+"]" {
		t.Error("it is over, and the check is not decided again")
	}
	b.once()
	if fmt.Sprint(b.deleted) != "[m02]" {
		t.Errorf("deleted %v", b.deleted)
	}
}

// TestTwoOperators tests two operators that act at once: one fails before it has deleted anything.
func TestTwoOperators(t *testing.T) {
	b := healthNewBench(t, "40%", 25, 3).look()
	b.once()
	b.gone("m02")
	// While this one decides, the other one does what it does.
	b.lost = func() {
		c := &machine.HealthCheck{}
		if err := b.api.Get(t.Context(), client.ObjectKey{Namespace: machine.Namespace, Name: "workers"}, c); err != nil {
			t.Fatal(err)
		}
		c.Annotations = map[string]string{"changed": "yes"}
		if err := b.api.Update(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	r, err := b.checks(t.Context())
	if err != nil || r.RequeueAfter != minimum || len(b.deleted) != 1 {
		t.Errorf("%v %v, deleted %v", r, err, b.deleted)
	}
	b.once()
	if fmt.Sprint(b.deleted) != "[m02 m01]" {
		t.Errorf("deleted %v", b.deleted)
	}
}

// TestRefusedDeletion tests that a refused deletion is retried and reported.
func TestRefusedDeletion(t *testing.T) {
	b := healthNewBench(t, "40%", 25, 3).look()
	b.fail = apierrors.NewForbidden(schema.GroupResource{Resource: "machines"}, "m02", errors.New("no right"))
	if _, err := b.checks(t.Context()); err == nil || !strings.Contains(err.Error(), "machine m02 cannot be deleted") {
		t.Error(err)
	}
	b.once()
	if fmt.Sprint(b.deleted) != "[m02]" {
		t.Errorf("deleted %v", b.deleted)
	}
	// One that has changed since it was judged is judged again.
	b = healthNewBench(t, "40%", 25, 3).look()
	b.fail = apierrors.NewConflict(schema.GroupResource{Resource: "machines"}, "m02", errors.New("changed"))
	b.once()
	if len(b.deleted) != 0 {
		t.Errorf("deleted %v", b.deleted)
	}
}

// TestHealthRival tests that OpenShift's own controller is named and nothing else is written, and
// that --adopt acts.
func TestHealthRival(t *testing.T) {
	rival := func(replicas int64) client.Object {
		d := &unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"name": "machine-api-controllers", "namespace": machine.Namespace},
			"spec": map[string]any{"replicas": replicas, "template": map[string]any{"spec": map[string]any{"containers": []any{
				map[string]any{"name": "machineset-controller"}, map[string]any{"name": "machine-healthcheck-controller"},
			}}}},
		}}
		d.SetGroupVersionKind(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"})
		return d
	}
	b := healthNewBench(t, "40%", 25, 3, rival(1)).look()
	b.once()
	s := b.status()
	if c := condition(s); len(b.deleted) != 0 || s.ExpectedMachines != nil || c.Reason != machine.OtherController || !strings.Contains(c.Message, "Deployment openshift-machine-api/machine-api-controllers) remediates machines") {
		t.Errorf("deleted %v; %+v", b.deleted, s)
	}
	b.Adopt = true
	b.look().once()
	if len(b.deleted) != 1 {
		t.Errorf("--adopt: deleted %v", b.deleted)
	}
	b = healthNewBench(t, "40%", 25, 3, rival(0)).look()
	b.once()
	if len(b.deleted) != 1 {
		t.Errorf("one that is scaled to none: deleted %v", b.deleted)
	}
}

func TestControlPlane(t *testing.T) {
	b := healthNewBench(t, "40%", 3, 1).look()
	n := &core.Node{}
	if err := b.api.Get(t.Context(), client.ObjectKey{Name: "node-m00"}, n); err != nil {
		t.Fatal(err)
	}
	n.Labels = map[string]string{"node-role.kubernetes.io/control-plane": ""}
	if err := b.api.Update(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	b.once()
	// The source's example: 3 machines, of which 2 are healthy; nothing is deleted.
	s := b.status()
	if c := condition(s); len(b.deleted) != 0 || *s.ExpectedMachines != 3 || *s.CurrentHealthy != 2 || c.Reason != machine.LeftAlone {
		t.Errorf("deleted %v; %+v", b.deleted, s)
	}
	b.ControlPlane = true
	b.once()
	if len(b.deleted) != 1 {
		t.Errorf("it is allowed: deleted %v", b.deleted)
	}
}

// TestNext tests that the next look is at the end of the first timeout, but not before a second has
// passed.
func TestNext(t *testing.T) {
	b := healthNewBench(t, "40%", 25, 0).look()
	for i, since := range []time.Duration{2 * time.Minute, 4 * time.Minute} {
		n := &core.Node{}
		if err := b.api.Get(t.Context(), client.ObjectKey{Name: fmt.Sprintf("node-m%02d", i)}, n); err != nil {
			t.Fatal(err)
		}
		n.Status.Conditions[0].Status, n.Status.Conditions[0].LastTransitionTime = core.ConditionFalse, metav1.NewTime(b.at.Add(-since))
		if err := b.api.Status().Update(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	r, err := b.checks(t.Context())
	if err != nil || r.RequeueAfter != time.Minute+time.Second || len(b.deleted) != 0 {
		t.Errorf("%v %v", r, err)
	}
	b.at = b.at.Add(time.Minute + 500*time.Millisecond)
	if r, err = b.checks(t.Context()); err != nil || len(b.deleted) != 1 && r.RequeueAfter != minimum {
		t.Errorf("%v %v %v", r, err, b.deleted)
	}
	// Nothing but the usual happens to a closed check.
	b = healthNewBench(t, "0", 25, 3).look()
	if r, err := b.checks(t.Context()); err != nil || r.RequeueAfter != 0 {
		t.Errorf("%v %v", r, err)
	}
}

// TestBadCheck tests that a check with an invalid selector says so in its status, and is not
// retried.
func TestBadCheck(t *testing.T) {
	b := healthNewBench(t, "40%", 3, 1).look()
	c := &machine.HealthCheck{}
	if err := b.api.Get(t.Context(), client.ObjectKey{Namespace: machine.Namespace, Name: "workers"}, c); err != nil {
		t.Fatal(err)
	}
	c.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}
	if err := b.api.Update(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	b.once()
	if c := condition(b.status()); c.Reason != machine.BadCheck || !strings.Contains(c.Message, "spec.selector") {
		t.Errorf("%+v", c)
	}
}
