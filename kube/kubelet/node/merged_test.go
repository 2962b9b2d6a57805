package node

import (
	"encoding/json"
	"testing"

	"fettle.dev/fettle/internal/kuberelease"
	"fettle.dev/fettle/kube/kubelet"
)

// TestMergedByRelease tests that the effect of null in a drop-in depends on the release.
// TestMergedAsKubelet in internal/product/kubelet compares the same with the kubelets' own code.
func TestMergedByRelease(t *testing.T) {
	c := &configuration{
		main:  kubelet.Fields{"maxPods": int64(250), "podsPerCore": int64(10), "kubeReserved": map[string]any{"cpu": "1", "memory": "1Gi"}},
		under: []kubelet.Fields{{"maxPods": nil, "kubeReserved": map[string]any{"cpu": nil}}},
		over:  []kubelet.Fields{{"podsPerCore": nil}},
	}
	ours := kubelet.Fields{"podsPerCore": int64(5)}
	for r, want := range map[kuberelease.Release]string{
		29: `{"kubeReserved":{"cpu":"1","memory":"1Gi"},"maxPods":250,"podsPerCore":10}`,
		31: `{"kubeReserved":{"cpu":"1","memory":"1Gi"},"maxPods":250,"podsPerCore":10}`,
		32: `{"kubeReserved":{"memory":"1Gi"}}`,
		37: `{"kubeReserved":{"memory":"1Gi"}}`,
		0:  `{"kubeReserved":{"memory":"1Gi"}}`,
	} {
		got, err := json.Marshal(c.merged(ours, r))
		if err != nil || string(got) != want {
			t.Errorf("%s: %s, %v; want %s", r, got, err, want)
		}
	}
}
