package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// operatorBench is a cluster with an operator that runs with the rights of kube/deploy/.
type operatorBench struct {
	t *testing.T
	*Cluster
	dynamic dynamic.Interface
	nodes   int
	round   int
	gone    map[string]bool
	// kubeconfig is that of the operator's account.
	kubeconfig string
}

// within is the time for something that takes so long at most with operatorNodes.
func (b *operatorBench) within(d time.Duration) time.Duration {
	return d * time.Duration(max(1, b.nodes/operatorNodes))
}

// newOperatorBench is a cluster with so many nodes of kwok, by the objects of kube/deploy/.
// labels are those of each node. start starts an operator in it.
func newOperatorBench(t *testing.T, nodes int, labels func(i int) map[string]string) (b *operatorBench, a *applier, start func(options ...string) *Program) {
	t.Helper()
	c := Start(t, Options{Kwok: nodes, KwokNode: func(i int, n *core.Node) {
		maps.Copy(n.Labels, labels(i))
		n.Spec.ProviderID = fmt.Sprintf("kwok://test/%d", i)
	}})
	a = c.applier(t)
	a.deploy(".")
	var names []string
	for i := range nodes {
		names = append(names, nodeName(i))
	}
	c.must(c.tellImages(names))
	b = &operatorBench{t: t, Cluster: c, dynamic: a.dynamic, nodes: nodes, gone: map[string]bool{}}
	var err error
	account := "system:serviceaccount:" + tunedNamespace + ":fettle-operator"
	b.kubeconfig, err = c.KubeconfigOf(account, "system:serviceaccounts", "system:serviceaccounts:"+tunedNamespace, "system:authenticated")
	c.must(err)
	return b, a, func(options ...string) *Program {
		t.Helper()
		p := c.program(b.ready, append([]string{
			"kubectl-fettle", "operator", "--kubeconfig=" + b.kubeconfig,
			"--metrics-address=" + operatorMetrics, "--metrics-open", "--health-address=" + operatorHealth,
		}, options...)...)
		p.log = strings.TrimSuffix(p.log, ".log") + fmt.Sprintf("-%d.log", len(c.programs))
		c.must(p.Start())
		return p
	}
}

// tellImages lets each node tell of as many images as a kubelet does. Not when they are
// made: whoever waits for them to be Ready would read all that again and again.
func (c *Cluster) tellImages(nodes []string) error {
	var images []core.ContainerImage
	for j := range 50 {
		images = append(images, core.ContainerImage{
			Names:     []string{fmt.Sprintf("registry.example.com/some/team/some-image-%d@sha256:%064d", j, j), fmt.Sprintf("registry.example.com/some/team/some-image-%d:v1.2.%d", j, j)},
			SizeBytes: 1 << 28,
		})
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"images": images}})
	if err != nil {
		return err
	}
	for _, name := range nodes {
		if _, err := c.Client.CoreV1().Nodes().Patch(context.Background(), name, types.MergePatchType, patch, meta.PatchOptions{}, "status"); err != nil {
			return err
		}
	}
	return nil
}
