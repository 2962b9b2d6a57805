package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/kube/cluster"
	"fettle.dev/fettle/kube/kubelet"
	"fettle.dev/fettle/kube/kubelet/node"
)

// harness starts the kubelet of the node in systemd's place.
type harness struct{ k *Kubelet }

func (h harness) Stop(context.Context) error { return h.k.Stop() }

func (h harness) Start(context.Context) error {
	if h.k.Running() {
		return nil
	}
	// One that ends at once is seen by Ended, as with systemd.
	if err := h.k.Start(); err != nil && h.k.Running() {
		return err
	}
	return nil
}

func (h harness) Ended(context.Context) error {
	if !h.k.Running() {
		return fmt.Errorf("%w (%s)", node.ErrEnded, h.k.cmd.ProcessState)
	}
	return nil
}

// Steady is of now: what it was started again for is past.
func (h harness) Steady(ctx context.Context) error { return h.Ended(ctx) }

func (h harness) LastWords(context.Context) string { return h.k.Log(15) }

// theNode is the node of the cluster, for changes of its kubelet.
func (c *Cluster) theNode() *node.Visit {
	return &node.Visit{
		Node: &node.Node{
			Host: host.Live(), StateDir: node.DefaultStateDir, Patience: 2 * time.Minute,
			Kubelet: &node.RunningKubelet{Service: harness{c.Kubelet}, Client: c.Client, Node: c.Kubelet.Node},
		},
		API: &cluster.Node{Client: c.Client, Name: c.Kubelet.Node, Patience: 2 * time.Minute, Interval: 500 * time.Millisecond},
	}
}

func settings(t *testing.T, text string) kubelet.Want {
	t.Helper()
	f, err := kubelet.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	w, err := kubelet.WantOf([]kubelet.Config{{Name: "test", Fields: f}})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// configz is one setting as the kubelet runs with it.
func (c *Cluster) configz(t *testing.T, name string) string {
	t.Helper()
	f, err := (&node.RunningKubelet{Service: harness{c.Kubelet}, Client: c.Client, Node: c.Kubelet.Node}).Configz(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	text, _ := json.Marshal(f[name])
	return string(text)
}

// untouched checks that a pod runs as it did: the same process, never started again.
func (c *Cluster) untouched(t *testing.T, p *core.Pod, pids []int) {
	t.Helper()
	now, err := c.Client.CoreV1().Pods(p.Namespace).Get(t.Context(), p.Name, meta.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if now.Status.Phase != core.PodRunning || len(now.Status.ContainerStatuses) != 1 || now.Status.ContainerStatuses[0].RestartCount != 0 {
		t.Errorf("pod %s: %s, %+v", p.Name, now.Status.Phase, now.Status.ContainerStatuses)
	}
	if got := c.Kubelet.Processes(p.UID); !slices.Equal(got, pids) {
		t.Errorf("processes of pod %s: %v, before %v", p.Name, got, pids)
	}
}

func (c *Cluster) cordoned(t *testing.T) bool {
	t.Helper()
	n, err := c.Client.CoreV1().Nodes().Get(t.Context(), c.Kubelet.Node, meta.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return n.Spec.Unschedulable
}

// apply has the node take settings, and checks what came of it.
func (c *Cluster) apply(t *testing.T, v *node.Visit, text, result string) *node.Report {
	t.Helper()
	began := time.Now()
	r, err := v.Run(t.Context(), settings(t, text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	t.Logf("%s: %s after %.1f s, %.1f s without a kubelet; %s", text, r.Result, time.Since(began).Seconds(), r.DownSeconds, r.Error)
	if r.Result != result {
		t.Fatalf("%s: %+v", text, r)
	}
	if c.cordoned(t) {
		t.Errorf("%s: the node is cordoned", text)
	}
	return r
}

// TestKubeletSettings: settings of a real kubelet under running pods: without a drain;
// from CPU manager none to static, which by hand ends the kubelet; one that passes all
// checks and that the kubelet refuses; and back to what the node had.
func TestKubeletSettings(t *testing.T) {
	if !Inside(t, Setup{Node: true, Nightly: true}) {
		return
	}
	c := Start(t, Options{Node: "node1"})
	v := c.theNode()
	run := func(text, result string) *node.Report {
		t.Helper()
		return c.apply(t, v, text, result)
	}
	daemon := c.daemon(t, "daemon")
	pids := c.Kubelet.Processes(daemon.UID)
	moved := c.deployment(t, "moved")
	movedPids := c.Kubelet.Processes(moved.UID)

	// Without a drain.
	first := run("{maxPods: 50, kubeAPIQPS: 60, kubeAPIBurst: 120}", node.Done)
	if got := c.configz(t, "maxPods"); got != "50" {
		t.Errorf("maxPods is %s", got)
	}
	c.untouched(t, daemon, pids)
	c.untouched(t, moved, movedPids)
	if first.DownSeconds > 30 {
		t.Errorf("no kubelet for %.1f s", first.DownSeconds)
	}
	run("{maxPods: 50, kubeAPIQPS: 60, kubeAPIBurst: 120}", node.Unchanged)
	// What a process that was killed has cordoned is given back; what others have cordoned, not.
	c.must(v.API.Cordon(t.Context(), "a process that was killed"))
	run("{maxPods: 50, kubeAPIQPS: 60, kubeAPIBurst: 120}", node.Unchanged)
	somebody := func(cordons bool) {
		t.Helper()
		_, err := c.Client.CoreV1().Nodes().Patch(t.Context(), c.Kubelet.Node, types.MergePatchType, fmt.Appendf(nil, `{"spec":{"unschedulable":%t}}`, cordons), meta.PatchOptions{})
		c.must(err)
	}
	somebody(true)
	if r, err := v.Run(t.Context(), settings(t, "{maxPods: 51, kubeAPIQPS: 60, kubeAPIBurst: 120}")); err != nil || r.Result != node.Done || !c.cordoned(t) {
		t.Errorf("on a node that somebody has cordoned: %+v %v, still so: %v", r, err, c.cordoned(t))
	}
	somebody(false)
	if _, err := v.Run(t.Context(), settings(t, "maxPods: 1")); err == nil || !strings.Contains(err.Error(), "2 pods run on the node, but the new limit is 1 ") {
		t.Errorf("fewer pods than run: %v", err)
	}

	// A disruption budget that allows nothing is kept: the drain ends, and nothing is changed.
	one := intstr.FromInt32(1)
	budgets := c.Client.PolicyV1().PodDisruptionBudgets("default")
	_, err := budgets.Create(t.Context(), &policy.PodDisruptionBudget{
		ObjectMeta: meta.ObjectMeta{Name: "moved"},
		Spec:       policy.PodDisruptionBudgetSpec{MinAvailable: &one, Selector: &meta.LabelSelector{MatchLabels: map[string]string{"app": "moved"}}},
	}, meta.CreateOptions{})
	c.must(err)
	v.API.Patience = 5 * time.Second
	kept := run("{maxPods: 50, topologyManagerPolicy: best-effort}", node.RolledBack)
	if kept.Step != node.Drained || !strings.Contains(kept.Error, "default/moved-") || !strings.Contains(kept.Error, "disruption budget") {
		t.Errorf("against a disruption budget: %+v", kept)
	}
	c.untouched(t, moved, movedPids)
	if got := c.configz(t, "topologyManagerPolicy"); got != `"none"` {
		t.Errorf("topologyManagerPolicy is %s", got)
	}
	c.must(budgets.Delete(t.Context(), "moved", meta.DeleteOptions{}))
	v.API.Patience = 2 * time.Minute

	// The managers. A pod of a Deployment is moved away, that of a DaemonSet stays.
	static := "{maxPods: 50, cpuManagerPolicy: static, cpuManagerReconcilePeriod: 5s, kubeReserved: {cpu: 500m}}"
	run(static, node.Done)
	if got := c.configz(t, "cpuManagerPolicy"); got != `"static"` {
		t.Errorf("cpuManagerPolicy is %s", got)
	}
	c.untouched(t, daemon, pids)
	c.Kubelet.Away(moved.UID, time.Minute)
	before := c.state(t)
	if !strings.Contains(before, `"policyName":"static"`) {
		t.Errorf("cpu_manager_state: %s", before)
	}
	pinned := c.pod(t, "pinned", func(p *core.Pod) {
		list := core.ResourceList{core.ResourceCPU: resource.MustParse("1"), core.ResourceMemory: resource.MustParse("64Mi")}
		p.Spec.Containers[0].Resources = core.ResourceRequirements{Requests: list, Limits: list}
	})
	own := ask(t, pinned.Status.PodIP+":8080").AllowedCPUs
	if strings.ContainsAny(own, ",-") || own == "" {
		t.Errorf("the pinned pod may run on %q", own)
	}
	pinnedPids := c.Kubelet.Processes(pinned.UID)

	// A pod that nothing makes again is in the way of a drain, and is left alone.
	r := run("{maxPods: 50, cpuManagerPolicy: none}", node.RolledBack)
	if r.Step != node.Drained || !strings.Contains(r.Error, "default/pinned: no controller would recreate these pods") {
		t.Errorf("a bare pod: %+v", r)
	}
	c.untouched(t, pinned, pinnedPids)

	// What only the kubelet itself finds: more is reserved than the machine has.
	v.API.Force = true
	bad := `{maxPods: 50, cpuManagerPolicy: static, kubeReserved: {cpu: 500m}, systemReserved: {memory: 900Ti}}`
	if problems := kubelet.Problems(settings(t, bad).Fields, nil, kubelet.On{}); len(problems) > 0 {
		t.Errorf("it is found before: %v", problems)
	}
	held := c.daemonState(t, daemon)
	r, err = v.Run(t.Context(), settings(t, bad))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", r)
	if r.Result != node.RolledBack || r.Step != node.Health || !strings.Contains(r.LastWords, "Node Allocatable") {
		t.Errorf("a kubelet that does not start: %+v", r)
	}
	if has := settings(t, static).Digest; r.Has != has {
		t.Errorf("the node has %q, want %q", r.Has, has)
	}
	if _, err := c.Client.CoreV1().Pods("default").Get(t.Context(), "pinned", meta.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the drain was forced: %v", err)
	}
	c.untouched(t, daemon, pids)
	if now := c.daemonState(t, daemon); now != held {
		t.Errorf("the DaemonSet's pod: %s, before %s", now, held)
	}

	// Back to what the node had.
	run("{}", node.Done)
	if got := c.configz(t, "maxPods") + c.configz(t, "cpuManagerPolicy"); got != `110"none"` {
		t.Errorf("back to its own: %s", got)
	}
	if left, _ := filepath.Glob(c.Kubelet.ConfigDir + "/*"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	c.untouched(t, daemon, pids)
}

func (c *Cluster) daemonState(t *testing.T, p *core.Pod) string {
	t.Helper()
	return ask(t, p.Status.PodIP+":8080").AllowedCPUs
}

// state is what the CPU manager keeps.
func (c *Cluster) state(t *testing.T) string {
	t.Helper()
	return c.kept(t, "cpu_manager_state")
}

// kept is a file of the kubelet's own.
func (c *Cluster) kept(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(c.Kubelet.Dir, name))
	if err != nil {
		t.Error(err)
	}
	return string(text)
}

// template is the workload with a label.
func template(name string) core.PodTemplateSpec {
	none := int64(1)
	return core.PodTemplateSpec{
		ObjectMeta: meta.ObjectMeta{Labels: map[string]string{"app": name}},
		Spec: core.PodSpec{
			TerminationGracePeriodSeconds: &none,
			Containers:                    []core.Container{{Name: "workload", Image: Workload, ImagePullPolicy: core.PullNever}},
		},
	}
}

// daemon makes a DaemonSet and waits for its pod.
func (c *Cluster) daemon(t *testing.T, name string) *core.Pod {
	t.Helper()
	_, err := c.Client.AppsV1().DaemonSets("default").Create(t.Context(), &apps.DaemonSet{
		ObjectMeta: meta.ObjectMeta{Name: name},
		Spec:       apps.DaemonSetSpec{Selector: &meta.LabelSelector{MatchLabels: map[string]string{"app": name}}, Template: template(name)},
	}, meta.CreateOptions{})
	c.must(err)
	return c.podOf(name)
}

// deployment makes a Deployment of one pod and waits for that.
func (c *Cluster) deployment(t *testing.T, name string) *core.Pod {
	t.Helper()
	_, err := c.Client.AppsV1().Deployments("default").Create(t.Context(), &apps.Deployment{
		ObjectMeta: meta.ObjectMeta{Name: name},
		Spec:       apps.DeploymentSpec{Selector: &meta.LabelSelector{MatchLabels: map[string]string{"app": name}}, Template: template(name)},
	}, meta.CreateOptions{})
	c.must(err)
	return c.podOf(name)
}

func (c *Cluster) podOf(name string) *core.Pod {
	var found *core.Pod
	c.Wait("the pod of "+name+" to be Running", 2*time.Minute, func(ctx context.Context) error {
		list, err := c.Client.CoreV1().Pods("default").List(ctx, meta.ListOptions{LabelSelector: "app=" + name})
		if err != nil {
			return err
		}
		for i := range list.Items {
			if found = &list.Items[i]; found.Status.Phase == core.PodRunning {
				return nil
			}
		}
		return fmt.Errorf("%d pods, none runs", len(list.Items))
	})
	return found
}
