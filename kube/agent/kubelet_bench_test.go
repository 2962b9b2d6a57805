package agent

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"fettle.dev/fettle/kube/kubelet"
	"fettle.dev/fettle/kube/kubelet/node"
)

// visitor simulates the changes of a node. The tests of package node and test/cluster make the real
// ones.
type visitor struct {
	has   string
	calls []string

	recovers *node.Report // what a former process has left
	fails    error        // Recover fails with it
	run      func(want kubelet.Want) (*node.Report, error)
	check    error
	uncordon error
	marks    []string // what was noted at the node
	unmarked error    // noting fails with it
}

func (v *visitor) Recover(context.Context) (*node.Report, error) {
	v.calls = append(v.calls, "recover")
	if v.fails != nil {
		return nil, v.fails
	}
	r := v.recovers
	if r != nil {
		v.has = r.Has
	}
	if r == nil || r.Result != node.Incomplete {
		v.recovers = nil
	}
	return r, nil
}

func (v *visitor) Check(context.Context, kubelet.Want) error {
	v.calls = append(v.calls, "check")
	return v.check
}

func (v *visitor) Run(_ context.Context, want kubelet.Want) (*node.Report, error) {
	v.calls = append(v.calls, "run")
	if v.run != nil {
		r, err := v.run(want)
		if r != nil {
			v.has = r.Has
		}
		return r, err
	}
	v.has = want.Digest
	return &node.Report{Result: node.Done, Digest: want.Digest, Has: want.Digest, Settings: []string{"maxPods"}, DownSeconds: 1.5}, nil
}

func (v *visitor) Uncordon(context.Context) error {
	v.calls = append(v.calls, "uncordon")
	return v.uncordon
}

func (v *visitor) Has() (string, error) { return v.has, nil }

func (v *visitor) Mark(_ context.Context, has string) error {
	if v.unmarked == nil {
		v.marks = append(v.marks, has)
	}
	return v.unmarked
}

// bench is an agent with a simulated API server.
type bench struct {
	*testing.T
	*agent
	visitor *visitor
	fail    error // writing the status fails with it
}

func newBench(t *testing.T, v *visitor, objects ...client.Object) *bench {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := kubelet.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	b := &bench{T: t, visitor: v}
	api := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&kubelet.NodeKubelet{}).
		WithInterceptorFuncs(interceptor.Funcs{
			SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
				if b.fail != nil {
					return b.fail
				}
				return c.SubResource(sub).Patch(ctx, o, p, opts...)
			},
			Watch: fromTheStart,
		}).Build()
	b.agent = b.start(api)
	return b
}

// fromTheStart is a watch that begins with the existing objects, as that of a real API server does,
// but not that of the simulation.
func fromTheStart(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) (watch.Interface, error) {
	w, err := c.Watch(ctx, list, opts...)
	if err != nil {
		return nil, err
	}
	out := make(chan watch.Event, 1)
	out <- watch.Event{Type: watch.Added, Object: &kubelet.NodeKubelet{}}
	go func() {
		defer close(out)
		defer w.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case e := <-w.ResultChan():
				out <- e // follow reads until it is closed
			}
		}
	}()
	return watch.NewProxyWatcher(out), nil
}

// start starts a new process.
func (b *bench) start(api client.WithWatch) *agent {
	return &agent{KubeletOptions: KubeletOptions{Node: "n1", Visitor: b.visitor, Client: api, Interval: time.Minute, Log: slog.New(slog.DiscardHandler)}, began: true, cordoned: true}
}

// did checks what was done since its last call.
func (b *bench) did(want ...string) {
	b.Helper()
	if !slices.Equal(b.visitor.calls, want) {
		b.Errorf("done: %v, want %v", b.visitor.calls, want)
	}
	b.visitor.calls = nil
}

func (b *bench) looks() {
	b.Helper()
	if err := b.look(b.Context()); err != nil {
		b.Error(err)
	}
}

func (b *bench) object() *kubelet.NodeKubelet {
	b.Helper()
	var k kubelet.NodeKubelet
	if err := b.Client.Get(b.Context(), client.ObjectKey{Name: "n1"}, &k); err != nil {
		b.Fatal(err)
	}
	return &k
}

// tell gives the node a turn.
func (b *bench) tell(fields string) string {
	b.Helper()
	k := b.object()
	k.Spec = told(b.T, k.Spec.Turn+1, fields)
	if err := b.Client.Update(b.Context(), k); err != nil {
		b.Fatal(err)
	}
	return k.Spec.Digest
}

func told(t *testing.T, turn int64, fields string) kubelet.NodeKubeletSpec {
	t.Helper()
	f, err := kubelet.Parse([]byte(fields))
	if err != nil {
		t.Fatal(err)
	}
	s := kubelet.NodeKubeletSpec{Pool: "workers", Turn: turn, Digest: kubelet.Digest(f), KubeletConfigs: []string{"a"}}
	if len(f) > 0 {
		s.KubeletConfig = &runtime.RawExtension{Raw: []byte(fields)}
	}
	return s
}

// says checks the status: "phase has tried", with D for the digest of the last turn.
func (b *bench) says(want string, words ...string) {
	b.Helper()
	k := b.object()
	s := k.Status
	got := fmt.Sprintf("%d %s has=%s tried=%s", s.Turn, s.Phase, s.Has, s.Tried)
	if k.Spec.Digest != "" {
		got = strings.ReplaceAll(got, k.Spec.Digest, "D")
	}
	if got != want {
		b.Errorf("status %s, want %s: %+v", got, want, s)
	}
	for _, word := range words {
		if !strings.Contains(s.Message+s.Step+s.LastWords+s.Waiting, word) {
			b.Errorf("status: %+v, want %q", s, word)
		}
	}
}

func object(uid string) *kubelet.NodeKubelet {
	return &kubelet.NodeKubelet{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: types.UID(uid)}, Spec: kubelet.NodeKubeletSpec{Pool: "workers"}}
}
