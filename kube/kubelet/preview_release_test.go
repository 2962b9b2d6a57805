package kubelet

import (
	"encoding/json"
	"strings"
	"testing"
)

// previewOf is a node whose kubelet has a version.
func previewOf(name, version, runs string) NodePreview {
	n := node(name, runs)
	n.Status.NodeInfo.KubeletVersion = version
	return n
}

// TestMixedReleases: each node of a pool is judged by the release of its own kubelet.
func TestMixedReleases(t *testing.T) {
	const option = "{cpuManagerPolicy: static, reservedSystemCPUs: '0', cpuManagerPolicyOptions: {strict-cpu-reservation: 'true'}}"
	p := Of(previewCluster(t, option, previewOf("n1", "v1.31.14", "{}"), previewOf("n2", "v1.32.13", "{}"), previewOf("n3", "v1.32.13", "{featureGates: {CPUManagerPolicyAlphaOptions: true}}"),
		previewOf("n4", "v1.36.3", "{featureGates: {CPUManagerPolicyBetaOptions: false}}"), previewOf("n5", "v1.34.4", "{featureGates: {CPUManagerPolicyBetaOptions: false}}")))
	for _, n := range p.Pools[0].Nodes {
		refused := map[string]string{"n1": "has no option", "n2": "CPUManagerPolicyAlphaOptions", "n5": "CPUManagerPolicyBetaOptions"}[n.Name]
		if (n.Problem != "") != (refused != "") || !strings.Contains(n.Problem, refused) {
			t.Errorf("%s: %q", n.Name, n.Problem)
		}
	}
}

// TestByRelease: values that fettle does not set are refused with what each release makes
// of them.
func TestByRelease(t *testing.T) {
	for _, c := range []struct {
		settings string
		nodes    []NodePreview
		refused  bool
		want     string // the releases, as JSON without the reasons
	}{
		{"{maxPods: 20}", []NodePreview{previewOf("n1", "v1.36.3", "{}")}, false, "[]"},
		{"{featureGates: {MemoryManager: true}}", []NodePreview{previewOf("n1", "v1.35.4", "{}"), previewOf("n2", "v1.36.3", "{}"), previewOf("n3", "v1.36.1", ""), previewOf("n4", "v1.36.3+0123abc", "{}")}, true,
			`[{"kubernetes":"1.36","nodes":["n2","n3"],"refused":["featureGates.MemoryManager"]}]`},
		{"{featureGates: {KubeletPSI: false}, newThing: 1}", []NodePreview{previewOf("n1", "v1.35.4", "{}"), previewOf("n2", "v1.37.2", "{}")}, true,
			`[{"kubernetes":"1.35","nodes":["n1"],"ignored":["newThing"]},{"kubernetes":"1.37","nodes":["n2"],"refused":["featureGates.KubeletPSI"],"ignored":["newThing"]}]`},
		{"{defaultPodSysctls: {net.core.somaxconn: '1'}}", []NodePreview{previewOf("n1", "v1.36.4", "{}"), previewOf("n2", "v1.37.2", "{}"), previewOf("n3", "v1.37.2", "{featureGates: {DefaultPodSysctls: true}}")}, true,
			`[{"kubernetes":"1.36","nodes":["n1"],"ignored":["defaultPodSysctls"]},{"kubernetes":"1.37","nodes":["n2"],"refused":["defaultPodSysctls"]}]`},
		{"{memoryThrottlingFactor: 0.8}", []NodePreview{previewOf("n1", "v1.36.4", "{}"), previewOf("n2", "v1.37.2", "{}"), previewOf("n3", "v1.37.2", "{featureGates: {MemoryQoS: false}}"), previewOf("n4", "v1.37.2", "{memoryThrottlingFactor: 0.9}")}, true,
			`[{"kubernetes":"1.37","nodes":["n2"],"changed":["memoryThrottlingFactor"]},{"kubernetes":"1.37","nodes":["n3"],"refused":["memoryThrottlingFactor"]}]`},
		// n3 runs with it, so that its control groups are of version 2.
		{"{failCgroupV1: true, singleProcessOOMKill: false}", []NodePreview{previewOf("n1", "v1.36.4", "{failCgroupV1: false}"), previewOf("n2", "v1.30.14", "{}"), previewOf("n3", "v1.36.4", "{failCgroupV1: true}")}, true,
			`[{"kubernetes":"1.30","nodes":["n2"],"ignored":["failCgroupV1","singleProcessOOMKill"]},{"kubernetes":"1.36","nodes":["n1"],"unknown":["failCgroupV1","singleProcessOOMKill"]}]`},
		{"{featureGates: {MemoryManager: true}}", []NodePreview{previewOf("n1", "v1.28.4", "{}"), previewOf("n2", "devel", "{}")}, true,
			`[{"nodes":["n2"],"unjudged":true},{"kubernetes":"1.28","nodes":["n1"],"unjudged":true}]`},
	} {
		pool := Of(previewCluster(t, c.settings, c.nodes...)).Pools[0]
		if (pool.Refused != "") != c.refused {
			t.Errorf("%s: refused %q", c.settings, pool.Refused)
		}
		type release struct {
			Kubernetes string   `json:"kubernetes,omitempty"`
			Nodes      []string `json:"nodes"`
			Refused    []string `json:"refused,omitempty"`
			Ignored    []string `json:"ignored,omitempty"`
			Changed    []string `json:"changed,omitempty"`
			Unknown    []string `json:"unknown,omitempty"`
			Unjudged   bool     `json:"unjudged,omitempty"`
		}
		got := []release{}
		for _, r := range pool.Releases {
			out := release{Kubernetes: r.Kubernetes, Nodes: r.Nodes, Unjudged: r.Unjudged != ""}
			for _, f := range r.Refused {
				out.Refused = append(out.Refused, f.Field)
			}
			for _, f := range r.Ignored {
				out.Ignored = append(out.Ignored, f.Field)
			}
			for _, f := range r.Changed {
				out.Changed = append(out.Changed, f.Field)
			}
			for _, f := range r.Unknown {
				out.Unknown = append(out.Unknown, f.Field)
			}
			got = append(got, out)
		}
		text, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		if string(text) != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.settings, text, c.want)
		}
	}
}
