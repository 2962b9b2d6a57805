package cluster

import (
	"context"
	"fmt"
	"time"

	core "k8s.io/api/core/v1"
	rbac "k8s.io/api/rbac/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// pools: the kind MachineConfigPool appears while the operator runs; nodes of a pool get
// what a rule gives those with its machineConfigLabels.
func (b *operatorBench) pools(a *applier) {
	b.t.Helper()
	a.apply("the kind MachineConfigPool", []byte(machineConfigPool))
	pool := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool", "metadata": map[string]any{"name": "fast"},
		"spec": map[string]any{
			"nodeSelector":          map[string]any{"matchLabels": map[string]any{"zone": "a"}},
			"machineConfigSelector": map[string]any{"matchLabels": map[string]any{"role": "fast"}},
		},
	}}
	b.Wait("the kind to be served", time.Minute, func(ctx context.Context) error {
		in, err := a.resource(pool)
		if err == nil {
			_, err = in.Create(ctx, pool, meta.CreateOptions{})
		}
		return err
	})
	a.apply("a rule for a pool", []byte(`
apiVersion: tuned.openshift.io/v1
kind: Tuned
metadata: {name: pooled, namespace: openshift-cluster-node-tuning-operator}
spec:
  profile: [{name: pooled, data: "[vm]\n"}]
  recommend: [{profile: pooled, priority: 1, machineConfigLabels: {role: fast}}]
`))
	began := time.Now()
	b.Wait("the nodes of the pool to have its profile", 3*time.Minute, func(ctx context.Context) error {
		list, err := b.profiles().List(ctx, meta.ListOptions{})
		if err != nil {
			return err
		}
		for i := range list.Items {
			var n int
			p := &list.Items[i]
			if _, err := fmt.Sscanf(p.GetName(), "kwok-%d", &n); err != nil {
				return err
			}
			if inPool := labelsOf(n, b.round)["zone"] == "a"; inPool != (text(p, "spec", "config", "tunedProfile") == "pooled") {
				return fmt.Errorf("%s has %s", p.GetName(), text(p, "spec", "config", "tunedProfile"))
			}
		}
		return nil
	})
	b.t.Logf("a kind that was not there, and a pool of it: decided %.2f s later", time.Since(began).Seconds())
	if err := b.tuneds().Delete(b.t.Context(), "pooled", meta.DeleteOptions{}); err != nil {
		b.t.Fatal(err)
	}
	b.settled("a rule for a pool that is gone", time.Now())
}

// podLabels: a pod brings the profile of a rule that asks for its label to its node, and
// takes it along when it goes. The operator has to be told to look at pods.
func (b *operatorBench) podLabels(a *applier) {
	b.t.Helper()
	ctx := b.t.Context()
	a.apply("a rule for a label of pods", []byte(`
apiVersion: tuned.openshift.io/v1
kind: Tuned
metadata: {name: by-pod, namespace: openshift-cluster-node-tuning-operator}
spec:
  profile: [{name: by-pod, data: "[vm]\n"}]
  recommend: [{profile: by-pod, priority: 1, match: [{label: es, type: pod}]}]
`))
	on := nodeName(3)
	has := func(profile string) {
		b.t.Helper()
		b.Wait("node "+on+" to have "+profile, time.Minute, func(ctx context.Context) error {
			p, err := b.profiles().Get(ctx, on, meta.GetOptions{})
			if err == nil && text(p, "spec", "config", "tunedProfile") != profile {
				err = fmt.Errorf("it has %s", text(p, "spec", "config", "tunedProfile"))
			}
			return err
		})
	}
	none := int64(0)
	pods := b.Client.CoreV1().Pods("default")
	_, err := pods.Create(ctx, &core.Pod{
		ObjectMeta: meta.ObjectMeta{Name: "es", Labels: map[string]string{"es": "x"}},
		Spec: core.PodSpec{
			NodeName: on, Tolerations: []core.Toleration{KwokTolerates}, TerminationGracePeriodSeconds: &none,
			Containers: []core.Container{{Name: "es", Image: Workload}},
		},
	}, meta.CreateOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	has("by-pod")
	if err := pods.Delete(ctx, "es", meta.DeleteOptions{GracePeriodSeconds: &none}); err != nil {
		b.t.Fatal(err)
	}
	has(wanted(labelsOf(3, b.round)))
}

// mayReadPods binds the role that the operator's option --pod-labels needs.
func (b *operatorBench) mayReadPods() {
	b.t.Helper()
	_, err := b.Client.RbacV1().ClusterRoleBindings().Create(b.t.Context(), &rbac.ClusterRoleBinding{
		ObjectMeta: meta.ObjectMeta{Name: "fettle-operator-pod-labels"},
		RoleRef:    rbac.RoleRef{APIGroup: rbac.GroupName, Kind: "ClusterRole", Name: "fettle-operator-pod-labels"},
		Subjects:   []rbac.Subject{{Kind: rbac.ServiceAccountKind, Name: "fettle-operator", Namespace: tunedNamespace}},
	}, meta.CreateOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
}
