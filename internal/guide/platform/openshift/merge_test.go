package openshift

import (
	"strings"
	"testing"

	"fettle.dev/fettle/internal/fact"
)

// "<<" is honoured as oc honours it, at its place; what oc would refuse makes what the
// file could have said unknown, with its line.
func TestMerged(t *testing.T) {
	const head = "apiVersion: machineconfiguration.openshift.io/v1\nkind: KubeletConfig\nmetadata:\n  name: a\n  annotations: &few {maxPods: 250, cpuManagerPolicy: static}\n"
	for name, c := range map[string]struct {
		spec           string
		pods, policy   fact.Answer
		unknownByPlace string
	}{
		"one map":          {spec: "    <<: *few\n", pods: fact.Answer{Value: 250.0, At: "/k.yaml:5"}, policy: fact.Answer{Value: "static", At: "/k.yaml:5"}},
		"over it":          {spec: "    <<: *few\n    maxPods: 500\n", pods: fact.Answer{Value: 500.0, At: "/k.yaml:9"}, policy: fact.Answer{Value: "static", At: "/k.yaml:5"}},
		"a list of maps":   {spec: "    <<: [{maxPods: 100}, *few]\n", pods: fact.Answer{Value: 100.0, At: "/k.yaml:8"}, policy: fact.Answer{Value: "static", At: "/k.yaml:5"}},
		"no map":           {spec: "    <<: [1, 2]\n    maxPods: 500\n", unknownByPlace: "/k.yaml:8: "},
		"a map of itself":  {spec: "    <<: &x {<<: *x}\n", unknownByPlace: "/k.yaml"},
		"a quoted key":     {spec: "    \"<<\": 1\n    maxPods: 500\n", pods: fact.Answer{Value: 500.0, At: "/k.yaml:9"}},
		"an alias, merged": {spec: "    maxPods: 500\n  more: *few\n", pods: fact.Answer{Value: 500.0, At: "/k.yaml:8"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := directory(t, map[string]string{"k.yaml": head + "spec:\n  kubeletConfig:\n" + c.spec})
			pods, policy := s.Answer("openshift.kubelet.k.yaml a.max_pods"), s.Answer("openshift.kubelet.k.yaml a.cpu_manager")
			if c.unknownByPlace != "" {
				if n := s.Answer("openshift.kubelet_configs"); !strings.Contains(n.Unknown, c.unknownByPlace) || pods.Value != nil {
					t.Errorf("%+v, %+v", n, pods)
				}
				return
			}
			if pods != c.pods || policy != c.policy {
				t.Errorf("pods %+v, policy %+v", pods, policy)
			}
		})
	}
}
