package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// TestScale: kubectl fettle scale execute against a real API server: up in batches, down
// by drains that keep a disruption budget, all machines anew, killed and gone on with,
// refused and stopped. The machines are simulated (see cloud), their nodes are kwok's.
func TestScale(t *testing.T) {
	if !Inside(t, Setup{Nightly: true, Programs: []string{"./kube/cmd/kubectl-fettle"}}) {
		return
	}
	b := newHealthBench(t, Options{})
	p := b.start("--lease=3s")
	b.makeSet("east", 3, map[string]string{"machine.openshift.io/zone": "east"})
	b.makeSet("west", 1, map[string]string{"machine.openshift.io/zone": "west"})
	b.checkAll("workers", "50%", "20s")
	b.says("workers", "Remediating", "False", "NothingToDo", "", time.Minute)

	b.up()
	b.down()
	b.roll()
	b.refused()
	b.fails()
	b.c.must(p.Stop())
}

// checkAll makes a check of all machines.
func (b *healthBench) checkAll(name, limit, startup string) {
	b.t.Helper()
	b.check(name, "east", limit)
	b.c.must(b.patch(b.t.Context(), "machinehealthchecks", name, map[string]any{"spec": map[string]any{
		"selector": map[string]any{"matchLabels": nil}, "nodeStartupTimeout": startup,
	}}))
}

// scale runs kubectl fettle scale execute, and wants an exit code and a text.
func (b *healthBench) scale(code int, want string, args ...string) string {
	b.t.Helper()
	began := time.Now()
	c := b.scaling(args...)
	out, err := c.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		b.t.Fatal(err)
	}
	if got := c.ProcessState.ExitCode(); got != code || !strings.Contains(string(out), want) {
		b.t.Fatalf("scale execute %s: exit code %d, want %d and %q:\n%s", strings.Join(args, " "), got, code, want, out)
	}
	b.t.Logf("scale execute %s: exit code %d after %.1f s\n%s", strings.Join(args, " "), code, time.Since(began).Seconds(), out)
	return string(out)
}

func (b *healthBench) scaling(args ...string) *exec.Cmd {
	return exec.Command("kubectl-fettle", append([]string{"scale", "execute", "--kubeconfig=" + b.c.Kubeconfig, "--yes"}, args...)...)
}

// killedAfter runs a scale and kills it.
func (b *healthBench) killedAfter(d time.Duration, args ...string) {
	b.t.Helper()
	c := b.scaling(args...)
	b.c.must(c.Start())
	time.Sleep(d)
	_ = c.Process.Kill()
	if err := c.Wait(); c.ProcessState.Exited() {
		b.t.Fatalf("it had ended before it was killed: %v", err)
	}
}

// forget takes the lease of a scale that was killed away, so as not to wait a minute.
func (b *healthBench) forget() {
	b.t.Helper()
	b.c.must(ignoreGone(b.c.Client.CoordinationV1().Leases(machineNamespace).Delete(b.t.Context(), "fettle-scale", meta.DeleteOptions{})))
}

func (b *healthBench) up() {
	b.t.Helper()
	f := b.follow()
	b.killedAfter(4*time.Second, "east", "west", "--to", "12", "--batch", "3")
	// The lease of one that was killed holds for a minute, at most.
	b.scale(75, "machine sets are already being scaled", "east", "west", "--to", "12", "--batch", "3")
	// The operator has seen it too, and waits as long.
	b.says("workers", "Remediating", "False", "Waiting", "machine sets are being scaled by", 70*time.Second)
	b.forget()
	b.scale(0, "done: ", "east", "west", "--to", "12", "--batch", "3")
	b.settled("east", 6)
	b.settled("west", 6)
	if f.stop(); len(f.deleted) > 0 {
		b.t.Errorf("machines were deleted on the way up: %v", f.deleted)
	}
	b.scale(0, "nothing: 0 steps", "east", "west", "--to", "12")
	b.says("workers", "Remediating", "False", "NothingToDo", "", 2*time.Minute)
}

// web runs pods on the nodes of the machines, with a disruption budget of one.
func (b *healthBench) web(replicas int32) {
	b.t.Helper()
	ctx := b.t.Context()
	labels := map[string]string{"app": "web"}
	grace := int64(1)
	one := intstr.FromInt32(1)
	d := &apps.Deployment{ObjectMeta: meta.ObjectMeta{Name: "web", Namespace: "default"}, Spec: apps.DeploymentSpec{
		Replicas: &replicas, Selector: &meta.LabelSelector{MatchLabels: labels},
		Template: core.PodTemplateSpec{ObjectMeta: meta.ObjectMeta{Labels: labels}, Spec: core.PodSpec{
			Containers: []core.Container{{Name: "web", Image: Workload}}, Tolerations: []core.Toleration{KwokTolerates}, TerminationGracePeriodSeconds: &grace,
			NodeSelector: map[string]string{"machine": "yes"},
		}},
	}}
	if _, err := b.c.Client.AppsV1().Deployments("default").Create(ctx, d, meta.CreateOptions{}); err != nil {
		b.t.Fatal(err)
	}
	budget := &policy.PodDisruptionBudget{ObjectMeta: meta.ObjectMeta{Name: "web", Namespace: "default"}, Spec: policy.PodDisruptionBudgetSpec{MaxUnavailable: &one, Selector: &meta.LabelSelector{MatchLabels: labels}}}
	if _, err := b.c.Client.PolicyV1().PodDisruptionBudgets("default").Create(ctx, budget, meta.CreateOptions{}); err != nil {
		b.t.Fatal(err)
	}
	b.webReady(replicas)
}

func (b *healthBench) webReady(replicas int32) {
	b.t.Helper()
	b.c.Wait("all pods to be ready", 2*time.Minute, func(ctx context.Context) error {
		d, err := b.c.Client.AppsV1().Deployments("default").Get(ctx, "web", meta.GetOptions{})
		if err != nil {
			return err
		}
		p, err := b.c.Client.PolicyV1().PodDisruptionBudgets("default").Get(ctx, "web", meta.GetOptions{})
		if err != nil {
			return err
		}
		if d.Status.ReadyReplicas != replicas || p.Status.DisruptionsAllowed < 1 {
			return fmt.Errorf("%d are, and %d may be disrupted", d.Status.ReadyReplicas, p.Status.DisruptionsAllowed)
		}
		return nil
	})
}

// fewest follows the pods, and knows how few were ready at the least.
func (b *healthBench) fewest() (stop func() int32) {
	b.t.Helper()
	least, ctx := int32(1<<30), b.t.Context()
	end, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			if d, err := b.c.Client.AppsV1().Deployments("default").Get(ctx, "web", meta.GetOptions{}); err == nil {
				least = min(least, d.Status.ReadyReplicas)
			}
			select {
			case <-end:
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
	return func() int32 { close(end); <-done; return least }
}

func (b *healthBench) down() {
	b.t.Helper()
	b.web(16)
	stop := b.fewest()
	b.killedAfter(6*time.Second, "east", "west", "--to", "6", "--batch", "3")
	b.forget()
	b.webReady(16) // else the budget is in the way of the plan
	b.scale(0, "done: ", "east", "west", "--to", "6", "--batch", "3")
	b.settled("east", 3)
	b.settled("west", 3)
	b.webReady(16)
	// A budget of one, and a pod that has just been made is not ready yet.
	if least := stop(); least < 15 {
		b.t.Errorf("%d of 16 pods were ready at the least: the budget allows 15", least)
	}
	b.nothingLeft()
}

// nothingLeft: no node is cordoned, no machine marked, no set has a note.
func (b *healthBench) nothingLeft() {
	b.t.Helper()
	nodes, err := b.c.Client.CoreV1().Nodes().List(b.t.Context(), meta.ListOptions{LabelSelector: "machine=yes"})
	b.c.must(err)
	for _, n := range nodes.Items {
		if n.Spec.Unschedulable || n.Annotations["fettle.dev/cordoned"] != "" {
			b.t.Errorf("node %s is cordoned", n.Name)
		}
	}
	for _, set := range []string{"east", "west"} {
		for _, m := range b.machines(set) {
			if m.GetAnnotations()[deleteMark] != "" {
				b.t.Errorf("machine %s is marked", m.GetName())
			}
		}
		s, err := b.in("machinesets").Get(b.t.Context(), set, meta.GetOptions{})
		b.c.must(err)
		if len(s.GetAnnotations()) > 0 {
			b.t.Errorf("machine set %s has %v", set, s.GetAnnotations())
		}
	}
}

func (b *healthBench) names(sets ...string) (out []string) {
	for _, set := range sets {
		for _, m := range b.machines(set) {
			out = append(out, m.GetName())
		}
	}
	return out
}

func (b *healthBench) roll() {
	b.t.Helper()
	old := b.names("east", "west")
	b.mu.Lock()
	b.leastReady = map[string]int{"east": 1 << 30, "west": 1 << 30}
	b.mu.Unlock()
	stop := b.fewest()
	b.killedAfter(9*time.Second, "east", "west", "--roll", "--batch", "2")
	b.forget()
	b.scale(4, "finish it with --roll", "east", "--to", "9")
	b.webReady(16)
	b.killedAfter(15*time.Second, "east", "west", "--roll", "--batch", "2")
	b.forget()
	b.webReady(16)
	out := b.scale(0, "done: ", "east", "west", "--roll", "--batch", "2")
	if !strings.Contains(out, "continuing the roll of machine set ") {
		b.t.Errorf("it does not say that it goes on:\n%s", out)
	}
	b.settled("east", 3)
	b.settled("west", 3)
	for _, name := range b.names("east", "west") {
		if slices.Contains(old, name) {
			b.t.Errorf("machine %s is an old one", name)
		}
	}
	b.webReady(16)
	if least := stop(); least < 15 {
		b.t.Errorf("%d of 16 pods were ready at the least", least)
	}
	b.mu.Lock()
	if b.leastReady["east"] < 3 || b.leastReady["west"] < 3 {
		b.t.Errorf("the sets had fewer machines than before: %v", b.leastReady)
	}
	b.mu.Unlock()
	b.nothingLeft()
}

// refused: nothing is changed where routers would have no machine, where a pod would be
// lost, without an agreement, and by another one's batch.
func (b *healthBench) refused() {
	b.t.Helper()
	ctx := b.t.Context()
	before := b.names("east", "west")
	none := int64(0)
	pod := func(name, node string, labels map[string]string) {
		b.t.Helper()
		p := &core.Pod{ObjectMeta: meta.ObjectMeta{Name: name, Namespace: "default", Labels: labels}, Spec: core.PodSpec{
			NodeName: node, Containers: []core.Container{{Name: "c", Image: Workload}}, Tolerations: []core.Toleration{KwokTolerates}, TerminationGracePeriodSeconds: &none,
		}}
		if _, err := b.c.Client.CoreV1().Pods("default").Create(ctx, p, meta.CreateOptions{}); err != nil {
			b.t.Fatal(err)
		}
	}
	west := b.machines("west")
	pod("router-1", west[0].GetName(), map[string]string{"ingresscontroller.operator.openshift.io/deployment-ingresscontroller": "default"})
	b.scale(4, "machine set west would lose its last machine, but routers run there: default/router-1", "west", "--to", "0")
	b.c.must(b.c.Client.CoreV1().Pods("default").Delete(ctx, "router-1", meta.DeleteOptions{GracePeriodSeconds: &none}))
	for _, m := range west {
		pod("bare-"+m.GetName(), m.GetName(), nil)
	}
	b.scale(4, "no controller would recreate default/bare-", "west", "--to", "2")
	for _, m := range west {
		b.c.must(b.c.Client.CoreV1().Pods("default").Delete(ctx, "bare-"+m.GetName(), meta.DeleteOptions{GracePeriodSeconds: &none}))
	}
	asked := exec.Command("kubectl-fettle", "scale", "execute", "--kubeconfig="+b.c.Kubeconfig, "west", "--to", "9")
	if out, _ := asked.CombinedOutput(); asked.ProcessState.ExitCode() != 4 || !strings.Contains(string(out), "stdin is not a terminal") {
		b.t.Errorf("exit code %d:\n%s", asked.ProcessState.ExitCode(), out)
	}
	if after := b.names("east", "west"); !slices.Equal(before, after) {
		b.t.Errorf("machines %v, before %v", after, before)
	}
	b.nothingLeft()
}

// fails: a batch whose machines do not join stops it, and they are taken back: nothing
// waits for them, and nothing else goes.
func (b *healthBench) fails() {
	b.t.Helper()
	serving := b.names("east")
	b.c.must(b.patch(b.t.Context(), "machinesets", "east", map[string]any{"metadata": map[string]any{"annotations": map[string]any{neverJoins: "yes"}}}))
	out := b.scale(7, "0 of 2 new machines have joined", "east", "--to", "7", "--batch", "2", "--output", "json")
	var doc struct {
		State string
		Done  []any
		Plan  struct{ Steps []any }
	}
	if err := json.Unmarshal([]byte(out[strings.Index(out, "{"):]), &doc); err != nil || doc.State != "stopped" || len(doc.Done) != 0 || len(doc.Plan.Steps) != 2 {
		b.t.Errorf("%v: %+v\n%s", err, doc, out)
	}
	s, err := b.in("machinesets").Get(b.t.Context(), "east", meta.GetOptions{})
	b.c.must(err)
	if n, _, _ := unstructured.NestedInt64(s.Object, "spec", "replicas"); n != 5 {
		b.t.Errorf("%d replicas: only the first batch was to be asked for", n)
	}
	for _, want := range []string{" (0s of 20s): machine set east: 0 of 2 new machines", "has no node", "to give up the missing machines: kubectl fettle scale execute east --to 3;"} {
		if !strings.Contains(out, want) {
			b.t.Errorf("it does not say %q:\n%s", want, out)
		}
	}
	began := time.Now()
	if out := b.scale(0, "done: ", "east", "--to", "3"); !strings.Contains(out, "no node, so no pods to move") || strings.Contains(out, "pods move away") {
		b.t.Errorf("it does not say that nothing is drained:\n%s", out)
	}
	if took := time.Since(began); took > time.Minute {
		b.t.Errorf("it took %s", took)
	}
	b.settled("east", 3)
	if now := b.names("east"); !slices.Equal(now, serving) {
		b.t.Errorf("machines %v, and before the batch %v", now, serving)
	}
	b.c.must(b.patch(b.t.Context(), "machinesets", "east", map[string]any{"metadata": map[string]any{"annotations": map[string]any{neverJoins: nil}}}))
	b.nothingLeft()
}
