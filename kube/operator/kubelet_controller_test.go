package operator

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"fettle.dev/fettle/kube/kubelet"
)

// kubeletBench is a controller with a simulated API server. test/cluster uses a real one.
type kubeletBench struct {
	*testing.T
	*roller
	fail func(verb string, o client.Object) error
	// stale are the objects in an outdated cache; nil means that the cache is up to date.
	stale map[string]kubelet.NodeKubelet
	time  time.Time
}

func kubeletNewBench(t *testing.T, o KubeletOptions, objects ...client.Object) *kubeletBench {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{core.AddToScheme, coordination.AddToScheme, kubelet.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	for _, kind := range []schema.GroupVersionKind{kubelet.MachineConfigPool, clusterOperator} {
		scheme.AddKnownTypeWithName(kind, &unstructured.Unstructured{})
		scheme.AddKnownTypeWithName(kind.GroupVersion().WithKind(kind.Kind+"List"), &unstructured.UnstructuredList{})
	}
	b := &kubeletBench{T: t, time: noon}
	may := func(verb string, o client.Object) error {
		if b.fail == nil {
			return nil
		}
		return b.fail(verb, o)
	}
	api := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&kubelet.KubeletPool{}, &kubelet.KubeletConfig{}, &kubelet.NodeKubelet{}).
		WithInterceptorFuncs(interceptor.Funcs{
			Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
				if err := may("patch", o); err != nil {
					return err
				}
				return c.Patch(ctx, o, p, opts...)
			},
			SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
				if err := may(sub, o); err != nil {
					return err
				}
				return c.SubResource(sub).Patch(ctx, o, p, opts...)
			},
		}).Build()
	o.Log = logr.Discard()
	b.roller = &roller{KubeletOptions: o, client: lagging{api, b}, api: api, watching: true, now: func() time.Time { return b.time }, tally: kubeletNewTally(), worked: func() {}}
	return b
}

// lagging is a client that may read outdated objects.
type lagging struct {
	client.Client
	b *kubeletBench
}

func (l lagging) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if err := l.Client.List(ctx, list, opts...); err != nil {
		return err
	}
	if all, ok := list.(*kubelet.NodeKubeletList); ok && l.b.stale != nil {
		for i := range all.Items {
			if old, ok := l.b.stale[all.Items[i].Name]; ok {
				all.Items[i] = *old.DeepCopy()
			}
		}
	}
	return nil
}

func (b *kubeletBench) kubelets() map[string]kubelet.NodeKubelet {
	b.Helper()
	var all kubelet.NodeKubeletList
	if err := b.api.List(b.Context(), &all); err != nil {
		b.Fatal(err)
	}
	out := map[string]kubelet.NodeKubelet{}
	for _, k := range all.Items {
		out[k.Name] = k
	}
	return out
}

// here looks once, and lets new agents report that they are present.
func (b *kubeletBench) here() {
	b.Helper()
	if _, err := b.look(b.Context()); err != nil {
		b.Fatal(err)
	}
	for _, k := range b.kubelets() {
		if k.Status.Phase == "" {
			b.answer(k.Name, kubelet.NodeKubeletStatus{Phase: kubelet.Settled})
		}
	}
}

// settle looks until nothing changes any more.
func (b *kubeletBench) settle() {
	b.Helper()
	for range 4 {
		b.here()
	}
}

func (b *kubeletBench) answer(name string, s kubelet.NodeKubeletStatus) {
	b.Helper()
	k := b.kubelets()[name]
	k.Status = s
	if err := b.client.Status().Update(b.Context(), &k); err != nil {
		b.Fatal(err)
	}
}

// changing checks which nodes have slots.
func (b *kubeletBench) changing(want ...string) {
	b.Helper()
	var got []string
	for name, k := range b.kubelets() {
		if k.Changing() {
			got = append(got, name)
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		b.Errorf("changing: %v, want %v", got, want)
	}
}

func (b *kubeletBench) pool() kubelet.KubeletPool {
	b.Helper()
	var p kubelet.KubeletPool
	if err := b.api.Get(b.Context(), client.ObjectKey{Name: "workers"}, &p); err != nil {
		b.Fatal(err)
	}
	return p
}

func kubeletCluster(nodes ...string) []client.Object {
	k, p := config("a", `{"maxPods": 50}`), kubeletPool("workers", "worker", intstr.FromInt32(1))
	objects := []client.Object{&k, &p}
	for _, name := range nodes {
		n := kubeletNode(name, "worker")
		objects = append(objects, &n)
	}
	return objects
}

// TestLook tests that slots are given one after the other, also after a kill of the controller, or
// with an outdated cache.
func TestLook(t *testing.T) {
	b := kubeletNewBench(t, KubeletOptions{}, kubeletCluster("n1", "n2", "n3")...)
	b.here()
	if _, err := b.look(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.changing("n1")
	if s := b.pool().Status; s.Nodes != 3 || !slices.Equal(s.Changing, []string{"n1"}) {
		t.Errorf("%+v", s)
	}
	// The cache has n1 as it was before its turn, when it would have been passed over.
	old := b.kubelets()["n1"]
	old.Status = kubelet.NodeKubeletStatus{Phase: kubelet.ConditionBlocked, Tried: old.Spec.Digest}
	old.Spec = kubelet.NodeKubeletSpec{Pool: "workers"}
	b.stale = map[string]kubelet.NodeKubelet{"n1": old}
	b.settle()
	b.changing("n1")
	b.told = nil // killed, and started again with the same cache
	b.settle()
	b.changing("n1")
	b.stale = nil
	k := b.kubelets()["n1"]
	b.answer("n1", kubelet.NodeKubeletStatus{Turn: k.Spec.Turn, Phase: kubelet.Settled, Has: k.Spec.Digest})
	b.settle()
	b.changing("n2")
	if len(b.told) > 1 {
		t.Errorf("kept: %v", b.told)
	}

	// A user deletes the object of a node that changes: it has no slot any more, and its
	// object is made anew.
	k = b.kubelets()["n2"]
	if err := b.client.Delete(t.Context(), &k); err != nil {
		t.Fatal(err)
	}
	b.settle()
	b.changing("n3")
	if k, ok := b.kubelets()["n2"]; !ok || k.Spec.Turn != 0 {
		t.Errorf("%v %+v", ok, k)
	}
}

// TestWriteFails tests that after an uncertain write the turn is read again, and that a turn that
// was certainly not given goes to the same node.
func TestWriteFails(t *testing.T) {
	b := kubeletNewBench(t, KubeletOptions{}, kubeletCluster("n1", "n2")...)
	failure := error(nil)
	b.fail = func(verb string, o client.Object) error {
		if k, ok := o.(*kubelet.NodeKubelet); ok && verb == "patch" && k.Spec.Turn > 0 {
			return failure
		}
		return nil
	}
	b.here()
	failure = errors.New("the answer is lost")
	if _, err := b.look(t.Context()); err == nil || !strings.Contains(err.Error(), "cannot update NodeKubelet n1: the answer is lost") {
		t.Errorf("%v", err)
	}
	b.changing()
	if b.told != nil {
		t.Errorf("told: %v", b.told)
	}
	failure = apierrors.NewConflict(schema.GroupResource{Resource: "nodekubelets"}, "n1", errors.New("another version"))
	if _, err := b.look(t.Context()); err != nil {
		t.Error(err)
	}
	if _, ok := b.told["n1"]; ok {
		t.Errorf("told: %v", b.told)
	}
	failure = nil
	b.settle()
	b.changing("n1")

	// Without its status nothing begins: a pool says so first.
	b = kubeletNewBench(t, KubeletOptions{}, kubeletCluster("n1")...)
	b.fail = func(verb string, o client.Object) error {
		if p, ok := o.(*kubelet.KubeletPool); ok && verb == "status" && len(p.Status.Changing) > 0 {
			return errors.New("no room")
		}
		return nil
	}
	b.here()
	if _, err := b.look(t.Context()); err == nil || !strings.Contains(err.Error(), "no room") {
		t.Error(err)
	}
	b.changing()
}

// TestSilent tests that a node with an old lease does not start, although it is Ready.
func TestSilent(t *testing.T) {
	lease := func(node string, age time.Duration) client.Object {
		at := metav1.NewMicroTime(noon.Add(-age))
		return &coordination.Lease{ObjectMeta: metav1.ObjectMeta{Name: node, Namespace: core.NamespaceNodeLease}, Spec: coordination.LeaseSpec{RenewTime: &at}}
	}
	b := kubeletNewBench(t, KubeletOptions{}, append(kubeletCluster("n1", "n2"), lease("n1", time.Minute), lease("n2", 5*time.Second))...)
	b.settle()
	// n1 takes the slot by being away: with at most one no node begins.
	b.changing()
	r, err := b.look(t.Context())
	if err != nil || r.RequeueAfter != hearAgain {
		t.Errorf("%v %v", r, err)
	}
	for _, c := range b.pool().Status.Conditions {
		if c.Type == kubelet.Updating && !strings.Contains(c.Message, "n1: it is not Ready") {
			t.Errorf("%+v", c)
		}
	}
	b.time = noon.Add(-30 * time.Second) // the lease is young again
	b.settle()
	b.changing("n1")
}

// TestKubeletRival tests that no node gets a turn while another controller exists, unless --adopt
// is set.
func TestKubeletRival(t *testing.T) {
	theirs := &unstructured.Unstructured{}
	theirs.SetGroupVersionKind(kubelet.MachineConfigPool)
	theirs.SetName("worker")
	owned := kubeletCluster("n1")
	owned[0].SetFinalizers([]string{"99-worker-generated-kubelet"})
	for name, objects := range map[string][]client.Object{
		"MachineConfigPool worker exists": append(kubeletCluster("n1"), theirs),
		"a controller with the finalizer 99-worker-generated-kubelet, which applies KubeletConfig a": owned,
	} {
		b := kubeletNewBench(t, KubeletOptions{}, objects...)
		b.settle()
		if all := b.kubelets(); len(all) > 0 {
			t.Errorf("%s: %v", name, all)
		}
		said := false
		for _, c := range b.pool().Status.Conditions {
			said = said || c.Reason == ReportOnly && strings.Contains(c.Message, name)
		}
		if !said {
			t.Errorf("%s: %+v", name, b.pool().Status)
		}
		var k kubelet.KubeletConfig
		if err := b.api.Get(t.Context(), client.ObjectKey{Name: "a"}, &k); err != nil || len(k.Status.Conditions) > 0 {
			t.Errorf("%s: %v %+v", name, err, k.Status)
		}
		b.Adopt = true
		b.settle()
		b.changing("n1")
	}
	k := kubelet.KubeletConfig{}
	for manager, want := range map[string]string{"machine-config-controller": "machine-config-controller", FieldManager: "", "kubectl-edit": ""} {
		k.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: manager, Subresource: "status"}, {Manager: "argocd"}}
		if got := actsOn(&k); got != want {
			t.Errorf("%s: %q, want %q", manager, got, want)
		}
	}
}

// TestKubeletNodeChanged tests that labels and conditions of a node cause a look only while there are
// pools or NodeKubelets, and a node with settings always.
func TestKubeletNodeChanged(t *testing.T) {
	n := &core.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "1"}}
	change := func(do func(*core.Node)) *core.Node {
		c := n.DeepCopy()
		do(c)
		return c
	}
	pool := &kubelet.KubeletPool{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
	orphan := &kubelet.NodeKubelet{ObjectMeta: metav1.ObjectMeta{Name: "n2"}, Status: kubelet.NodeKubeletStatus{Has: "x"}}
	for what, tt := range map[string]struct {
		now           *core.Node
		unused, inUse bool
	}{
		"nothing":       {n, false, false},
		"a label":       {change(func(n *core.Node) { n.Labels = map[string]string{"a": ""} }), false, true},
		"cordoned":      {change(func(n *core.Node) { n.Spec.Unschedulable = true }), false, true},
		"not ready":     {change(func(n *core.Node) { n.Status.Conditions = []core.NodeCondition{{Type: core.NodeReady}} }), false, true},
		"a new kubelet": {change(func(n *core.Node) { n.Status.NodeInfo.KubeletVersion = "v1.37.3" }), false, true},
		"its settings":  {change(func(n *core.Node) { n.Annotations = map[string]string{kubelet.SettingsAnnotation: "x"} }), true, true},
		"another node":  {change(func(n *core.Node) { n.UID = "2" }), true, true},
	} {
		for _, objects := range [][]client.Object{{n}, {n, pool}, {n, orphan}} {
			b := kubeletNewBench(t, KubeletOptions{}, objects...)
			if _, err := b.read(t.Context()); err != nil {
				t.Fatal(err)
			}
			want := tt.unused
			if len(objects) > 1 {
				want = tt.inUse
			}
			if got := b.nodeChanged(n, tt.now); got != want {
				t.Errorf("%s, with %d objects: %v, want %v", what, len(objects), got, want)
			}
		}
	}
}
