package deploy_test

import (
	"fmt"
	"slices"
	"testing"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"
)

// read reads the only object of a file.
func read[T any](t *testing.T, file string) (o T) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(document(t, file)[0]), &o); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return o
}

// TestPods tests that both pods have probes and a memory limit, that the agent answers its probes
// where the kubelet asks, and that the disruption budget and the network policy are those of the
// operator's pods. test/cluster tests that the kubelet gets answers.
func TestPods(t *testing.T) {
	operator, agent := read[apps.Deployment](t, "operator/deployment.yaml"), read[apps.DaemonSet](t, "agent/daemonset.yaml")
	for _, pod := range []core.PodSpec{operator.Spec.Template.Spec, agent.Spec.Template.Spec} {
		for _, c := range pod.Containers {
			if c.LivenessProbe == nil || c.LivenessProbe.HTTPGet.Path != "/healthz" || c.ReadinessProbe == nil || c.ReadinessProbe.HTTPGet.Path != "/readyz" {
				t.Errorf("%s: probes %v, %v", c.Name, c.LivenessProbe, c.ReadinessProbe)
			}
			if c.Resources.Limits.Memory().IsZero() || c.Resources.Limits.Memory().Cmp(*c.Resources.Requests.Memory()) < 0 || !c.Resources.Limits.Cpu().IsZero() {
				t.Errorf("%s: resources %v", c.Name, c.Resources)
			}
		}
	}
	c := agent.Spec.Template.Spec.Containers[0]
	for _, p := range []*core.HTTPGetAction{c.LivenessProbe.HTTPGet, c.ReadinessProbe.HTTPGet} {
		if want := fmt.Sprintf("--health-address=%s:%d", p.Host, p.Port.IntValue()); p.Host != "127.0.0.1" || !slices.Contains(c.Args, want) {
			t.Errorf("the kubelet asks as if %s were in %v", want, c.Args)
		}
	}

	budget, network := read[policy.PodDisruptionBudget](t, "operator/disruption.yaml"), read[networking.NetworkPolicy](t, "operator/network.yaml")
	for kind, s := range map[string]*metav1.LabelSelector{"budget": budget.Spec.Selector, "policy": &network.Spec.PodSelector} {
		selector, err := metav1.LabelSelectorAsSelector(s)
		if err != nil || !selector.Matches(labels.Set(operator.Spec.Template.Labels)) || selector.Matches(labels.Set(agent.Spec.Template.Labels)) {
			t.Errorf("%s selects %v: %v", kind, selector, err)
		}
	}
	if n := budget.Spec.MaxUnavailable; n == nil || n.IntValue() != 1 || budget.Spec.MinAvailable != nil || *budget.Spec.UnhealthyPodEvictionPolicy != policy.AlwaysAllow {
		t.Errorf("a drain could wait for an operator forever: %+v", budget.Spec)
	}
	in := network.Spec.Ingress
	if !slices.Equal(network.Spec.PolicyTypes, []networking.PolicyType{networking.PolicyTypeIngress}) || len(in) != 1 || len(in[0].From) > 0 || len(in[0].Ports) != 1 ||
		int32(in[0].Ports[0].Port.IntValue()) != operator.Spec.Template.Spec.Containers[0].Ports[0].ContainerPort {
		t.Errorf("the policy allows %+v", network.Spec)
	}
}
