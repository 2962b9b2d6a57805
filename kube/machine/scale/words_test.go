package scale

import (
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestOneOfIt tests singular and plural.
func TestOneOfIt(t *testing.T) {
	in := fleet("", 2)
	in.QPS = 1
	for i, name := range []string{"a", "b"} {
		p := core.Pod{ObjectMeta: meta.ObjectMeta{Namespace: "app", Name: name, Labels: map[string]string{"app": "web"}}}
		p.Spec.NodeName = in.Machines[i].Node()
		in.Pods = append(in.Pods, p)
	}
	b := policy.PodDisruptionBudget{ObjectMeta: meta.ObjectMeta{Namespace: "app", Name: "web"}, Spec: policy.PodDisruptionBudgetSpec{Selector: &meta.LabelSelector{MatchLabels: map[string]string{"app": "web"}}}}
	in.Budgets = []policy.PodDisruptionBudget{b}
	p := plan(t, in, 1)
	text := strings.Join(append(p.Notes, p.Blocked...), "\n")
	for _, want := range []string{"pods to evict: 1; at 1 request/s", "allows no disruption now, 1 of its pods has to move"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
	in.Budgets[0].Status.DisruptionsAllowed = 1
	if p = plan(t, in, 0); !strings.Contains(strings.Join(p.Notes, "\n"), "allows 1 disruption at once, 2 of its pods have to move") {
		t.Errorf("%q", p.Notes)
	}
}
