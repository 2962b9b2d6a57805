package kubeletagent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"fettle.dev/fettle/internal/kube/kubelet"
	"fettle.dev/fettle/internal/kube/kubelet/node"
	"fettle.dev/fettle/internal/kube/kubeletconfig"
)

// visitor plays what is done to a node. What it really does is in packages visit and node,
// and in test/cluster.
type visitor struct {
	has   string
	calls []string

	recovers *node.Report // what a former process has left
	fails    error        // Recover fails with it
	run      func(want kubelet.Want) (*node.Report, error)
	check    error
	uncordon error
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

// bench is an agent over an API server that is only imitated.
type bench struct {
	*testing.T
	*agent
	visitor *visitor
	fail    error // writing the status fails with it
}

func newBench(t *testing.T, v *visitor, objects ...client.Object) *bench {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := kubeletconfig.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	b := &bench{T: t, visitor: v}
	api := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&kubeletconfig.NodeKubelet{}).
		WithInterceptorFuncs(interceptor.Funcs{
			SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
				if b.fail != nil {
					return b.fail
				}
				return c.SubResource(sub).Patch(ctx, o, p, opts...)
			},
		}).Build()
	b.agent = b.start(api)
	return b
}

// start is a new process.
func (b *bench) start(api client.WithWatch) *agent {
	return &agent{Options: Options{Node: "n1", Visitor: b.visitor, Client: api, Interval: time.Minute, Log: slog.New(slog.DiscardHandler)}, began: true, cordoned: true}
}

// did checks what was done since it was last asked.
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

func (b *bench) object() *kubeletconfig.NodeKubelet {
	b.Helper()
	var k kubeletconfig.NodeKubelet
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

func told(t *testing.T, turn int64, fields string) kubeletconfig.NodeKubeletSpec {
	t.Helper()
	f, err := kubelet.Parse([]byte(fields))
	if err != nil {
		t.Fatal(err)
	}
	s := kubeletconfig.NodeKubeletSpec{Pool: "workers", Turn: turn, Digest: kubelet.Digest(f), KubeletConfigs: []string{"a"}}
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

func object(uid string) *kubeletconfig.NodeKubelet {
	return &kubeletconfig.NodeKubelet{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: types.UID(uid)}, Spec: kubeletconfig.NodeKubeletSpec{Pool: "workers"}}
}

// TestTurns: an agent says that it is there, takes each turn once, and nothing beside.
func TestTurns(t *testing.T) {
	b := newBench(t, &visitor{}, object("1"))
	b.looks()
	b.did("recover", "uncordon")
	b.says("0 Settled has= tried=")
	b.looks()
	b.did()
	b.tell(`{"maxPods": 50}`)
	b.looks()
	b.did("run")
	b.says("1 Settled has=D tried=D")
	if s := b.object().Status; !slices.Equal(s.Settings, []string{"maxPods"}) || s.DownMilliseconds != 1500 {
		t.Errorf("%+v", s)
	}
	b.looks()
	b.did()
	b.tell(`{}`)
	b.looks()
	b.did("run")
	b.says("2 Settled has= tried=")

	// A machine that was set up anew.
	b.tell(`{"maxPods": 60}`)
	b.looks()
	b.did("run")
	b.visitor.has = ""
	b.looks()
	b.says("3 Settled has= tried=D")

	// No object: nothing is wanted, and what there is stays.
	if err := b.Client.Delete(t.Context(), b.object()); err != nil {
		t.Fatal(err)
	}
	b.did()
	b.looks()
	b.did()
}

// TestEnds: how a turn ends, and what is said of it.
func TestEnds(t *testing.T) {
	for name, c := range map[string]struct {
		report *node.Report
		err    error
		want   string
		words  []string
	}{
		"done":        {&node.Report{Result: node.Done, Has: "new"}, nil, "1 Settled has=new tried=D", nil},
		"nothing":     {&node.Report{Result: node.Unchanged, Has: "new"}, nil, "1 Settled has=new tried=D", nil},
		"rolled back": {&node.Report{Result: node.RolledBack, Has: "old", Step: node.Health, Error: "it has ended", LastWords: "no CPUs"}, nil, "1 Failed has=old tried=D", []string{"it has ended", "wait for its health", "no CPUs"}},
		"ended":       {&node.Report{Result: node.RolledBack, Has: "old", Step: node.Health, Error: "wait: " + node.ErrEnded.Error(), LastWords: "begins\nno CPUs\n\n"}, nil, "1 Failed has=old tried=D", []string{"has ended: no CPUs"}},
		"incomplete":  {&node.Report{Result: node.Incomplete, Has: "old", Error: "nothing starts"}, nil, "1 Broken has=old tried=D", []string{"nothing starts"}},
		"refused":     {nil, refused(node.ErrNoConfigDir), "1 Blocked has=old tried=D", []string{"nothing is changed: the kubelet was started without --config-dir"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, &visitor{has: "old", run: func(kubelet.Want) (*node.Report, error) { return c.report, c.err }}, object("1"))
			b.tell(`{"maxPods": 50}`)
			b.looks()
			b.did("recover", "run")
			b.says(c.want, c.words...)
		})
	}
}

// TestRefused: what does not fit is never begun, whoever has written it.
func TestRefused(t *testing.T) {
	for name, c := range map[string]struct {
		spec kubeletconfig.NodeKubeletSpec
		want string
	}{
		"what may not be set": {kubeletconfig.NodeKubeletSpec{KubeletConfig: &runtime.RawExtension{Raw: []byte(`{"staticPodPath": "/tmp"}`)}}, "staticPodPath"},
		"another digest":      {kubeletconfig.NodeKubeletSpec{Digest: "0123456789ab", KubeletConfig: &runtime.RawExtension{Raw: []byte(`{"maxPods": 50}`)}}, "somebody has changed it"},
		"no settings":         {kubeletconfig.NodeKubeletSpec{Digest: "0123456789ab"}, "somebody has changed it"},
		"nothing readable":    {kubeletconfig.NodeKubeletSpec{KubeletConfig: &runtime.RawExtension{Raw: []byte(`[1]`)}}, "spec.kubeletConfig"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := wantOf(c.spec); !errors.Is(err, node.ErrRefused) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
	if w, err := wantOf(kubeletconfig.NodeKubeletSpec{}); err != nil || w.Digest != "" || len(w.Fields) > 0 {
		t.Errorf("nothing: %+v %v", w, err)
	}
}

// TestPasses: what may pass does not end the turn; that it waits is said.
func TestPasses(t *testing.T) {
	down := errors.New("the API server is away")
	b := newBench(t, &visitor{run: func(kubelet.Want) (*node.Report, error) { return nil, down }}, object("1"))
	b.tell(`{"maxPods": 50}`)
	if err := b.look(t.Context()); !errors.Is(err, down) {
		t.Error(err)
	}
	b.did("recover", "run")
	b.says("0  has= tried=", "the API server is away")
	b.visitor.run = nil
	b.looks()
	b.did("run")
	b.says("1 Settled has=D tried=D")
	if s := b.object().Status; s.Waiting != "" {
		t.Errorf("%+v", s)
	}

	// What was blocked is free once nothing is in the way: the operator gives it a turn.
	b.visitor.run = func(kubelet.Want) (*node.Report, error) { return nil, refused(errors.New("it is in the way")) }
	b.tell(`{"maxPods": 60}`)
	b.looks()
	b.visitor.calls, b.visitor.check = nil, refused(errors.New("it is in the way"))
	b.looks()
	b.did("check", "uncordon")
	b.looks()
	b.did("check")
	b.visitor.check = nil
	b.looks()
	b.did("check")
	if s := b.object().Status; s.Phase != kubeletconfig.Settled || s.Message != "" || s.Turn != 2 {
		t.Errorf("%+v", s)
	}
}

// TestKilled: a process after one that was killed ends what that has begun, says it once,
// and takes the turn that was not answered.
func TestKilled(t *testing.T) {
	// Before the answer: the turn is taken again, which does nothing where all is done.
	b := newBench(t, &visitor{recovers: &node.Report{Result: node.RolledBack, Error: "cut off"}}, object("1"))
	b.tell(`{"maxPods": 50}`)
	b.looks()
	b.did("recover", "run")
	b.says("1 Settled has=D tried=D")
	b.looks()
	b.did()

	// After it: a node that ran with neither has its former settings in the end.
	b = newBench(t, &visitor{has: "old", run: func(kubelet.Want) (*node.Report, error) {
		return &node.Report{Result: node.Incomplete, Has: "old", Step: node.Health, Error: "no CPUs are reserved"}, nil
	}}, object("1"))
	digest := b.tell(`{"maxPods": 50}`)
	b.looks()
	b.did("recover", "run")
	b.says("1 Broken has=old tried=D")
	b.visitor.recovers = &node.Report{Result: node.Incomplete, Digest: digest, Has: "old", Error: "still"}
	b.looks()
	b.did("recover")
	b.says("1 Broken has=old tried=D", "no CPUs are reserved")
	b.agent = b.start(b.Client)
	b.visitor.recovers = &node.Report{Result: node.RolledBack, Digest: digest, Has: "old", Error: "cut off before all was written"}
	b.fail = errors.New("the API server is away")
	if err := b.look(t.Context()); err == nil {
		t.Error("that nothing could be said is no error")
	}
	b.fail = nil
	b.visitor.uncordon = errors.New("not now")
	if err := b.look(t.Context()); err == nil {
		t.Error("a node that stays cordoned is no error")
	}
	b.visitor.uncordon = nil
	b.looks()
	b.did("recover", "uncordon", "uncordon")
	b.says("1 Failed has=old tried=D", "no CPUs are reserved")
	b.looks()
	b.did()

	// What cannot be recovered now is tried again, and nothing else is done before.
	b = newBench(t, &visitor{fails: errors.New("busy")}, object("1"))
	b.tell(`{"maxPods": 50}`)
	if err := b.look(t.Context()); err == nil {
		t.Error("no error")
	}
	b.did("recover")
	b.says("0  has= tried=", "busy")
	b.visitor.fails = nil
	b.looks()
	b.did("recover", "run")
	b.says("1 Settled has=D tried=D")
	if s := b.object().Status; s.Waiting != "" {
		t.Errorf("%+v", s)
	}
}

// TestEnded: an agent that is ended in its turn, as by its replacement, leaves the turn
// to the next one: its end is no failure of the settings.
func TestEnded(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	b := newBench(t, &visitor{}, object("1"))
	b.visitor.run = func(kubelet.Want) (*node.Report, error) {
		end()
		return &node.Report{Result: node.RolledBack, Error: context.Canceled.Error()}, nil
	}
	b.tell(`{"maxPods": 50}`)
	if err := b.look(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if !b.object().Changing() {
		t.Errorf("%+v", b.object().Status)
	}
	b.agent = b.start(b.Client)
	b.visitor.run, b.visitor.calls = nil, nil
	b.looks()
	b.did("recover", "run")
	b.says("1 Settled has=D tried=D")
}

// TestRun: an agent follows its object, and ends when it is told to.
func TestRun(t *testing.T) {
	b := newBench(t, &visitor{}, object("1"))
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- Run(ctx, b.Options) }()
	for until := time.Now().Add(30 * time.Second); b.object().Status.Phase == ""; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("it does not say that it is there")
		}
	}
	for i := range 3 {
		want := b.tell(fmt.Sprintf(`{"maxPods": %d}`, 50+i))
		for until := time.Now().Add(30 * time.Second); b.object().Status.Has != want || b.object().Changing(); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(until) {
				t.Fatalf("%+v", b.object())
			}
		}
	}
	end()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
