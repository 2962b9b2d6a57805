package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"fettle.dev/fettle/kube/kubelet"
)

// TestKubeletRollout: objects in a real API server, the operator and the agent as
// programs with the rights of kube/deploy/, and a real kubelet under running pods: from CPU
// manager none to static; objects that are refused before, on the node, and by the
// kubelet itself; the agent killed at each step; a kubelet that reads no drop-ins; and
// back to what the node had. pod explain and pod verify see the policy that was rolled out,
// and the one that the node has back.
func TestKubeletRollout(t *testing.T) {
	if !Inside(t, Setup{Node: true, Nightly: true, Programs: []string{"./kube/cmd/kubectl-fettle"}}) {
		return
	}
	c := Start(t, Options{Node: "node1"})
	daemon := c.daemon(t, "daemon")
	pids := c.Kubelet.Processes(daemon.UID)
	moved := c.deployment(t, "moved")
	r := &rolled{T: t, c: c, systemd: c.systemd(t)}
	c.deployKubelets(t)
	kubeconfig := filepath.Join(c.Dir, "agent.kubeconfig")
	c.must(c.tokenKubeconfig(kubeconfig, c.agentToken(t, "node1")))
	r.agent = c.program(func() error { return nil }, "kubectl-fettle", "agent", "--node=node1", "--root=/", "--kubeconfig="+kubeconfig, "--interval=2s")
	r.agent.log = filepath.Join(c.Dir, "agent.log")
	r.startAgent()
	_, err := c.Client.CoreV1().Nodes().Patch(t.Context(), "node1", types.MergePatchType, []byte(`{"metadata":{"labels":{"pool":"real"}}}`), metav1.PatchOptions{})
	c.must(err)

	// From none to static.
	const static = "{cpuManagerPolicy: static, kubeReserved: {cpu: 500m}}"
	r.config("managers", static)
	c.must(c.post(t.Context(), kubeletPools, "{apiVersion: fettle.dev/v1alpha1, kind: KubeletPool, metadata: {name: real, labels: {kubelet: real}}, spec: {nodeSelector: {matchLabels: {pool: real}}}}"))
	k := r.updated("none to static", "")
	if got := c.configz(t, "cpuManagerPolicy"); got != `"static"` || !strings.Contains(c.state(t), `"policyName":"static"`) {
		t.Errorf("cpuManagerPolicy is %s; %s", got, c.state(t))
	}
	c.untouched(t, daemon, pids)
	c.Kubelet.Away(moved.UID, time.Minute)
	if want := []string{"cpuManagerPolicy", "kubeReserved"}; !slices.Equal(k.Status.Settings, want) || k.Spec.Turn != 1 {
		t.Errorf("%+v %+v", k.Spec, k.Status)
	}
	settled := k.Status.Has
	r.pinsBy("static")

	t.Run("refused", func(t *testing.T) { r.refused(t, settled) })
	t.Run("rolled back", func(t *testing.T) { r.rolledBack(t, settled) })
	c.untouched(t, daemon, pids)
	t.Run("killed", func(t *testing.T) { r.killed(t) })
	c.untouched(t, daemon, pids)
	t.Run("no drop-ins", func(t *testing.T) { r.noConfigDir(t) })
	r.T = t
	c.untouched(t, daemon, pids)

	// And back.
	c.must(c.Client.CoreV1().RESTClient().Delete().AbsPath(kubeletPools, "real").Do(t.Context()).Error())
	c.Wait("the node to have its own settings", 2*time.Minute, func(context.Context) error {
		var k kubelet.NodeKubelet
		if err := r.get(nodeKubelets+"/node1", &k); err == nil {
			return fmt.Errorf("%+v %+v", k.Spec, k.Status)
		}
		return nil
	})
	if got := c.configz(t, "maxPods") + c.configz(t, "cpuManagerPolicy"); got != `110"none"` {
		t.Errorf("back to its own: %s", got)
	}
	if left, _ := filepath.Glob(c.Kubelet.ConfigDir + "/*"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	r.pinsBy("none")
	c.untouched(t, daemon, pids)
	if c.cordoned(t) {
		t.Error("the node is cordoned")
	}
}

// pinsBy: pod explain and pod verify of a pod with a whole CPU say what the CPU manager's
// policy of this moment does with it, by the rules of the node's release.
func (r *rolled) pinsBy(policy string) {
	r.Helper()
	server, err := r.c.Client.Discovery().ServerVersion()
	r.c.must(err)
	var p prediction
	r.c.fettle(r.T, 0, &p, "pod", "explain", wholeManifest(r.T), "--node", r.c.Kubelet.Node, "--expect", "admitted")
	if p.Policies.CPUManager != policy || p.Kubernetes != server.Major+"."+server.Minor || len(p.Assumed) > 0 {
		r.Fatalf("under policy %s: %+v", policy, p)
	}
	pod := r.c.pod(r.T, "pinned-"+policy, whole)
	// A kubelet takes the CPU from the other containers when it reconciles.
	r.c.Wait("pod "+pod.Name+" to have what it was promised", time.Minute, func(context.Context) error {
		if out, code := r.c.run(r.T, "pod", "verify", pod.Name); code != 0 {
			return fmt.Errorf("exit code %d: %s", code, out)
		}
		return nil
	})
	var v verified
	r.c.fettle(r.T, 0, &v, "pod", "verify", pod.Name)
	if x := v.Containers[0]; v.Result != "pass" || x.Exclusive != (policy == "static") || x.Exclusive && x.CPUs != p.Courses[0].Containers[0].CPUs {
		r.Errorf("under policy %s %+v was predicted, and the pod has %+v", policy, p.Courses, v)
	}
	// Nothing would make it again: it would stand in the way of a drain.
	r.c.must(r.c.Client.CoreV1().Pods("default").Delete(r.Context(), pod.Name, metav1.DeleteOptions{}))
	r.c.Kubelet.Away(pod.UID, time.Minute)
	r.c.Wait("pod "+pod.Name+" to be gone, and its CPUs to be given back", time.Minute, func(ctx context.Context) error {
		if _, err := r.c.Client.CoreV1().Pods("default").Get(ctx, pod.Name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %v", err)
		}
		if state := r.c.state(r.T); strings.Contains(state, string(pod.UID)) {
			return errors.New(state)
		}
		return nil
	})
}

// refused: what may not be is said in the pool, and the node is left alone.
func (r *rolled) refused(t *testing.T, has string) {
	r.T = t
	r.systemd.orders()
	r.config("bad", "{cgroupDriver: systemd}")
	p, _ := r.until("the object to be refused", func(p kubelet.KubeletPool, _ kubelet.NodeKubelet) bool {
		return strings.Contains(degraded(p, "Refused"), "KubeletConfig bad: spec.kubeletConfig.cgroupDriver: cannot be set in a KubeletConfig")
	})
	var config kubelet.KubeletConfig
	// Its own status is written after the pool's.
	r.c.Wait("the object to say so itself", time.Minute, func(context.Context) error {
		r.c.must(r.get(kubeletConfigs+"/bad", &config))
		if s := config.Status.Conditions; len(s) != 2 || s[1].Type != kubelet.Failure || s[1].Status != metav1.ConditionTrue {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
	t.Logf("%s", degraded(p, "Refused"))

	// What only the node can see: more pods run than it would take.
	r.config("bad", "{maxPods: 1}")
	_, k := r.until("the node to refuse it", func(_ kubelet.KubeletPool, k kubelet.NodeKubelet) bool {
		return k.Status.Phase == kubelet.ConditionBlocked && !k.Changing()
	})
	if !strings.Contains(k.Status.Message, "pods run on the node, but the new limit is 1 ") || k.Status.Has != has {
		t.Errorf("%+v", k.Status)
	}
	p, _ = r.until("the pool to say so", func(p kubelet.KubeletPool, _ kubelet.NodeKubelet) bool {
		c := meta.FindStatusCondition(p.Status.Conditions, kubelet.Updating)
		return c != nil && c.Reason == "Waiting" && strings.Contains(c.Message, "but the new limit is 1 ")
	})
	if got := r.systemd.orders(); got != "[]" || r.c.cordoned(t) || p.Status.Unavailable != 0 {
		t.Errorf("systemd was told %s, cordoned %v, %+v", got, r.c.cordoned(t), p.Status)
	}
	r.config("bad", "")
	r.until("the pool to be as it was", func(p kubelet.KubeletPool, k kubelet.NodeKubelet) bool {
		return p.Status.Digest == has && p.Status.Updated == 1 && !k.Changing()
	})
}

// rolledBack: what the kubelet itself refuses is taken back, with its words; nothing
// goes on until the settings are others.
func (r *rolled) rolledBack(t *testing.T, has string) {
	r.T = t
	before := r.c.state(t)
	r.systemd.orders()
	r.config("bad", "{systemReserved: {memory: 900Ti}}")
	p, k := r.until("the change to fail", func(p kubelet.KubeletPool, k kubelet.NodeKubelet) bool {
		return degraded(p, "NodeFailed") != "" && !k.Changing()
	})
	t.Logf("%s; systemd was told %s", degraded(p, "NodeFailed"), r.systemd.orders())
	if k.Status.Phase != kubelet.ConditionFailed || k.Status.Has != has || !strings.Contains(k.Status.LastWords, "Node Allocatable") || !strings.Contains(degraded(p, "NodeFailed"), "Node Allocatable") || !strings.HasPrefix(degraded(p, "NodeFailed"), "node1: ") {
		t.Errorf("%+v", k.Status)
	}
	if got := r.c.configz(t, "cpuManagerPolicy"); got != `"static"` || r.c.state(t) != before || r.c.cordoned(t) {
		t.Errorf("cpuManagerPolicy %s, cordoned %v, %s", got, r.c.cordoned(t), r.c.state(t))
	}
	time.Sleep(4 * time.Second)
	if got := r.systemd.orders(); got != "[]" {
		t.Errorf("after the failure: %s", got)
	}

	// Killed while it takes it back, it has its former settings in the end anyway.
	starts := 0
	r.systemd.mu.Lock()
	r.systemd.at = func(point string) {
		if point == "start:before" {
			if starts++; starts == 2 {
				r.agent.Kill()
			}
		}
	}
	r.systemd.mu.Unlock()
	r.config("bad", "{systemReserved: {memory: 901Ti}}")
	r.c.Wait("the agent to be killed", 3*time.Minute, func(context.Context) error {
		if r.agent.Running() {
			return fmt.Errorf("it runs")
		}
		return nil
	})
	r.systemd.on("", nil)
	r.startAgent()
	_, k = r.until("the change to fail again", func(p kubelet.KubeletPool, k kubelet.NodeKubelet) bool {
		return degraded(p, "NodeFailed") != "" && k.Status.Tried == p.Status.Digest && !k.Changing()
	})
	if k.Status.Phase != kubelet.ConditionFailed || k.Status.Has != has || r.c.state(t) != before {
		t.Errorf("%+v", k.Status)
	}
	r.config("bad", "")
	r.until("the pool to be well again", func(p kubelet.KubeletPool, k kubelet.NodeKubelet) bool {
		return p.Status.Digest == has && p.Status.Updated == 1 && meta.IsStatusConditionFalse(p.Status.Conditions, kubelet.Degraded)
	})
}

// killed: kill -9 of the agent at each step. The one after it ends the change: the node
// has the new settings, and is not cordoned.
func (r *rolled) killed(t *testing.T) {
	r.T = t
	for i, point := range []string{"stop:before", "stop:after", "start:before", "start:after", "verify", "cordoned"} {
		var now kubelet.NodeKubelet
		r.c.must(r.get(nodeKubelets+"/node1", &now))
		fields := fmt.Sprintf("{maxPods: %d}", 60+i)
		if point == "cordoned" { // that takes a drain
			fields = "{maxPods: 60, topologyManagerPolicy: best-effort}"
		}
		switch point {
		case "verify":
			r.systemd.on("start:after", func() { time.AfterFunc(300*time.Millisecond, r.agent.Kill) })
		case "cordoned":
			go func() {
				_ = wait("the node to be cordoned", 2*time.Minute, func(ctx context.Context) error {
					n, err := r.c.Client.CoreV1().Nodes().Get(ctx, "node1", metav1.GetOptions{})
					if err == nil && !n.Spec.Unschedulable {
						err = fmt.Errorf("it is not")
					}
					return err
				})
				r.agent.Kill()
			}()
		default:
			r.systemd.on(point, r.agent.Kill)
		}
		r.config("limits", fields)
		r.c.Wait("the agent to be killed at "+point, 2*time.Minute, func(context.Context) error {
			if r.agent.Running() {
				return fmt.Errorf("it runs")
			}
			return nil
		})
		r.systemd.on("", nil)
		r.startAgent()
		k := r.updated("killed at "+point, now.Status.Has)
		if k.Status.Phase != kubelet.Settled {
			t.Errorf("%s: %+v", point, k.Status)
		}
		if got := r.c.configz(t, "maxPods"); point != "cordoned" && got != fmt.Sprint(60+i) {
			t.Errorf("%s: maxPods is %s", point, got)
		}
	}
}

// noConfigDir: that a kubelet reads no drop-ins is said, and what it needs; once it does,
// the node gets its turn again.
func (r *rolled) noConfigDir(t *testing.T) {
	r.T = t
	k := r.c.Kubelet
	with := k.argv
	has := r.updated("before", "").Status.Has
	// With what the drop-in says in the kubelet's own file, it runs as it did.
	r.c.must(k.Stop())
	k.argv = slices.DeleteFunc(slices.Clone(with), func(a string) bool { return strings.HasPrefix(a, "--config-dir") })
	state := r.c.state(t)
	r.c.must(os.Remove(filepath.Join(k.Dir, "cpu_manager_state"))) // it is of the policy static
	r.c.must(k.Start())
	r.config("limits", "{maxPods: 70}")
	p, said := r.until("the node to say that it reads no drop-ins", func(p kubelet.KubeletPool, k kubelet.NodeKubelet) bool {
		c := meta.FindStatusCondition(p.Status.Conditions, kubelet.Updating)
		return k.Status.Phase == kubelet.ConditionBlocked && !k.Changing() && c != nil && strings.Contains(c.Message, "the kubelet reads no drop-ins")
	})
	t.Logf("%s", said.Status.Message)
	if p.Status.Updated != 0 || said.Status.Has != has || r.c.cordoned(t) {
		t.Errorf("%+v %+v", p.Status, said.Status)
	}
	r.c.must(k.Stop())
	k.argv = with
	r.c.must(os.WriteFile(filepath.Join(k.Dir, "cpu_manager_state"), []byte(state), 0o600))
	r.c.must(k.Start())
	r.updated("with --config-dir", has)
	if got := r.c.configz(t, "maxPods"); got != "70" {
		t.Errorf("maxPods is %s", got)
	}
}
