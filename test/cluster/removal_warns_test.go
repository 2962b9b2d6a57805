package cluster

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// TestRemovalWarns: kubectl warns whoever deletes a part of fettle without which a
// kubelet's settings are not given back, as long as one has some; it deletes anyway.
func TestRemovalWarns(t *testing.T) {
	if !Inside(t, Setup{}) {
		return
	}
	c := Start(t, Options{})
	c.applier(t).deploy(".")
	t.Setenv("KUBECONFIG", c.Kubeconfig)
	client := c.Client.CoreV1().RESTClient()
	for _, name := range []string{"node1", "node2"} {
		c.Wait("a NodeKubelet to be taken", time.Minute, func(ctx context.Context) error {
			return c.post(ctx, nodeKubelets, fmt.Sprintf("{apiVersion: fettle.dev/v1alpha1, kind: NodeKubelet, metadata: {name: %s}, spec: {pool: a}}", name))
		})
	}
	has := func(digest string) {
		t.Helper()
		c.must(client.Patch(types.MergePatchType).AbsPath(nodeKubelets, "node1", "status").Body(fmt.Appendf(nil, `{"status":{"phase":"Settled","has":%q}}`, digest)).Do(t.Context()).Error())
	}
	// Nothing is deleted: the API server is asked what it would say.
	try := func(what ...string) string {
		t.Helper()
		out, err := exec.Command("kubectl", append([]string{"delete", "--dry-run=server"}, what...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("kubectl delete %v: %v %s", what, err, out)
		}
		return string(out)
	}
	has("0123456789ab")
	for _, what := range [][]string{{"crd", "nodekubelets.fettle.dev"}, {"daemonset", "fettle-agent", "-n", operatorNamespace}, {"namespace", operatorNamespace}} {
		c.Wait("a warning of deleting "+what[0], time.Minute, func(context.Context) error { // a policy is known a moment after it was made
			said := try(what...)
			if !strings.Contains(said, "Warning: ") || !strings.Contains(said, "node node1 keeps the kubelet settings 0123456789ab (90-fettle.conf there): kubectl fettle uninstall") || strings.Contains(said, "node2") {
				return fmt.Errorf("it says: %s", said)
			}
			return nil
		})
	}
	// Who deletes something else, or where nothing is left, is not told anything.
	if said := try("crd", "kubeletpools.fettle.dev"); strings.Contains(said, "Warning") {
		t.Errorf("of the pools: %s", said)
	}
	has("")
	c.Wait("no warning", time.Minute, func(context.Context) error {
		if said := try("daemonset", "fettle-agent", "-n", operatorNamespace); strings.Contains(said, "Warning") {
			return fmt.Errorf("it says: %s", said)
		}
		return nil
	})
}
