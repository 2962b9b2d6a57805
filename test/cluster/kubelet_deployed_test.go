package cluster

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fettle.dev/fettle/kube/deploy"
	"fettle.dev/fettle/kube/kubelet"
)

const realPool = "{apiVersion: fettle.dev/v1alpha1, kind: KubeletPool, metadata: {name: real, labels: {kubelet: real}}, spec: {nodeSelector: {matchLabels: {pool: real}}}}"

// TestKubeletDeployed: what `kubectl apply -k kube/deploy` brings changes the settings of the
// kubelet under which it runs itself: the agent's container outlives the kubelet that it
// starts again, and the operator's pod is drained from the only node and comes back. A
// change that does not hold is taken back; a container that is killed in the middle is
// started again by the kubelet, and goes on, also where there is no kubelet at that moment.
func TestKubeletDeployed(t *testing.T) {
	if !Inside(t, Setup{Node: true, Nightly: true, Programs: []string{"./kube/cmd/kubectl-fettle"}}) {
		return
	}
	d, r := startDeployed(t)
	daemon := d.c.daemon(t, "daemon")
	pids := d.c.Kubelet.Processes(daemon.UID)
	agent := d.agent()
	own := d.c.Kubelet.Processes(agent.UID)
	operator := d.pod("fettle-operator")

	// A change that takes a drain.
	began := metav1.NowMicro()
	r.config("managers", "{cpuManagerPolicy: static, kubeReserved: {cpu: 500m}}")
	d.c.must(d.c.post(t.Context(), kubeletPools, realPool))
	k := r.updated("none to static", "")
	if got := d.c.configz(t, "cpuManagerPolicy"); got != `"static"` || !strings.Contains(d.c.state(t), `"policyName":"static"`) {
		t.Errorf("cpuManagerPolicy is %s; %s", got, d.c.state(t))
	}
	if want := []string{"cpuManagerPolicy", "kubeReserved"}; !slices.Equal(k.Status.Settings, want) || k.Spec.Turn != 1 {
		t.Errorf("%+v %+v", k.Spec, k.Status)
	}
	lease, err := d.c.Client.CoordinationV1().Leases(core.NamespaceNodeLease).Get(t.Context(), "node1", metav1.GetOptions{})
	d.c.must(err)
	if lease.Spec.RenewTime.Before(&began) {
		t.Errorf("the lease is of %s, before the change (%s)", lease.Spec.RenewTime, began)
	}
	d.sameAgent(agent, own)
	d.c.untouched(t, daemon, pids)
	if mark := d.mark(); mark != k.Status.Has {
		t.Errorf("the node is noted to have %q, and has %q", mark, k.Status.Has)
	}
	d.rolledOut()
	if d.pod("fettle-operator").UID == operator.UID {
		t.Error("the operator's pod was not drained: this shows less than it is to show")
	}

	// One that the kubelet refuses.
	before, has := d.c.state(t), k.Status.Has
	r.config("bad", "{systemReserved: {memory: 900Ti}}")
	p, k := r.until("the change to fail", func(p kubelet.KubeletPool, k kubelet.NodeKubelet) bool {
		return degraded(p, "NodeFailed") != "" && !k.Changing()
	})
	t.Logf("%s; systemd was told %s", degraded(p, "NodeFailed"), r.systemd.orders())
	if k.Status.Phase != kubelet.ConditionFailed || k.Status.Has != has || !strings.Contains(degraded(p, "NodeFailed"), "Node Allocatable") {
		t.Errorf("%+v", k.Status)
	}
	if got := d.c.configz(t, "cpuManagerPolicy"); got != `"static"` || d.c.state(t) != before || d.c.cordoned(t) {
		t.Errorf("cpuManagerPolicy %s, cordoned %v, %s", got, d.c.cordoned(t), d.c.state(t))
	}
	d.sameAgent(agent, own)
	d.c.untouched(t, daemon, pids)
	r.config("bad", "")
	r.until("the pool to be well again", func(p kubelet.KubeletPool, k kubelet.NodeKubelet) bool {
		return p.Status.Digest == has && p.Status.Updated == 1 && degraded(p, "NodeFailed") == ""
	})

	for i, point := range []string{"stop:after", "start:after"} {
		var now kubelet.NodeKubelet
		d.c.must(r.get(nodeKubelets+"/node1", &now))
		kill := d.killer()
		r.systemd.orders()
		r.systemd.on(point, kill)
		r.config("limits", fmt.Sprintf("{maxPods: %d}", 60+i))
		d.restarted(point, i+1)
		r.systemd.on("", nil)
		r.updated("killed at "+point, now.Status.Has)
		if got := d.c.configz(t, "maxPods"); got != fmt.Sprint(60+i) {
			t.Errorf("%s: maxPods is %s", point, got)
		}
		d.c.untouched(t, daemon, pids)
	}
}

// startDeployed starts a cluster in which kube/deploy/ is applied without tuning anything, as
// its manual says, and a systemd that starts the node's kubelet.
func startDeployed(t *testing.T) (*deployed, *rolled) {
	t.Helper()
	c := Start(t, Options{Node: "node1"})
	d := &deployed{t, c, filepath.Join(c.Dir, "deploy")}
	r := &rolled{T: t, c: c, systemd: c.systemd(t)}
	t.Setenv("KUBECONFIG", c.Kubeconfig)
	c.Containerfile(agentImage, readDeployed(t), map[string]string{"bin/kubectl-fettle": filepath.Join(programDir, "kubectl-fettle")})
	c.must(os.CopyFS(d.dir, deploy.FS))
	d.install()
	d.kubectl("label", "node", "node1", "pool=real")
	return d, r
}

// install applies kube/deploy/ so that nothing is tuned.
func (d *deployed) install() {
	d.Helper()
	d.kubectl("apply", "-f", d.dir+"/kinds")
	d.kubectl("apply", "-f", d.dir+"/kinds/plain")
	d.kubectl("wait", "--for=condition=Established", "--timeout=1m", "crd", "--all")
	text, err := os.ReadFile(d.dir + "/default-tuned.yaml")
	d.c.must(err)
	file := filepath.Join(d.c.Dir, "unmanaged.yaml")
	d.c.must(os.WriteFile(file, []byte(strings.Replace(string(text), "managementState: Managed", "managementState: Unmanaged", 1)), 0o600))
	d.kubectl("apply", "-f", file)
	d.kubectl("apply", "-k", d.dir)
	d.kubectl("apply", "-k", d.dir+"/kubelet")
	d.rolledOut()
}

// pod is the Running pod of a name.
func (d *deployed) pod(name string) (pod core.Pod) {
	d.Helper()
	d.c.Wait("a pod of "+name, 2*time.Minute, func(ctx context.Context) error {
		pods, err := d.c.Client.CoreV1().Pods(operatorNamespace).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=" + name})
		if err != nil {
			return err
		}
		for _, p := range pods.Items {
			if p.DeletionTimestamp == nil && p.Status.Phase == core.PodRunning && len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].State.Running != nil {
				pod = p
				return nil
			}
		}
		return fmt.Errorf("of %d pods none runs", len(pods.Items))
	})
	return pod
}

func (d *deployed) agent() core.Pod { d.Helper(); return d.pod("fettle-agent") }

// sameAgent checks that the agent is the process that it was.
func (d *deployed) sameAgent(was core.Pod, pids []int) {
	d.Helper()
	now := d.agent()
	if now.UID != was.UID || now.Status.ContainerStatuses[0].RestartCount != 0 || !slices.Equal(d.c.Kubelet.Processes(was.UID), pids) {
		d.Errorf("the agent's pod %s, started again %d times, processes %v; it was %s %v", now.Name, now.Status.ContainerStatuses[0].RestartCount, d.c.Kubelet.Processes(was.UID), was.Name, pids)
	}
}

// killer kills the agent's container as it is now.
func (d *deployed) killer() func() {
	d.Helper()
	id := strings.TrimPrefix(d.agent().Status.ContainerStatuses[0].ContainerID, "containerd://")
	return func() {
		out, err := exec.Command("ctr", "--address", containerdSocket, "--namespace", "k8s.io", "tasks", "kill", "--signal", "SIGKILL", id).CombinedOutput()
		if err != nil {
			d.Errorf("ctr tasks kill %s: %v %s", id, err, out)
		}
	}
}

// restarted waits until the agent's container has been started again so many times.
func (d *deployed) restarted(point string, times int) {
	d.Helper()
	d.c.Wait("the agent to be killed at "+point+" and started again", 4*time.Minute, func(ctx context.Context) error {
		pods, err := d.c.Client.CoreV1().Pods(operatorNamespace).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=fettle-agent"})
		if err != nil {
			return err
		}
		for _, p := range pods.Items {
			if s := p.Status.ContainerStatuses; len(s) == 1 && s[0].RestartCount >= int32(times) && s[0].State.Running != nil {
				return nil
			}
		}
		return fmt.Errorf("it was not")
	})
}

// mark is what the node is noted to have of fettle's.
func (d *deployed) mark() string {
	d.Helper()
	n, err := d.c.Client.CoreV1().Nodes().Get(d.Context(), "node1", metav1.GetOptions{})
	d.c.must(err)
	return n.Annotations[kubelet.SettingsAnnotation]
}
