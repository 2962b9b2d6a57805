package cluster

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"fettle.dev/fettle/kube/kubelet"
)

// TestKubeletRival: the operator, with the rights of kube/deploy/, waits for the kinds; with
// MachineConfigPools, and with another controller's status, it tells no node anything
// and names the other one; --adopt takes over.
func TestKubeletRival(t *testing.T) {
	if !Inside(t, Setup{Nightly: true, Programs: []string{"./kube/cmd/kubectl-fettle"}}) {
		return
	}
	c := Start(t, Options{})
	n := &core.Node{ObjectMeta: metav1.ObjectMeta{Name: "node1", Labels: map[string]string{"pool": "real"}}}
	_, err := c.Client.CoreV1().Nodes().Create(t.Context(), n, metav1.CreateOptions{})
	c.must(err)
	operator := c.deployKubelets(t)
	r := &rolled{T: t, c: c}
	a := c.applier(t)
	a.apply("the kind MachineConfigPool", []byte(machineConfigPool))
	const theirs = "/apis/machineconfiguration.openshift.io/v1/machineconfigpools"
	c.Wait("a MachineConfigPool to be taken", time.Minute, func(ctx context.Context) error {
		return c.post(ctx, theirs, "{apiVersion: machineconfiguration.openshift.io/v1, kind: MachineConfigPool, metadata: {name: worker}, spec: {}}")
	})
	c.must(operator.Stop()) // who else is there is looked at now and then: at once where it starts
	c.must(operator.Start())
	r.config("limits", "{maxPods: 50}")
	c.must(c.post(t.Context(), kubeletPools, "{apiVersion: fettle.dev/v1alpha1, kind: KubeletPool, metadata: {name: real, labels: {kubelet: real}}, spec: {nodeSelector: {matchLabels: {pool: real}}}}"))
	says := func(reason, words string) {
		t.Helper()
		c.Wait("the pool to say "+reason, 2*time.Minute, func(context.Context) error {
			var p kubelet.KubeletPool
			if err := r.get(kubeletPools+"/real", &p); err != nil {
				return err
			}
			u := meta.FindStatusCondition(p.Status.Conditions, kubelet.Updating)
			if u == nil || u.Reason != reason || !strings.Contains(u.Message, words) {
				return fmt.Errorf("%+v\n%s", p.Status, operator.Log(5))
			}
			return nil
		})
	}
	told := func() int {
		t.Helper()
		var all kubelet.NodeKubeletList
		c.must(r.get(nodeKubelets, &all))
		return len(all.Items)
	}
	says("ReportOnly", "the Machine Config Operator (MachineConfigPool worker exists)")
	if told() != 0 {
		t.Error("nodes are told something")
	}
	var k kubelet.KubeletConfig
	c.must(r.get(kubeletConfigs+"/limits", &k))
	if len(k.Status.Conditions) > 0 {
		t.Errorf("their object has our status: %+v", k.Status)
	}

	// Without pools, a status of another controller says the same.
	client := c.Client.CoreV1().RESTClient()
	c.must(client.Delete().AbsPath(theirs, "worker").Do(t.Context()).Error())
	body := []byte(`{"status":{"conditions":[{"type":"Success","status":"True","lastTransitionTime":"2026-01-02T03:04:05Z"}]}}`)
	c.must(client.Patch(types.MergePatchType).AbsPath(kubeletConfigs, "limits", "status").Param("fieldManager", "machine-config-controller").Body(body).Do(t.Context()).Error())
	says("ReportOnly", "machine-config-controller, which applies KubeletConfig limits")
	c.must(operator.Stop())
	operator.argv = append(operator.argv, "--adopt")
	c.must(operator.Start())
	says("Waiting", "node1: its agent has not reported yet")
	if told() != 1 {
		t.Error("the node has no object")
	}
}
