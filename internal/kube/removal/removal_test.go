package removal

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

	"fettle.dev/fettle/internal/kube/kubeletconfig"
	"fettle.dev/fettle/internal/kube/kubeletoperator"
	"fettle.dev/fettle/internal/kube/tuned"
)

const namespace = "ns"

// bench is a removal over an API server that is only imitated.
type bench struct {
	*testing.T
	*Removal
	said []string
}

func newBench(t *testing.T, objects ...client.Object) *bench {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{kubeletconfig.AddToScheme, tuned.AddToScheme, core.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	b := &bench{T: t}
	b.Removal = &Removal{
		API:       fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build(),
		Namespace: namespace, Interval: time.Millisecond, Quiet: 20 * time.Millisecond,
		Say: func(format string, args ...any) { b.said = append(b.said, fmt.Sprintf(format, args...)) },
	}
	return b
}

func (b *bench) looks() *Document {
	b.Helper()
	d, err := b.Look(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	return d
}

// change reads an object, and writes it changed.
func change[T client.Object](b *bench, o T, name string, to func(T)) {
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

func pool(name string) *kubeletconfig.KubeletPool {
	most := intstr.FromString("10%")
	return &kubeletconfig.KubeletPool{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: kubeletconfig.KubeletPoolSpec{MaxUnavailable: &most}}
}

func kubelet(name, pool, has string) *kubeletconfig.NodeKubelet {
	return &kubeletconfig.NodeKubelet{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: kubeletconfig.NodeKubeletSpec{Pool: pool},
		Status: kubeletconfig.NodeKubeletStatus{Has: has, Phase: kubeletconfig.Settled},
	}
}

func marked(name, has string) *core.Node {
	return &core.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{kubeletconfig.SettingsAnnotation: has}}}
}

// TestRemoval: from what is in force to nothing, which is said on the way.
func TestRemoval(t *testing.T) { synctest.Test(t, testRemoval) }

func testRemoval(t *testing.T) {
	b := newBench(t, managed(), pool("workers"), pool("empty"), kubelet("n1", "workers", "abc"), kubelet("n2", "workers", ""), marked("n1", "abc"), &core.Node{ObjectMeta: metav1.ObjectMeta{Name: "n2"}},
		&tuned.Profile{ObjectMeta: metav1.ObjectMeta{Name: "n1", Namespace: namespace}})
	d := b.looks()
	if d.State != Waiting || d.Asked || !slices.Equal(d.Profiles, []string{"n1"}) || len(d.Kubelets) != 1 || d.Kubelets[0].Node != "n1" || d.Kubelets[0].Has != "abc" || !slices.Equal(d.Pools, []Pool{{"workers", 1, "10%"}}) {
		t.Errorf("%+v", d)
	}
	if err := b.Ask(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"workers", "empty"} {
		change(b, &kubeletconfig.KubeletPool{}, name, func(p *kubeletconfig.KubeletPool) {
			if p.Spec.ManagementState != kubeletconfig.Removed || p.Spec.MaxUnavailable.String() != "10%" {
				t.Errorf("%s: %+v", name, p.Spec)
			}
		})
	}
	change(b, &tuned.Tuned{}, tuned.DefaultName, func(o *tuned.Tuned) {
		if o.Spec.ManagementState != tuned.Removed {
			t.Errorf("%+v", o.Spec)
		}
	})
	if d := b.looks(); d.State != Waiting || !d.Asked {
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
	change(b, &kubeletconfig.NodeKubelet{}, "n1", func(k *kubeletconfig.NodeKubelet) { k.Spec.Turn++ })
	time.Sleep(50 * time.Millisecond)
	change(b, &kubeletconfig.NodeKubelet{}, "n1", func(k *kubeletconfig.NodeKubelet) { k.Status.Turn, k.Status.Has = k.Spec.Turn, "" })
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
	for _, want := range []string{"left: profiles of 1 node (n1); kubelet settings of 1 node", "nothing has changed for 20ms: do operator and agents run?", "left: kubelet settings of 1 node, now at n1"} {
		if !slices.ContainsFunc(b.said, func(s string) bool { return strings.HasPrefix(s, want) }) {
			t.Errorf("it does not say %q: %q", want, b.said)
		}
	}
}

// TestStopped: what keeps nodes from being given back is said, with what it says of what
// is wanted now and not of what was wanted before.
func TestStopped(t *testing.T) {
	failed := metav1.Condition{Type: kubeletconfig.Degraded, Status: metav1.ConditionTrue, Reason: kubeletoperator.NodeFailed, Message: "n1: it has ended"}
	for name, c := range map[string]struct {
		change func(*kubeletconfig.KubeletPool)
		want   string // words of what stops it; "" for nothing
	}{
		"paused":             {func(p *kubeletconfig.KubeletPool) { p.Spec.Paused = true }, `kubectl patch kubeletpool workers --type merge -p '{"spec":{"paused":false}}'`},
		"another controller": {says(metav1.Condition{Type: kubeletconfig.Updating, Reason: kubeletoperator.ReportOnly, Message: "KubeletConfig objects are those of another"}), "those of another"},
		"failed before":      {says(failed), ""},
		"failed on the way":  {func(p *kubeletconfig.KubeletPool) { p.Spec.ManagementState = kubeletconfig.Removed; says(failed)(p) }, "pool workers does not go on: n1: it has ended"},
		"of an older spec": {func(p *kubeletconfig.KubeletPool) {
			p.Spec.ManagementState, p.Generation = kubeletconfig.Removed, 2
			says(failed)(p)
		}, ""},
		"a node that is silent": {func(p *kubeletconfig.KubeletPool) {
			p.Spec.ManagementState = kubeletconfig.Removed
			says(metav1.Condition{Type: kubeletconfig.Degraded, Status: metav1.ConditionTrue, Reason: kubeletconfig.Stuck})(p)
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := pool("workers")
			c.change(p)
			other := pool("other") // without nodes: what it says is no matter
			other.Spec.Paused = true
			d := newBench(t, p, other, kubelet("n1", "workers", "abc")).looks()
			state := map[bool]string{true: Waiting, false: Stopped}[c.want == ""]
			if text := strings.Join(d.Stopped, "\n"); d.State != state || !strings.Contains(text, c.want) || len(d.Stopped) > 1 {
				t.Errorf("%s: %q", d.State, text)
			}
		})
	}
}

func says(c metav1.Condition) func(*kubeletconfig.KubeletPool) {
	return func(p *kubeletconfig.KubeletPool) {
		if c.Status == "" {
			c.Status = metav1.ConditionFalse
		}
		meta.SetStatusCondition(&p.Status.Conditions, c)
	}
}

// TestLeft: what nodes have is seen by their objects, and by what is noted at the nodes
// where these objects are gone; an installation without kubelets' settings has none.
func TestLeft(t *testing.T) {
	broken := kubelet("n2", "", "")
	broken.Status.Phase, broken.Status.Message = kubeletconfig.Broken, "it does not start"
	d := newBench(t, kubelet("n1", "", "abc"), broken, marked("n3", "def")).looks()
	var got []string
	for _, k := range d.Kubelets {
		got = append(got, k.Node+" "+k.Has)
	}
	if want := []string{"n1 abc", "n2 ", "n3 def"}; !slices.Equal(got, want) || d.State != Waiting || !strings.Contains(d.Words(), "n2: it does not start, n3: it has no NodeKubelet") {
		t.Errorf("%v, want %v; %s", got, want, d.Words())
	}
	if d := newBench(t).looks(); d.State != Done || !d.Asked {
		t.Errorf("nothing: %+v", d)
	}
	seen := pool("workers")
	seen.Spec.ManagementState, seen.Generation, seen.Status.ObservedGeneration = kubeletconfig.Removed, 3, 2
	if d := newBench(t, seen).looks(); d.State != Waiting || !strings.Contains(d.Words(), "not looked yet at pools workers") {
		t.Errorf("a pool that the operator has not looked at: %+v", d)
	}
	// The values may come back as long as that is not what is wanted.
	if d := newBench(t, managed()).looks(); d.State != Waiting {
		t.Errorf("managed: %+v", d)
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		defer cancel()
		if d, err := newBench(t, kubelet("n1", "", "abc")).Wait(ctx); !errors.Is(err, context.DeadlineExceeded) || d == nil || len(d.Kubelets) != 1 {
			t.Errorf("%+v %v", d, err)
		}
	})
}
