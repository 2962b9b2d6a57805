package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"fettle.dev/fettle/kube/kubelet"
)

// agents play those of kwok's nodes, which have no kubelets: each answers the turns of its
// node. What is counted is counted from one watch, event by event, in the order in which
// the API server has stored them.
type agents struct {
	*testing.T
	c        *Cluster
	kubelets dynamic.ResourceInterface
	// mostAway is how many nodes may be unavailable at once.
	mostAway int

	mu sync.Mutex
	// objects is how each node's object was last seen; away how many others are unavailable.
	objects map[string]kubelet.NodeKubelet
	away    int
	// most is the largest number of nodes that were unavailable at once, turns how many
	// were given, late those given after a failure was seen.
	most, turns, late int
	failedAt          time.Time
	// held are answers that wait until as many nodes are unavailable as may be; nil: none do.
	held []func()
	// answer says how a node's turn ends, in a phase, and why.
	answer func(name string, s kubelet.NodeKubeletSpec) (kubelet.NodePhase, string)
}

// follow watches the objects until the test ends.
func (a *agents) follow(ctx context.Context) {
	for ctx.Err() == nil {
		w, err := a.kubelets.Watch(ctx, metav1.ListOptions{})
		if err != nil {
			time.Sleep(100 * time.Millisecond)
			continue
		}
		for e := range w.ResultChan() {
			u, ok := e.Object.(*unstructured.Unstructured)
			if !ok {
				break
			}
			var k kubelet.NodeKubelet
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &k); err != nil {
				a.Error(err)
				return
			}
			a.see(ctx, k)
		}
		w.Stop()
	}
}

// see counts, and plays the agent.
func (a *agents) see(ctx context.Context, k kubelet.NodeKubelet) {
	a.mu.Lock()
	defer a.mu.Unlock()
	was, known := a.objects[k.Name]
	a.objects[k.Name] = k
	if known && was.Spec.Turn != k.Spec.Turn {
		a.turns++
		if !a.failedAt.IsZero() {
			a.late++
		}
	}
	now := a.away
	for _, o := range a.objects {
		if o.Changing() || o.Status.Phase == kubelet.ConditionFailed && o.Status.Tried == k.Spec.Digest {
			now++
		}
	}
	a.most = max(a.most, now)
	switch {
	case k.Status.Phase == "" && !k.Changing():
		go a.say(ctx, k, kubelet.Settled, "")
	case k.Changing() && (!known || was.Spec.Turn != k.Spec.Turn):
		phase, why := a.answer(k.Name, k.Spec)
		say := func() {
			time.AfterFunc(time.Duration(50+rand.IntN(400))*time.Millisecond, func() { a.say(ctx, k, phase, why) })
		}
		if a.held != nil {
			a.held = append(a.held, say)
		} else {
			say()
		}
	}
	if now >= a.mostAway {
		a.release()
	}
	if k.Status.Phase == kubelet.ConditionFailed && was.Status.Phase != kubelet.ConditionFailed {
		a.failedAt = time.Now()
	}
}

// release lets the answers go that were held.
func (a *agents) release() {
	for _, say := range a.held {
		say()
	}
	a.held = nil
}

// say writes a status as an agent does.
func (a *agents) say(ctx context.Context, k kubelet.NodeKubelet, phase kubelet.NodePhase, why string) {
	has := k.Status.Has
	if phase == kubelet.Settled {
		has = k.Spec.Digest
	}
	body, _ := json.Marshal(map[string]any{"status": map[string]any{"turn": k.Spec.Turn, "phase": phase, "has": has, "tried": k.Spec.Digest, "message": why}})
	for ctx.Err() == nil {
		if _, err := a.kubelets.Patch(ctx, k.Name, types.MergePatchType, body, metav1.PatchOptions{}, "status"); err == nil {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// reset begins to count anew.
func (a *agents) reset(answer func(string, kubelet.NodeKubeletSpec) (kubelet.NodePhase, string)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.most, a.turns, a.late, a.failedAt, a.answer = 0, 0, 0, time.Time{}, answer
	a.held = []func(){}
	// A node that is not Ready on a busy machine takes a slot that is not counted here.
	time.AfterFunc(2*time.Minute, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.release()
	})
}

func (a *agents) counted(what string, since time.Time) (most, turns, late int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.Logf("%s: %.1f s, %d turns, at most %d nodes unavailable at once, %d turns after the first failure was stored", what, time.Since(since).Seconds(), a.turns, a.most, a.late)
	return a.most, a.turns, a.late
}

func fine(string, kubelet.NodeKubeletSpec) (kubelet.NodePhase, string) {
	return kubelet.Settled, ""
}

// TestKubeletPools: the operator with 500 nodes of kwok, whose agents are played: at no
// moment are more nodes unavailable than the pool allows, with nodes that are cordoned,
// blocked and failing, and the operator killed in between; after a failure no node begins
// until a retry is requested.
func TestKubeletPools(t *testing.T) { rollOutPools(t, operatorNodes) }

// TestKubeletPoolsMany: the same with 2,000 nodes.
func TestKubeletPoolsMany(t *testing.T) { rollOutPools(t, manyOperatorNodes) }

func rollOutPools(t *testing.T, nodes int) {
	if !Inside(t, Setup{Nightly: true, Within: time.Hour, Programs: []string{"./kube/cmd/kubectl-fettle"}}) {
		return
	}
	mostAway := nodes / 10 // maxUnavailable: 10%
	within := func(d time.Duration) time.Duration { return d * time.Duration(nodes/operatorNodes) }
	c := Start(t, Options{
		Kwok: nodes, KwokNode: func(_ int, n *core.Node) { n.Labels["pool"] = "real" },
		// On a busy machine kwok is late for the leases of so many: a node that is not Ready
		// for that takes a slot as any other.
		Flags: map[string][]string{"kube-controller-manager": {"--node-monitor-grace-period=10m"}},
	})
	operator := c.deployKubelets(t)
	r := &rolled{T: t, c: c}
	a := &agents{
		T: t, c: c, mostAway: mostAway, objects: map[string]kubelet.NodeKubelet{}, answer: fine,
		kubelets: dynamic.NewForConfigOrDie(c.Config).Resource(schema.GroupVersionResource{Group: "fettle.dev", Version: "v1alpha1", Resource: "nodekubelets"}),
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); a.follow(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })

	// Three nodes are cordoned by others: they take slots, and wait.
	for i := range 3 {
		_, err := c.Client.CoreV1().Nodes().Patch(t.Context(), nodeName(100+i), types.MergePatchType, []byte(`{"spec":{"unschedulable":true}}`), metav1.PatchOptions{})
		c.must(err)
	}
	a.away = 3
	pool := func(what string, within time.Duration, holds func(kubelet.KubeletPool) bool) (p kubelet.KubeletPool) {
		t.Helper()
		c.Wait(what, within, func(context.Context) error {
			p = kubelet.KubeletPool{}
			if err := r.get(kubeletPools+"/real", &p); err != nil {
				return err
			}
			if !holds(p) {
				return fmt.Errorf("%+v\n%s", p.Status, operator.Log(5))
			}
			return nil
		})
		return p
	}

	// All of them, with two that cannot, and the operator killed in the middle.
	blocked := map[string]bool{nodeName(7): true, nodeName(300): true}
	a.reset(func(name string, s kubelet.NodeKubeletSpec) (kubelet.NodePhase, string) {
		if blocked[name] {
			return kubelet.ConditionBlocked, "the kubelet reads no drop-ins"
		}
		return fine(name, s)
	})
	r.config("limits", "{maxPods: 200}")
	began := time.Now()
	c.must(c.post(t.Context(), kubeletPools, "{apiVersion: fettle.dev/v1alpha1, kind: KubeletPool, metadata: {name: real, labels: {kubelet: real}}, spec: {nodeSelector: {matchLabels: {pool: real}}, maxUnavailable: 10%}}"))
	pool("a quarter to be done", within(6*time.Minute), func(p kubelet.KubeletPool) bool { return int(p.Status.Updated) > nodes/4 })
	operator.Kill()
	c.must(operator.Start())
	p := pool("all that can to be done", within(10*time.Minute), func(p kubelet.KubeletPool) bool {
		return int(p.Status.Updated) == nodes-5 && len(p.Status.Changing) == 0
	})
	most, turns, _ := a.counted(fmt.Sprint(nodes, " nodes, the operator killed"), began)
	if most > mostAway || most < mostAway*4/5 || turns != nodes-3 {
		t.Errorf("at most %d, %d turns", most, turns)
	}
	if condition := meta.FindStatusCondition(p.Status.Conditions, kubelet.Updating); condition == nil || condition.Reason != "Waiting" || p.Status.Unavailable < 3 {
		t.Errorf("%+v", p.Status)
	}

	// One fails.
	bad := nodeName(140)
	a.reset(func(name string, s kubelet.NodeKubeletSpec) (kubelet.NodePhase, string) {
		if name == bad {
			return kubelet.ConditionFailed, "wait for its health: it has ended"
		}
		return fine(name, s)
	})
	began = time.Now()
	r.config("limits", "{maxPods: 201}")
	p = pool("the failure to be said", within(6*time.Minute), func(p kubelet.KubeletPool) bool {
		return degraded(p, "NodeFailed") != "" && len(p.Status.Changing) == 0
	})
	done := p.Status.Updated
	time.Sleep(3 * time.Second)
	most, turns, late := a.counted("one of them fails", began)
	if most > mostAway || turns > nodes/2 || late > mostAway { // those of the decision that was under way
		t.Errorf("at most %d, %d turns, %d late", most, turns, late)
	}
	var now kubelet.KubeletPool
	c.must(r.get(kubeletPools+"/real", &now))
	if text := degraded(now, "NodeFailed"); now.Status.Updated != done || text != bad+": wait for its health: it has ended. No other node is changed until the settings change, or the pool's annotation fettle.dev/retry has another value" {
		t.Errorf("%q, %d and then %d are done", text, done, now.Status.Updated)
	}

	// A retry is requested.
	a.reset(fine)
	began = time.Now()
	c.must(c.Client.CoreV1().RESTClient().Patch(types.MergePatchType).AbsPath(kubeletPools, "real").Body([]byte(`{"metadata":{"annotations":{"fettle.dev/retry":"1"}}}`)).Do(t.Context()).Error())
	pool("the rest to be done", within(10*time.Minute), func(p kubelet.KubeletPool) bool {
		return int(p.Status.Updated) == nodes-3 && len(p.Status.Changing) == 0
	})
	if most, _, _ := a.counted("the rest", began); most > mostAway {
		t.Errorf("at most %d", most)
	}
	if p := pool("nothing to be wrong", time.Minute, func(p kubelet.KubeletPool) bool { return true }); degraded(p, "NodeFailed") != "" {
		t.Errorf("%+v", p.Status)
	}
	working := operatorMemoryWorking
	if nodes > operatorNodes {
		working = manyRSSWorking
	}
	b := &operatorBench{t: t, Cluster: c}
	b.memory(operator, "after three roll-outs", working)
	c.must(operator.Stop())
}
