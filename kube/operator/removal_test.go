package operator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"fettle.dev/fettle/kube/kubelet"
	"fettle.dev/fettle/kube/tuned"
)

const namespace = "ns"

// removalBench is a removal with a simulated API server.
type removalBench struct {
	*testing.T
	*Removal
	said []string
}

func removalNewBench(t *testing.T, objects ...client.Object) *removalBench {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{kubelet.AddToScheme, tuned.AddToScheme, core.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	b := &removalBench{T: t}
	b.Removal = &Removal{
		API:       fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build(),
		Namespace: namespace, Interval: time.Millisecond, Quiet: 20 * time.Millisecond,
		Say: func(format string, args ...any) { b.said = append(b.said, fmt.Sprintf(format, args...)) },
	}
	return b
}

func (b *removalBench) looks() *Document {
	b.Helper()
	d, err := b.Look(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	return d
}

// change reads an object, and writes it changed.
func change[T client.Object](b *removalBench, o T, name string, to func(T)) {
	b.Helper()
	key := client.ObjectKey{Name: name}
	if _, ok := any(o).(*tuned.Tuned); ok {
		key.Namespace = namespace
	}
	if err := b.API.Get(b.Context(), key, o); err != nil {
		b.Fatal(err)
	}
	to(o)
	if err := b.API.Update(b.Context(), o); err != nil {
		b.Fatal(err)
	}
}

func managed() *tuned.Tuned {
	return &tuned.Tuned{ObjectMeta: metav1.ObjectMeta{Name: tuned.DefaultName, Namespace: namespace}, Spec: tuned.TunedSpec{ManagementState: tuned.Managed}}
}

func removalPool(name string) *kubelet.KubeletPool {
	most := intstr.FromString("10%")
	return &kubelet.KubeletPool{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: kubelet.KubeletPoolSpec{MaxUnavailable: &most}}
}

func removalKubelet(name, pool, has string) *kubelet.NodeKubelet {
	return &kubelet.NodeKubelet{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: kubelet.NodeKubeletSpec{Pool: pool},
		Status: kubelet.NodeKubeletStatus{Has: has, Phase: kubelet.Settled},
	}
}

func marked(name, has string) *core.Node {
	return &core.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{kubelet.SettingsAnnotation: has}}}
}

// TestRemoval tests a removal from values in force to none, with its progress messages.
func TestRemoval(t *testing.T) { synctest.Test(t, testRemoval) }

func testRemoval(t *testing.T) {
	b := removalNewBench(t, managed(), removalPool("workers"), removalPool("empty"), removalKubelet("n1", "workers", "abc"), removalKubelet("n2", "workers", ""), marked("n1", "abc"), &core.Node{ObjectMeta: metav1.ObjectMeta{Name: "n2"}},
		&tuned.Profile{ObjectMeta: metav1.ObjectMeta{Name: "n1", Namespace: namespace}})
	d := b.looks()
	if d.State != RemovalWaiting || d.Asked || !slices.Equal(d.Profiles, []string{"n1"}) || len(d.Kubelets) != 1 || d.Kubelets[0].Node != "n1" || d.Kubelets[0].Has != "abc" || !slices.Equal(d.Pools, []Pool{{"workers", 1, "10%"}}) {
		t.Errorf("%+v", d)
	}
	if err := b.Ask(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"workers", "empty"} {
		change(b, &kubelet.KubeletPool{}, name, func(p *kubelet.KubeletPool) {
			if p.Spec.ManagementState != kubelet.Removed || p.Spec.MaxUnavailable.String() != "10%" {
				t.Errorf("%s: %+v", name, p.Spec)
			}
		})
	}
	change(b, &tuned.Tuned{}, tuned.DefaultName, func(o *tuned.Tuned) {
		if o.Spec.ManagementState != tuned.Removed {
			t.Errorf("%+v", o.Spec)
		}
	})
	if d := b.looks(); d.State != RemovalWaiting || !d.Asked {
		t.Errorf("%+v", d)
	}
	done := make(chan *Document)
	go func() {
		d, err := b.Wait(t.Context())
		if err != nil {
			t.Error(err)
		}
		done <- d
	}()
	time.Sleep(100 * time.Millisecond)
	if err := b.API.Delete(t.Context(), &tuned.Profile{ObjectMeta: metav1.ObjectMeta{Name: "n1", Namespace: namespace}}); err != nil {
		t.Fatal(err)
	}
	change(b, &kubelet.NodeKubelet{}, "n1", func(k *kubelet.NodeKubelet) { k.Spec.Turn++ })
	time.Sleep(50 * time.Millisecond)
	change(b, &kubelet.NodeKubelet{}, "n1", func(k *kubelet.NodeKubelet) { k.Status.Turn, k.Status.Has = k.Spec.Turn, "" })
	time.Sleep(50 * time.Millisecond) // the node is noted to have something still
	select {
	case d := <-done:
		t.Errorf("done before the last: %+v", d)
	default:
	}
	change(b, &core.Node{}, "n1", func(n *core.Node) { n.Annotations = nil })
	if d := <-done; d.State != Done || len(d.Kubelets) != 0 {
		t.Errorf("%+v", d)
	}
	for _, want := range []string{"left: profiles of 1 node (n1); kubelet settings of 1 node", "no progress for 20ms; check that operator and agents run", "left: kubelet settings of 1 node, now changing: n1"} {
		if !slices.ContainsFunc(b.said, func(s string) bool { return strings.HasPrefix(s, want) }) {
			t.Errorf("it does not say %q: %q", want, b.said)
		}
	}
}

// TestStopped tests that obstacles to restoring nodes are reported, with their reports on the
// present request and not on the former one.
func TestStopped(t *testing.T) {
	failed := metav1.Condition{Type: kubelet.Degraded, Status: metav1.ConditionTrue, Reason: NodeFailed, Message: "n1: it has ended"}
	for name, c := range map[string]struct {
		change func(*kubelet.KubeletPool)
		want   string // words of what stops it; "" for nothing
	}{
		"paused":             {func(p *kubelet.KubeletPool) { p.Spec.Paused = true }, `kubectl patch kubeletpool workers --type merge -p '{"spec":{"paused":false}}'`},
		"another controller": {says(metav1.Condition{Type: kubelet.Updating, Reason: ReportOnly, Message: "KubeletConfig objects are those of another"}), "those of another"},
		"failed before":      {says(failed), ""},
		"failed on the way":  {func(p *kubelet.KubeletPool) { p.Spec.ManagementState = kubelet.Removed; says(failed)(p) }, "pool workers is blocked: n1: it has ended"},
		"of an older spec": {func(p *kubelet.KubeletPool) {
			p.Spec.ManagementState, p.Generation = kubelet.Removed, 2
			says(failed)(p)
		}, ""},
		"a node that is silent": {func(p *kubelet.KubeletPool) {
			p.Spec.ManagementState = kubelet.Removed
			says(metav1.Condition{Type: kubelet.Degraded, Status: metav1.ConditionTrue, Reason: kubelet.Stuck})(p)
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := removalPool("workers")
			c.change(p)
			other := removalPool("other") // without nodes: what it says is no matter
			other.Spec.Paused = true
			d := removalNewBench(t, p, other, removalKubelet("n1", "workers", "abc")).looks()
			state := map[bool]string{true: RemovalWaiting, false: RemovalStopped}[c.want == ""]
			if text := strings.Join(d.Stopped, "\n"); d.State != state || !strings.Contains(text, c.want) || len(d.Stopped) > 1 {
				t.Errorf("%s: %q", d.State, text)
			}
		})
	}
}

func says(c metav1.Condition) func(*kubelet.KubeletPool) {
	return func(p *kubelet.KubeletPool) {
		if c.Status == "" {
			c.Status = metav1.ConditionFalse
		}
		meta.SetStatusCondition(&p.Status.Conditions, c)
	}
}

// TestLeft tests that the settings of nodes are found by their objects, or by the annotations of
// nodes if these objects are gone, and that an installation without kubelet settings has none.
func TestLeft(t *testing.T) {
	broken := removalKubelet("n2", "", "")
	broken.Status.Phase, broken.Status.Message = kubelet.ConditionBroken, "it does not start"
	d := removalNewBench(t, removalKubelet("n1", "", "abc"), broken, marked("n3", "def")).looks()
	var got []string
	for _, k := range d.Kubelets {
		got = append(got, k.Node+" "+k.Has)
	}
	if want := []string{"n1 abc", "n2 ", "n3 def"}; !slices.Equal(got, want) || d.State != RemovalWaiting || !strings.Contains(d.Words(), "n2: it does not start, n3: it has no NodeKubelet") {
		t.Errorf("%v, want %v; %s", got, want, d.Words())
	}
	if d := removalNewBench(t).looks(); d.State != Done || !d.Asked {
		t.Errorf("nothing: %+v", d)
	}
	seen := removalPool("workers")
	seen.Spec.ManagementState, seen.Generation, seen.Status.ObservedGeneration = kubelet.Removed, 3, 2
	if d := removalNewBench(t, seen).looks(); d.State != RemovalWaiting || !strings.Contains(d.Words(), "waiting for the operator to handle pools workers") {
		t.Errorf("a pool that the operator has not looked at: %+v", d)
	}
	// The values may come back as long as that is not what is wanted.
	if d := removalNewBench(t, managed()).looks(); d.State != RemovalWaiting {
		t.Errorf("managed: %+v", d)
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		defer cancel()
		if d, err := removalNewBench(t, removalKubelet("n1", "", "abc")).Wait(ctx); !errors.Is(err, context.DeadlineExceeded) || d == nil || len(d.Kubelets) != 1 {
			t.Errorf("%+v %v", d, err)
		}
	})
}
