package kubelet

import (
	"encoding/json"
	"strings"
	"testing"
)

// previewOf returns a node whose kubelet has a version.
func previewOf(name, version, runs string) NodePreview {
	n := node(name, runs)
	n.Status.NodeInfo.KubeletVersion = version
	return n
}

// TestMixedReleases tests that each node of a pool is judged by the release of its own kubelet. If
// one release lacks an option, the pool is refused, as the operator does.
func TestMixedReleases(t *testing.T) {
	const option = "{cpuManagerPolicy: static, reservedSystemCPUs: '0', cpuManagerPolicyOptions: {strict-cpu-reservation: 'true'}}"
	nodes := []NodePreview{previewOf("n2", "v1.32.13", "{}"), previewOf("n3", "v1.32.13", "{featureGates: {CPUManagerPolicyAlphaOptions: true}}"),
		previewOf("n4", "v1.36.3", "{featureGates: {CPUManagerPolicyBetaOptions: false}}"), previewOf("n5", "v1.34.4", "{featureGates: {CPUManagerPolicyBetaOptions: false}}")}
	p := Of(previewCluster(t, option, nodes...))
	if p.Pools[0].Refused != "" {
		t.Errorf("refused: %s", p.Pools[0].Refused)
	}
	for _, n := range p.Pools[0].Nodes {
		refused := map[string]string{"n2": "CPUManagerPolicyAlphaOptions", "n5": "CPUManagerPolicyBetaOptions"}[n.Name]
		if (n.Problem != "") != (refused != "") || !strings.Contains(n.Problem, refused) {
			t.Errorf("%s: %q", n.Name, n.Problem)
		}
	}
	p = Of(previewCluster(t, option, append(nodes, previewOf("n1", "v1.31.14", "{}"))...))
	if pool := p.Pools[0]; !strings.Contains(pool.Refused, `n1 (kubelet v1.31.14) would not start: cpuManagerPolicyOptions: Kubernetes 1.31 has no option "strict-cpu-reservation"`) || len(pool.Nodes) > 0 {
		t.Errorf("refused %q, %d nodes planned", pool.Refused, len(pool.Nodes))
	}
}

// TestRefusedBy tests that only settings that no node configuration could make valid are refused.
// Each entry without a reason starts on a node that enables the gates or reserves what is missing.
func TestRefusedBy(t *testing.T) {
	for _, c := range []struct{ version, settings, want string }{
		{"v1.31.14", "{maxPods: 250}", ""},
		{"v1.31.14", "{cpuManagerPolicy: static}", ""}, // the node may reserve CPUs
		{"v1.31.14", "{memoryManagerPolicy: Static}", ""},
		{"v1.31.14", "{cpuManagerPolicy: static, cpuManagerPolicyOptions: {strict-cpu-reservation: 'true'}}", `1.31 has no option "strict-cpu-reservation"`},
		{"v1.31.14+b49f9d1", "{cpuManagerPolicyOptions: {strict-cpu-reservation: 'true'}}", `1.31 has no option "strict-cpu-reservation"`}, // none takes no options
		{"v1.32.13", "{cpuManagerPolicy: static, cpuManagerPolicyOptions: {strict-cpu-reservation: 'true'}}", ""},                          // alpha: the node may open the gate
		{"v1.37.2", "{cpuManagerPolicyOptions: {strict-cpu-reservation: 'yes'}}", "want true or false"},
		{"v1.37.2", "{cpuManagerPolicyOptions: {full-pcpus-only: 'true', distribute-cpus-across-cores: 'true'}}", "exclude each other"},
		{"v1.37.2", "{cpuManagerPolicy: none, cpuManagerPolicyOptions: {full-pcpus-only: 'true'}}", "need cpuManagerPolicy static"},
		{"v1.37.2", "{cpuManagerPolicyOptions: {align-by-socket: 'true'}}", ""}, // the node's topologyManagerPolicy is not known
		{"v1.37.2", "{topologyManagerPolicy: single-numa-node, cpuManagerPolicyOptions: {align-by-socket: 'true'}}", "align-by-socket and topologyManagerPolicy single-numa-node exclude each other"},
		{"v1.30.14", "{topologyManagerPolicyOptions: {max-allowable-numa-nodes: '16'}}", ""}, // its own policy may be none, which reads none
		{"v1.30.14", "{topologyManagerPolicy: best-effort, topologyManagerPolicyOptions: {max-allowable-numa-nodes: '16'}}", "1.30 has no option"},
		{"v1.31.14", "{topologyManagerPolicy: best-effort, topologyManagerPolicyOptions: {max-allowable-numa-nodes: '16'}}", ""},
		{"v1.31.14", "{topologyManagerPolicy: best-effort, topologyManagerPolicyOptions: {max-allowable-numa-nodes: '4'}}", "want a whole number of at least 8"},
		{"v1.28.15", "{cpuManagerPolicyOptions: {full-pcpus-only: 'maybe'}}", ""}, // older than the rules
		{"", "{cpuManagerPolicyOptions: {full-pcpus-only: 'maybe'}}", ""},
	} {
		want, err := Parse([]byte(c.settings))
		if err == nil {
			err = Check("", want)
		}
		if err != nil {
			t.Fatalf("%s: %v", c.settings, err)
		}
		got := ""
		if err := RefusedBy(want, map[string][]string{c.version: {"n10", "n9", "n8", "n7"}}); err != nil {
			got = err.Error()
		}
		if (got != "") != (c.want != "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %s: %q, want %q", c.version, c.settings, got, c.want)
		}
		if got != "" && !strings.HasPrefix(got, "n7, n8, n9, 1 more (kubelet "+c.version+")") {
			t.Errorf("%s: the nodes are not named: %q", c.version, got)
		}
	}
}

// TestByRelease tests that values that fettle does not support are refused with their effect in
// each release.
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
