package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// TestPinnedByGate: a kubelet with PodLevelResourceManagers (Kubernetes 1.36 and later) gives a
// pod with resources of its own CPUs by rules that are not known here: pod explain and pod
// verify answer unknown and name the gate, and neither calls it a failure.
func TestPinnedByGate(t *testing.T) {
	if !Inside(t, Setup{Node: true, Nightly: true, Programs: []string{"./kube/cmd/kubectl-fettle"}}) {
		return
	}
	const gate = "PodLevelResourceManagers: true"
	c := Start(t, Options{Node: "node1"})
	server, err := c.Client.Discovery().ServerVersion()
	c.must(err)
	if minor, err := strconv.Atoi(server.Minor); err != nil || minor < 36 {
		t.Skipf("Kubernetes %s.%s does not have the gate (%v)", server.Major, server.Minor, err)
	}
	c.Kubelet.DropIn("90-static", `{"cpuManagerPolicy": "static", "reservedSystemCPUs": "0", "topologyManagerPolicy": "single-numa-node", "featureGates": {"PodLevelResourceManagers": true}}`)
	c.must(c.Kubelet.Stop())
	c.must(os.Remove(filepath.Join(c.Kubelet.Dir, "cpu_manager_state")))
	c.must(c.Kubelet.Start())
	c.Wait("the node to be Ready with the gate", time.Minute, c.Kubelet.Ready)

	manifest := filepath.Join(t.TempDir(), "pod.yaml")
	c.must(os.WriteFile(manifest, []byte(`{apiVersion: v1, kind: Pod, metadata: {name: next}, spec: {resources: {limits: {cpu: 1, memory: 128Mi}}, containers: [{name: workload, image: any, resources: {limits: {cpu: 1, memory: 64Mi}}}]}}`), 0o644))
	var p prediction
	c.fettle(t, 3, &p, "pod", "explain", manifest, "--expect", "admitted")
	if p.Verdict.Outcome != "unknown" || !strings.Contains(p.Verdict.Message, gate) {
		t.Errorf("predicted: %+v", p.Verdict)
	}

	pod := c.pod(t, "whole", func(p *core.Pod) {
		all := core.ResourceList{core.ResourceCPU: resource.MustParse("1"), core.ResourceMemory: resource.MustParse("128Mi")}
		p.Spec.Resources = &core.ResourceRequirements{Requests: all, Limits: all}
		whole(p)
	})
	c.Wait("the pod to have CPUs", time.Minute, func(context.Context) error {
		if text := c.kept(t, "cpu_manager_state"); !strings.Contains(text, string(pod.UID)) {
			return fmt.Errorf("cpu_manager_state has nothing of it: %s", text)
		}
		return nil
	})
	var v verified
	c.fettle(t, 1, &v, "pod", "verify", pod.Name)
	named := false
	for _, x := range v.Checks {
		if x.Result == "fail" {
			t.Errorf("it fails by rules that the kubelet does not have: %+v", x)
		}
		named = named || x.Check == "feature gates" && x.Result == "unknown" && strings.Contains(x.Says, gate)
	}
	if v.Result != "unknown" || !named {
		t.Errorf("verified: %+v", v)
	}
}
