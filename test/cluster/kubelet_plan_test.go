package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"fettle.dev/fettle/kube/deploy"
)

const planned = `
apiVersion: machineconfiguration.openshift.io/v1
kind: KubeletConfig
metadata: {name: managers}
spec:
  machineConfigPoolSelector: {matchLabels: {custom-kubelet: cpumanager-enabled}}
  kubeletConfig: {cpuManagerPolicy: static, cpuManagerReconcilePeriod: 5s, kubeReserved: {cpu: 500m}}
`

// TestKubeletPlan: an API server takes the definitions and the objects, and
// `kubectl fettle kubelet plan` says what a file would do to a real node, and changes
// nothing.
func TestKubeletPlan(t *testing.T) {
	if !Inside(t, Setup{Node: true, Nightly: true, Programs: []string{"./kube/cmd/kubectl-fettle"}}) {
		return
	}
	c := Start(t, Options{Node: "node1", Kwok: 3})
	c.daemon(t, "daemon")
	moved := c.deployment(t, "moved")
	for _, name := range []string{"kinds/fettle.dev_kubeletpools.yaml", "kinds/plain/machineconfiguration.openshift.io_kubeletconfigs.yaml"} {
		text, err := fs.ReadFile(deploy.FS, name)
		c.must(err)
		c.must(c.post(t.Context(), "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", string(text)))
	}
	const pools, configs = "/apis/fettle.dev/v1alpha1/kubeletpools", "/apis/machineconfiguration.openshift.io/v1/kubeletconfigs"
	c.Wait("the definitions to be served", time.Minute, func(ctx context.Context) error {
		for _, path := range []string{pools, configs} {
			if err := c.Client.CoreV1().RESTClient().Get().AbsPath(path).Do(ctx).Error(); err != nil {
				return err
			}
		}
		return nil
	})
	pool := func(name, most string) string {
		return fmt.Sprintf("apiVersion: fettle.dev/v1alpha1\nkind: KubeletPool\nmetadata: {name: %s, labels: {custom-kubelet: cpumanager-enabled}}\nspec: {nodeSelector: {matchLabels: {pool: real}}, maxUnavailable: %s}\n", name, most)
	}
	c.must(c.post(t.Context(), pools, pool("real", "10%")))
	for _, wrong := range []string{"200%", "-1", "many", "1.5"} {
		if err := c.post(t.Context(), pools, pool("wrong", wrong)); err == nil {
			t.Errorf("maxUnavailable %s is taken", wrong)
		}
	}
	c.must(c.post(t.Context(), configs, strings.NewReplacer("name: managers", "name: pods", "cpuManagerPolicy: static, cpuManagerReconcilePeriod: 5s, kubeReserved: {cpu: 500m}", "maxPods: 50").Replace(planned)))
	_, err := c.Client.CoreV1().Nodes().Patch(t.Context(), "node1", types.MergePatchType, []byte(`{"metadata":{"labels":{"pool":"real"}}}`), meta.PatchOptions{})
	c.must(err)

	file := filepath.Join(t.TempDir(), "managers.yaml")
	c.must(os.WriteFile(file, []byte(planned), 0o600))
	var p struct {
		Pools []struct {
			Name           string
			KubeletConfigs []string `json:"kubelet_configs"`
			Settings       map[string]any
			Refused        string
			Nodes          []struct {
				Name, Class, Problem string
				Order, Moves         int
				Now                  bool
			}
		}
	}
	out, err := exec.Command("kubectl-fettle", "--kubeconfig", c.Kubeconfig, "kubelet", "plan", file, "--output", "json").Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	c.must(json.Unmarshal(out, &p))
	if len(p.Pools) != 1 || len(p.Pools[0].Nodes) != 1 {
		t.Fatalf("%s", out)
	}
	n := p.Pools[0].Nodes[0]
	if n.Name != "node1" || n.Class != "drain and restart" || n.Order != 1 || !n.Now || n.Moves != 1 || n.Problem != "" {
		t.Errorf("%+v", n)
	}
	if got := strings.Join(p.Pools[0].KubeletConfigs, " "); got != "managers pods" && got != "pods managers" || p.Pools[0].Settings["maxPods"] != 50.0 {
		t.Errorf("%s", out)
	}
	out, err = exec.Command("kubectl-fettle", "--kubeconfig", c.Kubeconfig, "kubelet", "plan", file).Output()
	t.Logf("%v\n%s", err, out)

	// What would be refused is said, with exit code 4.
	c.must(os.WriteFile(file, []byte(strings.Replace(planned, ", kubeReserved: {cpu: 500m}", "", 1)), 0o600))
	out, err = exec.Command("kubectl-fettle", "--kubeconfig", c.Kubeconfig, "kubelet", "plan", file).Output()
	if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != 4 || !strings.Contains(string(out), "the static CPU manager needs reserved CPUs") {
		t.Errorf("%v\n%s", err, out)
	}
	if c.cordoned(t) || c.configz(t, "cpuManagerPolicy") != `"none"` {
		t.Error("the plan has changed the node")
	}
	c.untouched(t, moved, c.Kubelet.Processes(moved.UID))
}

// post makes an object of YAML.
func (c *Cluster) post(ctx context.Context, path, text string) error {
	return c.Client.CoreV1().RESTClient().Post().AbsPath(path).SetHeader("Content-Type", "application/yaml").Body([]byte(text)).Do(ctx).Error()
}
