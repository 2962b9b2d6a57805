package cluster

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// otherKinds are those of controllers of another kind that remedy nodes.
var otherKinds = definition("remediation.medik8s.io", "v1alpha1", "NodeHealthCheck", "Cluster", anything) +
	definition("cluster.x-k8s.io", "v1beta1", "Machine", "Namespaced", anything) +
	definition("cluster.x-k8s.io", "v1beta1", "MachineHealthCheck", "Namespaced", anything)

// othersSeen is when controllers of another kind are known at the latest: the operator looks
// for them once a minute, and before it deletes a machine.
const othersSeen = 90 * time.Second

// make makes an object whose kind may be only just known, and gives back how it is taken
// away.
func (b *healthBench) make(o map[string]any) (drop func()) {
	b.t.Helper()
	u := &unstructured.Unstructured{Object: o}
	b.c.Wait(u.GetKind()+" "+u.GetName()+" to be made", time.Minute, func(ctx context.Context) error {
		in, err := b.objects.resource(u)
		if err == nil {
			_, err = in.Create(ctx, u, meta.CreateOptions{FieldValidation: meta.FieldValidationStrict})
		}
		return err
	})
	in, err := b.objects.resource(u)
	b.c.must(err)
	return func() {
		b.t.Helper()
		b.c.must(in.Delete(b.t.Context(), u.GetName(), meta.DeleteOptions{}))
	}
}

// others: a machine whose node a controller of another kind looks after is left alone,
// and that one is named, though its kind is younger than the operator; without it the
// machine is made anew.
func (b *healthBench) others() {
	b.t.Helper()
	b.makeSet("second", 3, nil)
	p := b.start("--lease=3s")
	old := b.ill("second", 1, time.Hour)
	node := old[0]
	_, err := b.c.Client.CoreV1().Nodes().Patch(b.t.Context(), node, types.MergePatchType, []byte(`{"metadata":{"labels":{"test":"others"}}}`), meta.PatchOptions{})
	b.c.must(err)
	b.objects.apply("the kinds of others", []byte(otherKinds))
	drop := b.make(map[string]any{
		"apiVersion": "remediation.medik8s.io/v1alpha1", "kind": "NodeHealthCheck", "metadata": map[string]any{"name": "workers"},
		"spec": map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"test": "others"}}},
	})
	b.check("second", "second", "40%")
	b.says("second", "Remediating", "False", "LeftAlone", "machine "+node+" not remediated: NodeHealthCheck workers handles its node "+node, time.Minute)

	ofClusterAPI := map[string]any{"name": "capi", "namespace": "default", "labels": map[string]any{"pool": "capi"}}
	dropMachine := b.make(map[string]any{
		"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Machine", "metadata": ofClusterAPI, "spec": map[string]any{"clusterName": "one"},
	})
	machines, err := b.objects.resource(&unstructured.Unstructured{Object: map[string]any{"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Machine", "metadata": ofClusterAPI}})
	b.c.must(err)
	status, err := json.Marshal(map[string]any{"status": map[string]any{"nodeRef": map[string]any{"name": node}}})
	b.c.must(err)
	_, err = machines.Patch(b.t.Context(), "capi", types.MergePatchType, status, meta.PatchOptions{}, "status")
	b.c.must(err)
	dropCheck := b.make(map[string]any{
		"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "MachineHealthCheck", "metadata": map[string]any{"name": "capi", "namespace": "default"},
		"spec": map[string]any{"clusterName": "one", "selector": map[string]any{"matchLabels": map[string]any{"pool": "capi"}}, "maxUnhealthy": "40%"},
	})
	drop()
	b.says("second", "Remediating", "False", "LeftAlone", "machine "+node+" not remediated: MachineHealthCheck capi of Cluster API handles its node "+node, othersSeen)
	out := run(b.t, "kubectl-fettle", "health", "--kubeconfig="+b.c.Kubeconfig)
	b.t.Logf("\n%s", out)
	for _, want := range []string{"MachineHealthCheck capi of Cluster API", "default/capi", "it remediates while at most 0 of 1 machine are unhealthy"} {
		if !strings.Contains(out, want) {
			b.t.Errorf("it does not say %q:\n%s", want, out)
		}
	}
	if m := b.machines("second"); m[0].GetName() != node || m[0].GetDeletionTimestamp() != nil {
		b.t.Errorf("machine %s was deleted", node)
	}

	dropCheck()
	dropMachine()
	b.renewed("second", 3, old, othersSeen+time.Minute)
	b.c.must(p.Stop())
	b.dropCheck("second")
	b.dropSet("second")
}
