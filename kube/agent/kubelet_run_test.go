package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"fettle.dev/fettle/kube/kubelet"
	"fettle.dev/fettle/kube/kubelet/node"
)

// TestTurns tests that an agent reports that it is present, carries out each turn once, and nothing
// else.
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

	// At each change it was noted at the node.
	if m := b.visitor.marks; len(m) != 5 || m[0] != "" || m[1] == "" || m[2] != "" || m[3] == m[1] || m[4] != "" {
		t.Errorf("marks: %q", m)
	}

	// No object: nothing is wanted, and what there is stays.
	if err := b.Client.Delete(t.Context(), b.object()); err != nil {
		t.Fatal(err)
	}
	b.did()
	b.looks()
	b.did()
}

// TestEnds tests the results of a turn, and their reports.
func TestEnds(t *testing.T) {
	for name, c := range map[string]struct {
		report *node.Report
		err    error
		want   string
		words  []string
	}{
		"done":        {&node.Report{Result: node.Done, Has: "new"}, nil, "1 Settled has=new tried=D", nil},
		"nothing":     {&node.Report{Result: node.Unchanged, Has: "new"}, nil, "1 Settled has=new tried=D", nil},
		"rolled back": {&node.Report{Result: node.RolledBack, Has: "old", Step: node.Health, Error: "it has ended", LastWords: "no CPUs"}, nil, "1 Failed has=old tried=D", []string{"it has ended", "wait for the kubelet's health", "no CPUs"}},
		"ended":       {&node.Report{Result: node.RolledBack, Has: "old", Step: node.Health, Error: "wait: " + node.ErrEnded.Error(), LastWords: "begins\nno CPUs\n\n"}, nil, "1 Failed has=old tried=D", []string{"has ended: no CPUs"}},
		"incomplete":  {&node.Report{Result: node.Incomplete, Has: "old", Error: "nothing starts"}, nil, "1 Broken has=old tried=D", []string{"nothing starts"}},
		"refused":     {nil, kubeletRefused(node.ErrNoConfigDir), "1 Blocked has=old tried=D", []string{"nothing changed: the kubelet reads no drop-ins; add --config-dir"}},
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

// TestKubeletRefused tests that an impossible request is never started, whoever has written it.
func TestKubeletRefused(t *testing.T) {
	for name, c := range map[string]struct {
		spec kubelet.NodeKubeletSpec
		want string
	}{
		"what may not be set": {kubelet.NodeKubeletSpec{KubeletConfig: &runtime.RawExtension{Raw: []byte(`{"staticPodPath": "/tmp"}`)}}, "staticPodPath"},
		"another digest":      {kubelet.NodeKubeletSpec{Digest: "0123456789ab", KubeletConfig: &runtime.RawExtension{Raw: []byte(`{"maxPods": 50}`)}}, "the object was edited"},
		"no settings":         {kubelet.NodeKubeletSpec{Digest: "0123456789ab"}, "the object was edited"},
		"nothing readable":    {kubelet.NodeKubeletSpec{KubeletConfig: &runtime.RawExtension{Raw: []byte(`[1]`)}}, "spec.kubeletConfig"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := wantOf(c.spec); !errors.Is(err, node.ErrRefused) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
	if w, err := wantOf(kubelet.NodeKubeletSpec{}); err != nil || w.Digest != "" || len(w.Fields) > 0 {
		t.Errorf("nothing: %+v %v", w, err)
	}
}

// TestPasses tests that a temporary obstacle does not end the turn, and that the wait is reported.
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
	b.visitor.run = func(kubelet.Want) (*node.Report, error) { return nil, kubeletRefused(errors.New("it is in the way")) }
	b.tell(`{"maxPods": 60}`)
	b.looks()
	b.visitor.calls, b.visitor.check = nil, kubeletRefused(errors.New("it is in the way"))
	b.looks()
	b.did("check", "uncordon")
	b.looks()
	b.did("check")
	b.visitor.check = nil
	b.looks()
	b.did("check")
	if s := b.object().Status; s.Phase != kubelet.Settled || s.Message != "" || s.Turn != 2 {
		t.Errorf("%+v", s)
	}
}

// TestKilled tests that the process after a killed one finishes the change that was in progress,
// reports it once, and carries out the unanswered turn.
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
	b.visitor.recovers = &node.Report{Result: node.RolledBack, Digest: digest, Has: "old", Error: "interrupted before all was written"}
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

// TestEnded tests that an agent that is replaced during its turn leaves the turn to the next one,
// and does not report the settings as failed.
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

// TestRun tests that an agent follows its object, and ends with its context.
func TestRun(t *testing.T) {
	b := newBench(t, &visitor{}, object("1"))
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- RunKubelet(ctx, b.KubeletOptions) }()
	for until := time.Now().Add(5 * time.Minute); b.object().Status.Phase == ""; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("it does not say that it is there")
		}
	}
	for i := range 3 {
		want := b.tell(fmt.Sprintf(`{"maxPods": %d}`, 50+i))
		for until := time.Now().Add(5 * time.Minute); b.object().Status.Has != want || b.object().Changing(); time.Sleep(5 * time.Millisecond) {
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
