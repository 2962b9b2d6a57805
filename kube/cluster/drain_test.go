package cluster

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// pod returns a pod of a controller of the given kind; "" for none.
func pod(name, controller string) *core.Pod {
	yes := true
	p := &core.Pod{ObjectMeta: meta.ObjectMeta{Name: name, Namespace: "a", UID: types.UID(name)}, Spec: core.PodSpec{NodeName: "n"}, Status: core.PodStatus{Phase: core.PodRunning}}
	switch controller {
	case "":
	case "static":
		p.Annotations = map[string]string{core.MirrorPodAnnotationKey: "x"}
	default:
		p.OwnerReferences = []meta.OwnerReference{{Kind: controller, Name: "c", Controller: &yes}}
	}
	return p
}

// cluster is a simulated API server that allows the eviction of a pod from the n-th attempt on, and
// then deletes the pod.
func cluster(t *testing.T, allowed map[string]int, objects ...runtime.Object) (*Node, *fake.Clientset, map[string]int) {
	t.Helper()
	c := fake.NewClientset(append(objects, &core.Node{ObjectMeta: meta.ObjectMeta{Name: "n"}})...)
	tries := map[string]int{}
	c.PrependReactor("create", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if a.GetSubresource() != "eviction" {
			return false, nil, nil
		}
		e := a.(clienttesting.CreateAction).GetObject().(*policy.Eviction)
		if e.DeleteOptions == nil || e.DeleteOptions.Preconditions == nil || *e.DeleteOptions.Preconditions.UID != types.UID(e.Name) {
			t.Errorf("the eviction of %s names no UID", e.Name)
		}
		if tries[e.Name]++; tries[e.Name] < allowed[e.Name] {
			return true, nil, errors.NewTooManyRequests("the disruption budget web needs 2 healthy pods and has 2 currently", 0)
		}
		return true, nil, c.Tracker().Delete(core.SchemeGroupVersion.WithResource("pods"), e.Namespace, e.Name)
	})
	return &Node{Client: c, Name: "n", Patience: 300 * time.Millisecond, Interval: 10 * time.Millisecond}, c, tries
}

func left(t *testing.T, c *fake.Clientset) string {
	t.Helper()
	list, err := c.CoreV1().Pods("").List(t.Context(), meta.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range list.Items {
		names = append(names, p.Name)
	}
	return strings.Join(names, " ")
}

func TestDrain(t *testing.T) { synctest.Test(t, testDrain) }

func testDrain(t *testing.T) {
	other, done := pod("elsewhere", "ReplicaSet"), pod("done", "Job")
	other.Spec.NodeName, done.Status.Phase = "m", core.PodSucceeded
	n, c, tries := cluster(t, map[string]int{"web": 4}, pod("web", "ReplicaSet"), pod("db", "StatefulSet"), pod("agent", "DaemonSet"), pod("etcd", "static"), other, done)
	if err := n.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := left(t, c); got != "agent done elsewhere etcd" {
		t.Errorf("left: %s", got)
	}
	if tries["web"] != 4 || tries["db"] != 1 || len(tries) != 2 {
		t.Errorf("tries: %v", tries)
	}
}

// TestBudget tests that an eviction that a disruption budget forbids is not made, and is reported
// with its reason.
func TestBudget(t *testing.T) { synctest.Test(t, testBudget) }

func testBudget(t *testing.T) {
	n, c, _ := cluster(t, map[string]int{"web": 1 << 30}, pod("web", "ReplicaSet"), pod("db", "StatefulSet"))
	began := time.Now()
	err := n.Drain(t.Context())
	if err == nil || !strings.Contains(err.Error(), "a/web (the disruption budget web needs 2 healthy pods and has 2 currently)") || strings.Contains(err.Error(), "a/db") {
		t.Errorf("%v", err)
	}
	if took := time.Since(began); took < n.Patience || took > n.Patience+n.Interval {
		t.Errorf("it took %s", took)
	}
	if got := left(t, c); got != "web" {
		t.Errorf("left: %s", got)
	}
}

// TestLost tests that pods that no controller would recreate are not evicted, and that no other pod
// is evicted then.
func TestLost(t *testing.T) { synctest.Test(t, testLost) }

func testLost(t *testing.T) {
	n, c, tries := cluster(t, nil, pod("bare", ""), pod("web", "ReplicaSet"))
	if err := n.Drain(t.Context()); err == nil || !strings.Contains(err.Error(), "a/bare: no controller would recreate these pods") {
		t.Errorf("%v", err)
	}
	if len(tries) > 0 {
		t.Errorf("tries: %v", tries)
	}
	n.Force = true
	if err := n.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := left(t, c); got != "" {
		t.Errorf("left: %s", got)
	}
}

func TestCordon(t *testing.T) {
	n, c, _ := cluster(t, nil)
	state := func() (bool, string) {
		t.Helper()
		node, err := c.CoreV1().Nodes().Get(t.Context(), "n", meta.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return node.Spec.Unschedulable, node.Annotations[Cordoned]
	}
	set := func(unschedulable bool) {
		t.Helper()
		node, err := c.CoreV1().Nodes().Get(t.Context(), "n", meta.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		node.Spec.Unschedulable = unschedulable
		if _, err := c.CoreV1().Nodes().Update(t.Context(), node, meta.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	do := func(what func(context.Context) error) {
		t.Helper()
		if err := what(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	cordon := func(ctx context.Context) error { return n.Cordon(ctx, "maxPods") }

	do(cordon)
	if u, why := state(); !u || why != "maxPods" {
		t.Errorf("cordoned: %v %q", u, why)
	}
	do(cordon)
	do(n.Uncordon)
	if u, why := state(); u || why != "" {
		t.Errorf("uncordoned: %v %q", u, why)
	}
	// What was cordoned by others stays so.
	set(true)
	do(cordon)
	do(n.Uncordon)
	if u, why := state(); !u || why != "" {
		t.Errorf("somebody's: %v %q", u, why)
	}
	// What was uncordoned meanwhile stays so.
	set(false)
	do(cordon)
	set(false)
	do(n.Uncordon)
	if u, why := state(); u || why != "" {
		t.Errorf("uncordoned by somebody: %v %q", u, why)
	}
}

// TestAnnotate tests that an annotation is set and removed, that nothing else of the node changes,
// and that an existing value is not written again.
func TestAnnotate(t *testing.T) {
	n, c, _ := cluster(t, nil)
	annotations := func() map[string]string {
		t.Helper()
		o, err := c.CoreV1().Nodes().Get(t.Context(), "n", meta.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return o.Annotations
	}
	if err := n.Cordon(t.Context(), "why"); err != nil {
		t.Fatal(err)
	}
	for _, value := range []string{"", "a", "b", "b", "", ""} {
		if err := n.Annotate(t.Context(), "x", value); err != nil {
			t.Fatal(err)
		}
		if a := annotations(); a["x"] != value || a[Cordoned] != "why" || value == "" && len(a) != 1 {
			t.Errorf("%q: %v", value, a)
		}
	}
	patches := 0
	for _, a := range c.Actions() {
		if a.Matches("patch", "nodes") {
			patches++
		}
	}
	if patches != 4 { // the cordon, a, b, and none
		t.Errorf("%d patches", patches)
	}
}
