package operator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"fettle.dev/fettle/kube/cluster"
	"fettle.dev/fettle/kube/tuned"
)

const ns = "ns"

// bench is an operator with a simulated API server that has enough objects and rights. test/cluster
// uses a real one.
type bench struct {
	*operator
	t      *testing.T
	writes atomic.Int64
	events *record.FakeRecorder
}

func newBench(t *testing.T, o Options, objects ...client.Object) *bench {
	t.Helper()
	b := &bench{t: t, events: record.NewFakeRecorder(1000)}
	scheme := Scheme()
	scheme.AddKnownTypeWithName(deployment, &unstructured.Unstructured{})
	count := func() { b.writes.Add(1) }
	// Without managed fields: those of the imitation know no unsigned numbers.
	tracker := clienttesting.NewObjectTracker(scheme, serializer.NewCodecFactory(scheme).UniversalDecoder())
	api := fake.NewClientBuilder().WithScheme(scheme).WithObjectTracker(tracker).WithObjects(objects...).WithStatusSubresource(&tuned.Tuned{}).
		WithIndex(&corev1.Pod{}, byNode, func(p client.Object) []string { return []string{p.(*corev1.Pod).Spec.NodeName} }).
		WithInterceptorFuncs(interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				count()
				return c.Create(ctx, o, opts...)
			},
			Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
				count()
				return c.Patch(ctx, o, p, opts...)
			},
			SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
				count()
				return c.SubResource(sub).Patch(ctx, o, p, opts...)
			},
			Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
				count()
				return c.Delete(ctx, o, opts...)
			},
		}).Build()
	o.Namespace, o.Log = ns, logr.Discard()
	if o.Default == nil {
		o.Default = object(tuned.DefaultName, "base", "")
	}
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{})
	b.operator = &operator{Options: o, client: api, api: api, mapper: mapper, events: b.events}
	b.tally = newTally(func() []tuned.Profile {
		var all tuned.ProfileList
		if err := api.List(t.Context(), &all); err != nil {
			t.Error(err)
		}
		return all.Items
	})
	return b
}

// object returns a Tuned object with one profile and one rule: for nodes with the label, or for
// all.
func object(name, profile, label string) *tuned.Tuned {
	priority := uint64(10)
	t := &tuned.Tuned{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: ns}}
	t.Spec.Profile = []tuned.TunedProfile{{Name: profile, Data: "[vm]\n"}}
	t.Spec.Recommend = []tuned.TunedRecommend{{Profile: profile, Priority: &priority}}
	if label != "" {
		t.Spec.Recommend[0].Match = []tuned.TunedMatch{{Label: label}}
		priority--
	}
	return t
}

func node(name string, labels ...string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
	for _, l := range labels {
		n.Labels[l] = ""
	}
	return n
}

// settle processes both queues once: the objects, then all nodes.
func (b *bench) settle() {
	b.t.Helper()
	for range 2 { // the object default is made first
		if _, err := b.readObjects(b.t.Context()); err != nil {
			b.t.Fatal(err)
		}
	}
	var nodes corev1.NodeList
	var profiles tuned.ProfileList
	for _, list := range []client.ObjectList{&nodes, &profiles} {
		if err := b.client.List(b.t.Context(), list); err != nil {
			b.t.Fatal(err)
		}
	}
	names := map[string]bool{}
	for _, n := range nodes.Items {
		names[n.Name] = true
	}
	for _, p := range profiles.Items {
		names[p.Name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if err := b.decideNode(b.t.Context(), name); err != nil {
			b.t.Fatal(err)
		}
	}
}

// has compares the Profile objects, "node=profile", with the expected ones.
func (b *bench) has(want ...string) {
	b.t.Helper()
	var profiles tuned.ProfileList
	if err := b.client.List(b.t.Context(), &profiles); err != nil {
		b.t.Fatal(err)
	}
	got := []string{}
	for _, p := range profiles.Items {
		got = append(got, p.Name+"="+p.Spec.Config.TunedProfile)
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		b.t.Errorf("Profiles %v, want %v", got, want)
	}
}

func (b *bench) told(want string) {
	b.t.Helper()
	for {
		select {
		case e := <-b.events.Events:
			if strings.Contains(e, want) {
				return
			}
		default:
			b.t.Errorf("no event says %q", want)
			return
		}
	}
}

func (b *bench) change(key string, do func(*tuned.Tuned)) {
	b.t.Helper()
	var o tuned.Tuned
	if err := b.client.Get(b.t.Context(), client.ObjectKey{Namespace: ns, Name: key}, &o); err != nil {
		b.t.Fatal(err)
	}
	do(&o)
	o.Generation++ // the API server does that
	if err := b.client.Update(b.t.Context(), &o); err != nil {
		b.t.Fatal(err)
	}
}

// TestLife tests that nodes get their profiles, that only changes are written, and that everything
// is restored.
func TestLife(t *testing.T) {
	b := newBench(t, Options{}, node("n1"), node("n2", "a"), object("o", "p", "a"))
	b.settle()
	b.has("n1=base", "n2=p")
	b.told("the operator's own object was missing")
	if b.writes.Load() != 5 { // the object default, two conditions, two Profiles
		t.Errorf("%d writes", b.writes.Load())
	}
	b.settle()
	if b.writes.Load() != 5 {
		t.Errorf("%d writes where nothing has changed", b.writes.Load())
	}

	// A label, and a node that is gone.
	n := node("n1")
	if err := b.client.Get(t.Context(), client.ObjectKey{Name: "n1"}, n); err != nil {
		t.Fatal(err)
	}
	n.Labels = map[string]string{"a": "x"}
	if err := b.client.Update(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	if err := b.client.Delete(t.Context(), node("n2")); err != nil {
		t.Fatal(err)
	}
	b.settle()
	b.has("n1=p")

	// Others change the object default: it is as before, but for managementState.
	b.change(tuned.DefaultName, func(o *tuned.Tuned) {
		o.Spec.Recommend = nil
		o.Spec.ManagementState = tuned.Managed
	})
	b.settle()
	b.told("the operator owns this object; change only managementState, and put rules into another Tuned object")
	var d tuned.Tuned
	if err := b.client.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: tuned.DefaultName}, &d); err != nil {
		t.Fatal(err)
	}
	if len(d.Spec.Recommend) != 1 || d.Spec.ManagementState != tuned.Managed {
		t.Errorf("%+v", d.Spec)
	}

	b.change(tuned.DefaultName, func(o *tuned.Tuned) { o.Spec.ManagementState = tuned.Unmanaged })
	b.change("o", func(o *tuned.Tuned) { o.Spec.Recommend = nil })
	b.settle()
	b.has("n1=p")
	b.change(tuned.DefaultName, func(o *tuned.Tuned) { o.Spec.ManagementState = tuned.Removed })
	b.settle()
	b.has()
	b.change(tuned.DefaultName, func(o *tuned.Tuned) { o.Spec.ManagementState = tuned.Managed })
	b.settle()
	b.has("n1=base")
}

// TestOneBadObject tests that nodes that would get a bad profile keep the present one, that the
// object reports this, and that the other nodes are decided.
func TestOneBadObject(t *testing.T) {
	b := newBench(t, Options{}, node("n1", "a"), node("n2"), object("o", "p", "a"))
	b.settle()
	b.has("n1=p", "n2=base")
	b.change("o", func(o *tuned.Tuned) { o.Spec.Profile[0].Data = "[script]\nscript=x.sh\n" })
	if err := b.client.Create(t.Context(), node("n3", "a")); err != nil {
		t.Fatal(err)
	}
	b.settle()
	b.has("n1=p", "n2=base")
	b.told("NodeHeld")
	var o tuned.Tuned
	if err := b.client.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "o"}, &o); err != nil {
		t.Fatal(err)
	}
	if c := o.Status.Conditions; len(c) != 1 || c[0].Status != metav1.ConditionFalse || c[0].Reason != "RefusedProfile" || c[0].LastTransitionTime.IsZero() {
		t.Errorf("%+v", c)
	}
	var p tuned.Profile
	if err := b.client.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "n1"}, &p); err != nil {
		t.Fatal(err)
	}
	if p.Spec.Profile[0].Data != "[vm]\n" {
		t.Errorf("a node that is held has got %q", p.Spec.Profile[0].Data)
	}
	b.change("o", func(o *tuned.Tuned) { o.Spec.Profile[0].Data = "[vm]\ndirty_ratio=10\n" })
	b.settle()
	b.has("n1=p", "n2=base", "n3=p")
	b.told("the object is valid again")
}

// TestSaidAtOnce tests that faults that an agent would find on a node are reported for the object
// before an agent reads it, in its condition and in an event; nodes get the profile anyway. An
// include that no object has makes nothing invalid, and causes an event once.
func TestSaidAtOnce(t *testing.T) {
	b := newBench(t, Options{}, node("n1", "a"), object("o", "p", "a"))
	b.change("o", func(o *tuned.Tuned) { o.Spec.Profile[0].Data = "[sysctls]\nvm.swappiness=1\n" })
	b.settle()
	b.has("n1=p")
	const why = `Warning UnknownPlugin profile p, line 1: unknown plug-in "sysctls" (did you mean "sysctl"?)`
	b.told(why)
	b.change("o", func(o *tuned.Tuned) { o.Spec.Profile[0].Data = "[main]\ninclude=gone\n[vm]\n" })
	b.settle()
	b.told("the object is valid again")
	b.told("Warning MissingProfile recommend[0]: profile gone, included by p, is in no Tuned object and not built in; the node must have it")
	b.settle()
	b.settle()
	select {
	case e := <-b.events.Events:
		t.Errorf("nothing has changed, and it says %q", e)
	default:
	}
	b.change("o", func(o *tuned.Tuned) { o.Spec.Profile[0].Data = "[main]\ninclude=p2\n" })
	b.change("o", func(o *tuned.Tuned) {
		o.Spec.Profile = append(o.Spec.Profile, tuned.TunedProfile{Name: "p2", Data: "[main]\ninclude=p\n"})
	})
	b.settle()
	b.told("Warning IncludeCircle profiles include each other in a circle: p includes p2 includes p")
}

// TestConditionsAtOnce tests that the conditions of many objects are written at the same time: the
// first ones are answered only after as many have arrived as there are writers.
func TestConditionsAtOnce(t *testing.T) {
	objects := []client.Object{node("n1"), object(tuned.DefaultName, "base", "")}
	for i := range 2 * writers {
		name := fmt.Sprint("o", i)
		objects = append(objects, object(name, name, name))
	}
	b := newBench(t, Options{}, objects...)
	var arrived atomic.Int64
	all := make(chan struct{})
	b.client = interceptor.NewClient(b.client.(client.WithWatch), interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			if arrived.Add(1) == writers {
				close(all)
			}
			select {
			case <-all:
			case <-time.After(10 * time.Second):
				return errors.New("the others do not arrive")
			}
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		},
	})
	if _, err := b.readObjects(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, want := b.writes.Load(), int64(len(objects)-1); got != want {
		t.Errorf("%d conditions were written, want %d", got, want)
	}
}

// TestForeignEvents tests which Profiles let the objects be read again: those of other writers.
func TestForeignEvents(t *testing.T) {
	own := &tuned.Profile{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{tuned.ManagedByLabel: tuned.ManagedBy}}}
	theirs := &tuned.Profile{ObjectMeta: metav1.ObjectMeta{Name: "n1", ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "another"}}}}
	e := foreignEvents()
	for what, tt := range map[string]struct{ got, want bool }{
		"own made":            {e.Create(event.TypedCreateEvent[*tuned.Profile]{Object: own}), false},
		"theirs made":         {e.Create(event.TypedCreateEvent[*tuned.Profile]{Object: theirs}), true},
		"own changed":         {e.Update(event.TypedUpdateEvent[*tuned.Profile]{ObjectOld: own, ObjectNew: own}), false},
		"theirs changed":      {e.Update(event.TypedUpdateEvent[*tuned.Profile]{ObjectOld: theirs, ObjectNew: theirs}), false},
		"theirs taken over":   {e.Update(event.TypedUpdateEvent[*tuned.Profile]{ObjectOld: theirs, ObjectNew: own}), true},
		"own taken by theirs": {e.Update(event.TypedUpdateEvent[*tuned.Profile]{ObjectOld: own, ObjectNew: theirs}), true},
		"own deleted":         {e.Delete(event.TypedDeleteEvent[*tuned.Profile]{Object: own}), false},
		"theirs deleted":      {e.Delete(event.TypedDeleteEvent[*tuned.Profile]{Object: theirs}), true},
	} {
		if tt.got != tt.want {
			t.Errorf("%s: %v, want %v", what, tt.got, tt.want)
		}
	}
}

// TestReportOnly tests that nothing is written while another controller manages the objects, and
// that it is named. --adopt takes the objects over.
func TestReportOnly(t *testing.T) {
	theirs := func() *tuned.Profile {
		return &tuned.Profile{ObjectMeta: metav1.ObjectMeta{
			Name: "n1", Namespace: ns, OwnerReferences: []metav1.OwnerReference{{APIVersion: "tuned.openshift.io/v1", Kind: "Tuned", Name: "default", UID: "1"}},
		}, Spec: tuned.ProfileSpec{Config: tuned.ProfileConfig{TunedProfile: "theirs"}}}
	}
	rivals := func(kind schema.GroupVersionKind, namespace, name string, replicas int64) *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"replicas": replicas}}}
		u.SetGroupVersionKind(kind)
		u.SetNamespace(namespace)
		u.SetName(name)
		return u
	}
	for _, c := range []struct {
		name   string
		rival  client.Object
		naming string
		kept   []string // Profiles while nothing is written
	}{
		{"a Profile of another", theirs(), "a controller that makes Tuned default its owner, which wrote Profile n1", []string{"n1=theirs"}},
		{"its Deployment", rivals(deployment, ns, rivalDeployment, 1), "Deployment ns/cluster-node-tuning-operator", []string{}},
		{"its ClusterOperator", rivals(clusterOperator, "", rivalClusterOperator, 0), "ClusterOperator node-tuning", []string{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			objects := []client.Object{node("n1"), node("n2"), object(tuned.DefaultName, "other", ""), c.rival}
			b := newBench(t, Options{}, objects...)
			b.settle()
			b.has(c.kept...)
			b.told(c.naming)
			if b.writes.Load() != 0 || b.inForce.Load().reportOnly == "" {
				t.Errorf("%d writes", b.writes.Load())
			}
			if b.tally.nodes["n2"] != tuned.Decided || !b.tally.reportOnly {
				t.Errorf("it is not even decided: %+v", b.tally)
			}
			b = newBench(t, Options{Adopt: true}, objects...)
			b.settle()
			b.has("n1=base", "n2=base")
			b.told("--adopt")
		})
	}
	b := newBench(t, Options{}, node("n1"), rivals(deployment, ns, rivalDeployment, 0))
	b.settle()
	b.has("n1=base") // scaled to none, it does nothing
}

// TestByHand tests that a Profile that a user created is left unchanged, and that the others
// continue.
func TestByHand(t *testing.T) {
	p := &tuned.Profile{ObjectMeta: metav1.ObjectMeta{Name: "n1", Namespace: ns}, Spec: tuned.ProfileSpec{Config: tuned.ProfileConfig{TunedProfile: "mine"}}}
	b := newBench(t, Options{}, node("n1"), node("n2"), p)
	b.settle()
	b.has("n1=mine", "n2=base")
	if m := b.metrics(); m["fettle_operator_profiles_foreign"] != 1 {
		t.Errorf("%v", m)
	}
}

func TestPodLabels(t *testing.T) {
	pod := func(name, on string, phase corev1.PodPhase) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "x", Labels: map[string]string{"es": ""}}, Spec: corev1.PodSpec{NodeName: on}, Status: corev1.PodStatus{Phase: phase}}
	}
	o := object("o", "p", "es")
	o.Spec.Recommend[0].Match[0].Type = tuned.PodLabel
	objects := []client.Object{node("n1"), node("n2"), node("n3"), o, pod("a", "n1", corev1.PodRunning), pod("b", "n2", corev1.PodSucceeded)}
	b := newBench(t, Options{Recommend: tuned.Options{PodLabels: true}}, objects...)
	b.settle()
	b.has("n1=p", "n2=base", "n3=base")
	b = newBench(t, Options{}, objects...)
	b.settle()
	b.has("n1=base", "n2=base", "n3=base")
}

// metrics returns the metrics by name and label values.
func (b *bench) metrics() map[string]float64 {
	b.t.Helper()
	r := prometheus.NewPedanticRegistry()
	if err := r.Register(b.tally); err != nil {
		b.t.Fatal(err)
	}
	families, err := r.Gather()
	if err != nil {
		b.t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			name := f.GetName()
			for _, l := range m.Label {
				name += " " + l.GetName() + "=" + l.GetValue()
			}
			out[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return out
}

// TestDecisionDuration tests that the duration counts from the first notice of a change until the
// Profile is written, including failures, and that a change without a new Profile does not count.
func TestDecisionDuration(t *testing.T) {
	b := newBench(t, Options{}, node("n1"), node("n2"), object("o", "p", "a"))
	b.settle()
	count := func() (n uint64, sum float64) {
		t.Helper()
		r := prometheus.NewPedanticRegistry()
		r.MustRegister(b.tally.decisions)
		families, err := r.Gather()
		if err != nil {
			t.Fatal(err)
		}
		h := families[0].Metric[0].GetHistogram()
		return h.GetSampleCount(), h.GetSampleSum()
	}
	if n, _ := count(); n != 0 {
		t.Errorf("%d before anything was heard", n)
	}
	decide := func(name string) error { return b.decideNode(t.Context(), name) }
	began := time.Now()
	b.tally.heard("n1", began.Add(-3*time.Second))
	b.tally.heard("n1", began) // a second change before it is decided
	if err := decide("n1"); err != nil {
		t.Fatal(err)
	}
	if n, _ := count(); n != 0 {
		t.Errorf("nothing had to be written, and %d count", n)
	}
	var n corev1.Node
	if err := b.client.Get(t.Context(), client.ObjectKey{Name: "n1"}, &n); err != nil {
		t.Fatal(err)
	}
	n.Labels = map[string]string{"a": ""}
	if err := b.client.Update(t.Context(), &n); err != nil {
		t.Fatal(err)
	}
	b.tally.heard("n1", began.Add(-3*time.Second))
	b.tally.heard("n1", began)
	whole := b.operator.client
	b.operator.client = failing{whole}
	if err := decide("n1"); err == nil {
		t.Fatal("a Profile was written that could not be")
	}
	b.operator.client = whole
	for range 2 {
		if err := decide("n1"); err != nil {
			t.Fatal(err)
		}
	}
	if n, sum := count(); n != 1 || sum < 3 || sum > 3+time.Since(began).Seconds() {
		t.Errorf("%d, %.1f s", n, sum)
	}
	if len(b.tally.waiting) != 0 {
		t.Errorf("still waiting: %v", b.tally.waiting)
	}
}

// failing writes nothing.
type failing struct{ client.Client }

func (failing) Patch(context.Context, client.Object, client.Patch, ...client.PatchOption) error {
	return errors.New("no answer")
}

// TestMetrics tests that all metrics of the table exist, with their labels and the right values.
func TestMetrics(t *testing.T) {
	b := newBench(t, Options{}, node("n1", "a"), node("n2"), object("o", "p", "a"), object("bad", "q", "b"))
	b.change("bad", func(o *tuned.Tuned) { o.Spec.Profile[0].Data = "x" })
	b.settle()
	p := &tuned.Profile{}
	if err := b.client.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "n1"}, p); err != nil {
		t.Fatal(err)
	}
	p.Status.Conditions = []tuned.StatusCondition{{Type: tuned.Applied, Status: metav1.ConditionTrue}, {Type: tuned.Degraded, Status: metav1.ConditionTrue}}
	if err := b.client.Update(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	got := b.metrics()
	for name, want := range map[string]float64{
		"fettle_operator_nodes state=decided":                        2,
		"fettle_operator_nodes state=held":                           0,
		"fettle_operator_profiles condition=applied status=true":     1,
		"fettle_operator_profiles condition=applied status=unknown":  1,
		"fettle_operator_profiles condition=degraded status=true":    1,
		"fettle_operator_tuned_objects valid=true":                   2,
		"fettle_operator_tuned_objects valid=false":                  1,
		"fettle_operator_management_state state=Managed":             1,
		"fettle_operator_management_state state=Removed":             0,
		"fettle_operator_report_only":                                0,
		"fettle_operator_profile_writes_total action=create":         2,
		"fettle_operator_profile_writes_total action=delete":         0,
		"fettle_operator_profile_write_failures_total action=update": 0,
		"fettle_operator_profiles_foreign":                           0,
	} {
		if v, there := got[name]; !there || v != want {
			t.Errorf("%s is %v (there: %v), want %v", name, v, there, want)
		}
	}
	for _, m := range Metrics {
		i := slices.IndexFunc(slices.Sorted(maps.Keys(got)), func(name string) bool {
			fields := strings.Fields(name)
			return fields[0] == m.Name && len(fields) == len(m.Labels)+1
		})
		if i < 0 {
			t.Errorf("%s of the table is not served", m.Name)
		}
	}
}

// TestDecisionsByName tests that the histogram of decisions has this name, whatever others exist.
func TestDecisionsByName(t *testing.T) {
	was := Metrics
	t.Cleanup(func() { Metrics = was })
	Metrics = append(slices.Clone(was), cluster.Metric{Name: "fettle_operator_other_seconds", Type: "histogram", Doc: "another one"})
	tally := newTally(func() []tuned.Profile { return nil })
	if got := tally.decisions.Desc().String(); !strings.Contains(got, `"fettle_operator_decision_duration_seconds"`) {
		t.Error(got)
	}
}
