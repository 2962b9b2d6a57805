package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"fettle.dev/fettle/kube/kubelet"
	"fettle.dev/fettle/kube/kubelet/node"
)

// TestUninstall: what becomes of the kubelet's settings when fettle goes. `kubectl fettle
// uninstall` has them given back first, and nothing is left. `kubectl delete -k` alone
// leaves them, says so, and leaves a note at the node; they are given back by a new
// installation, or on the node itself.
func TestUninstall(t *testing.T) {
	if !Inside(t, Setup{Node: true, Nightly: true, Programs: []string{"./kube/cmd/kubectl-fettle"}}) {
		return
	}
	d, r := startDeployed(t)
	t.Run("in order", func(t *testing.T) { d.T, r.T = t, t; d.inOrder(r) })
	t.Run("a new installation", func(t *testing.T) { d.T, r.T = t, t; d.install(); d.deletedAlone(r); d.installedAgain(r) })
	t.Run("on the node", func(t *testing.T) { d.T, r.T = t, t; d.deletedAlone(r); d.onTheNode() })
}

// set has the node's kubelet take other settings.
func (d *deployed) set(r *rolled, fields string) kubelet.NodeKubelet {
	d.Helper()
	r.config("settings", fields)
	if err := d.c.post(d.Context(), kubeletPools, realPool); err != nil && !apierrors.IsAlreadyExists(err) {
		d.Fatal(err)
	}
	return r.updated(fields, "")
}

// own checks that the kubelet has its own settings and nothing of fettle's.
func (d *deployed) own() {
	d.Helper()
	if got := d.c.configz(d.T, "maxPods") + d.c.configz(d.T, "cpuManagerPolicy"); got != `110"none"` {
		d.Errorf("the kubelet's settings are %s", got)
	}
	if left, _ := filepath.Glob(d.c.Kubelet.ConfigDir + "/*"); len(left) > 0 {
		d.Errorf("left: %v", left)
	}
	if mark := d.mark(); mark != "" || d.c.cordoned(d.T) {
		d.Errorf("the node is noted to have %q; cordoned: %v", mark, d.c.cordoned(d.T))
	}
}

// inOrder gives back what takes a drain, and deletes.
func (d *deployed) inOrder(r *rolled) {
	d.set(r, "{cpuManagerPolicy: static, kubeReserved: {cpu: 500m}, maxPods: 50}")
	// A pool is paused on purpose.
	d.kubectl("patch", "kubeletpool", "real", "--type=merge", "-p", `{"spec":{"paused":true}}`)
	out, code := d.fettle("uninstall", "--yes")
	if code != 4 || !strings.Contains(out, "pool real is paused; to resume: kubectl patch kubeletpool real") {
		d.Errorf("of a pool that is paused: exit code %d, %s", code, out)
	}
	if got := d.kubectl("get", "kubeletpool", "real", "-o=jsonpath={.spec.managementState}"); got != "" {
		d.Errorf("refused, and managementState is %s", got)
	}
	d.kubectl("patch", "kubeletpool", "real", "--type=merge", "-p", `{"spec":{"paused":false}}`)
	if out, code := d.fettle("uninstall"); code != 4 || !strings.Contains(out, "kubelet settings of 1 node") || !strings.Contains(out, "--yes") {
		d.Errorf("with nobody to ask: exit code %d, %s", code, out)
	}
	out, code = d.fettle("uninstall", "--yes", "--timeout=6m")
	d.Logf("exit code %d; %s", code, out)
	if code != 0 || !strings.Contains(out, "all nodes restored. Now delete the manifests: kubectl delete -k kube/deploy, or your overlay") {
		d.Fatal("it is not done")
	}
	d.own()
	if out, code := d.fettle("uninstall", "--yes", "--output=json"); code != 0 || !strings.Contains(out, `"state": "done"`) {
		d.Errorf("once more: exit code %d, %s", code, out)
	}
	agent := d.agent()
	if said := d.kubectl("delete", "-k", d.dir, "--timeout=3m"); strings.Contains(said, "Warning") {
		d.Errorf("nothing is left, and it warns: %s", said)
	}
	d.c.Kubelet.Away(agent.UID, time.Minute)
	d.own()
}

// deletedAlone deletes fettle while a node has settings of it.
func (d *deployed) deletedAlone(r *rolled) {
	d.Helper()
	has := d.set(r, "{maxPods: 50}").Status.Has
	agent := d.agent()
	said := d.kubectl("delete", "-k", d.dir, "--timeout=3m")
	var warnings []string
	for line := range strings.Lines(said) {
		if strings.HasPrefix(line, "Warning") {
			warnings = append(warnings, line)
		}
	}
	d.Logf("kubectl delete -k: %q", warnings)
	if text := strings.Join(warnings, ""); !strings.Contains(text, "node node1 keeps the kubelet settings "+has) || !strings.Contains(text, node.DropIn) || !strings.Contains(text, "kubectl fettle uninstall") {
		d.Errorf("it does not say what stays: %s", said)
	}
	d.c.Kubelet.Away(agent.UID, time.Minute)
	if got := d.c.configz(d.T, "maxPods"); got != "50" || d.mark() != has {
		d.Errorf("maxPods is %s; the node is noted to have %q, want %q", got, d.mark(), has)
	}
	d.c.must(d.c.Kubelet.Restart())
	d.c.Wait("the node to be Ready again", time.Minute, d.c.Kubelet.Ready)
	if got := d.c.configz(d.T, "maxPods"); got != "50" {
		d.Errorf("after the kubelet's next start maxPods is %s", got)
	}
}

// installedAgain: no pool selects the node any more.
func (d *deployed) installedAgain(r *rolled) {
	d.Helper()
	d.install()
	d.c.Wait("the node to have its own settings", 3*time.Minute, func(context.Context) error {
		var k kubelet.NodeKubelet
		err := r.get(nodeKubelets+"/node1", &k)
		if mark := d.mark(); mark != "" || err == nil {
			return &notYet{fmt.Sprintf("it is noted to have %q; %+v %+v", mark, k.Spec, k.Status), r.agentSays}
		}
		if !apierrors.IsNotFound(err) {
			return err
		}
		return nil
	})
	d.own()
}

// onTheNode: the program on the node gives the values back by itself, and the settings of
// the kubelet with a cluster.
func (d *deployed) onTheNode() {
	d.Helper()
	run := func(env ...string) (string, int) {
		c := exec.Command("kubectl-fettle", "agent", "--uninstall", "--node=node1", "--root=/")
		c.Env = append(os.Environ(), env...)
		return d.ended(c)
	}
	out, code := run("KUBECONFIG=", "HOME=/nonexistent")
	if code != 7 || !strings.Contains(out, node.DropIn) || !strings.Contains(out, "--kubeconfig") {
		d.Errorf("without a cluster: exit code %d, %s", code, out)
	}
	if got := d.c.configz(d.T, "maxPods"); got != "50" {
		d.Errorf("without a cluster maxPods is %s", got)
	}
	out, code = run()
	d.Logf("on the node: exit code %d, %s", code, out)
	if code != 0 || !strings.Contains(out, ": original settings restored") {
		d.Errorf("exit code %d, %s", code, out)
	}
	d.own()
	if _, err := os.Stat(node.DefaultStateDir); !errors.Is(err, os.ErrNotExist) {
		d.Errorf("the journal: %v", err)
	}
	if out, code := run(); code != 0 || strings.Contains(out, "kubelet") {
		d.Errorf("once more: exit code %d, %s", code, out)
	}
}

// fettle runs kubectl's plug-in, and returns both its outputs and its exit code.
func (d *deployed) fettle(args ...string) (string, int) {
	d.Helper()
	return d.ended(exec.Command("kubectl-fettle", args...))
}

func (d *deployed) ended(c *exec.Cmd) (string, int) {
	d.Helper()
	out, err := c.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		d.Fatalf("%v: %v", c.Args, err)
	}
	return string(out), c.ProcessState.ExitCode()
}
