package cluster

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"fettle.dev/fettle/kube/deploy"
	"fettle.dev/fettle/kube/kubelet"
)

// TestMachineRollOut: one operator, which takes settings to a real kubelet and remedies
// machines next to it: while the kubelet changes, an ill machine is not remedied and its
// check names the pool; when that is done the machine is made anew. A roll-out that waits
// itself, for a node that is cordoned, holds nothing up.
func TestMachineRollOut(t *testing.T) {
	if !Inside(t, Setup{Node: true, Nightly: true, Programs: []string{"./kube/cmd/kubectl-fettle"}}) {
		return
	}
	b := newHealthBench(t, Options{Node: "node1"})
	c := b.c
	const plain = "kinds/plain/machineconfiguration.openshift.io_kubeletconfigs.yaml"
	text, err := deploy.FS.ReadFile(plain)
	c.must(err)
	a := c.applier(t)
	a.apply(plain, text)
	a.apply("the object default", []byte(unmanagedTuned))
	c.Wait("the definitions to be served", time.Minute, func(ctx context.Context) error {
		for _, path := range []string{kubeletPools, kubeletConfigs, nodeKubelets} {
			if err := c.Client.CoreV1().RESTClient().Get().AbsPath(path).Do(ctx).Error(); err != nil {
				return err
			}
		}
		return nil
	})
	r := &rolled{T: t, c: c, systemd: c.systemd(t)}
	kubeconfig := filepath.Join(c.Dir, "agent.kubeconfig")
	c.must(c.tokenKubeconfig(kubeconfig, c.agentToken(t, "node1")))
	r.agent = c.program(func() error { return nil }, "kubectl-fettle", "agent", "--node=node1", "--root=/", "--kubeconfig="+kubeconfig, "--interval=2s")
	r.agent.log = filepath.Join(c.Dir, "agent.log")
	r.startAgent()
	label := func(patch string) {
		t.Helper()
		_, err := c.Client.CoreV1().Nodes().Patch(t.Context(), "node1", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		c.must(err)
	}
	label(`{"metadata":{"labels":{"pool":"real"}}}`)
	b.makeSet("rolled", 3, nil)
	b.check("rolled", "rolled", "40%")
	b.start() // the one operator: on a busy machine it would lose a short lease
	b.says("rolled", "Remediating", "False", "NothingToDo", "", time.Minute)
	alive := func(name string) {
		t.Helper()
		for _, m := range b.machines("rolled") {
			if m.GetName() == name && m.GetDeletionTimestamp() == nil {
				return
			}
		}
		t.Errorf("machine %s was deleted while the kubelet's settings were rolled out", name)
	}

	// The kubelet stays away until the check has been seen to wait.
	going := make(chan struct{})
	r.systemd.on("stop:after", func() { <-going })
	t.Cleanup(func() { r.systemd.on("", nil) })
	r.config("limits", "{maxPods: 50}")
	c.must(c.post(t.Context(), kubeletPools, realPool))
	c.Wait("the kubelet to be stopped", 2*time.Minute, func(context.Context) error {
		if c.Kubelet.Running() {
			return fmt.Errorf("it runs")
		}
		return nil
	})
	old := b.ill("rolled", 1, time.Hour)
	const why = "a rollout of kubelet settings is in progress in pool real: 0 of 1 node have the settings, node1 is changing"
	b.says("rolled", "Remediating", "False", "Waiting", why, time.Minute)
	time.Sleep(5 * time.Second)
	alive(old[0])
	out := run(t, "kubectl-fettle", "health", "--kubeconfig="+c.Kubeconfig)
	if !strings.Contains(out, why) {
		t.Errorf("kubectl fettle health says:\n%s", out)
	}
	close(going)
	k := r.updated("while a machine is ill", "")
	began := time.Now()
	b.renewed("rolled", 3, old, 3*time.Minute)
	t.Logf("remedied %.1f s after the kubelet had its settings (%.1f s without a kubelet)", time.Since(began).Seconds(), float64(k.Status.DownMilliseconds)/1000)

	// A roll-out that cannot begin is no reason to wait.
	label(`{"spec":{"unschedulable":true}}`)
	r.config("limits", "{maxPods: 51}")
	r.until("the roll-out to wait", func(p kubelet.KubeletPool, k kubelet.NodeKubelet) bool {
		return p.Status.Digest != k.Status.Has && p.Status.Updated == 0 && !k.Changing() && len(p.Status.Changing) == 0
	})
	old = b.ill("rolled", 1, time.Hour)
	b.renewed("rolled", 3, old, 3*time.Minute)
	label(`{"spec":{"unschedulable":false}}`)
	r.updated("once the node takes pods again", k.Status.Has)
}
