package openshift

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/guide/platform"
	"fettle.dev/fettle/internal/guide/rule"
	cluster "fettle.dev/fettle/internal/guide/sizing/openshift"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/testkit/sizing"
	"fettle.dev/fettle/internal/unit"
)

// directory makes a directory of documents.
func directory(t testing.TB, files map[string]string) *platform.Subject {
	t.Helper()
	root := machine.Dir(t)
	machine.Write(t, root, files)
	h, err := host.OpenRoot(root)
	if err != nil {
		t.Fatal(err)
	}
	return platform.NewSubject(context.Background(), h, setting.Kernel(h), []platform.Source{Source()})
}

const install = `# written by hand
apiVersion: v1
compute:
- name: worker
  replicas: 20
- name: other
  replicas: 5
controlPlane: {name: master, replicas: 3}
networking:
  clusterNetwork:
  - cidr: 10.128.0.0/14
    hostPrefix: 23
  machineNetwork:
  - cidr: 10.0.0.0/16
  networkType: OVNKubernetes
  serviceNetwork: [172.30.0.0/16]
`

func TestAnswers(t *testing.T) {
	s := directory(t, map[string]string{
		"install-config.yaml": install,
		"two.yml": `apiVersion: machineconfiguration.openshift.io/v1
kind: KubeletConfig
metadata: {name: a}
spec: {kubeletConfig: {maxPods: 500, podsPerCore: many, cpuManagerPolicy: static}}
---
apiVersion: machine.openshift.io/v1beta1
kind: MachineHealthCheck
metadata: {name: b}
spec: {maxUnhealthy: 2, selector: {matchLabels: {machine.openshift.io/cluster-api-machine-role: worker}}}
---
kind: Pod
`,
		"manifests/net.yml": "apiVersion: operator.openshift.io/v1\nkind: Network\nspec: {defaultNetwork: {ovnKubernetesConfig: {mtu: 8900}}}\n",
		"mon.yaml":          "kind: ConfigMap\nmetadata: {name: cluster-monitoring-config}\ndata:\n  config.yaml: |\n    prometheusK8s: {retention: 48h, volumeClaimTemplate: {spec: {resources: {requests: {storage: 100Gi}}}}}\n",
		"notes.txt":         "kind: KubeletConfig\n", "sub/kubelet.yaml": "kind: KubeletConfig\n",
	})
	for input, want := range map[string]fact.Answer{
		"documents":                            {Value: 5.0, At: "/install-config.yaml"},
		"cluster_cidr":                         {Value: "10.128.0.0/14", At: "/install-config.yaml:11"},
		"host_prefix":                          {Value: 23.0, At: "/install-config.yaml:12"},
		"nodes_max":                            {Value: 512.0, At: "/install-config.yaml:12"},
		"addresses_per_node":                   {Value: 509.0, At: "/install-config.yaml:12"},
		"machine_addresses":                    {Value: 65534.0, At: "/install-config.yaml:14"},
		"overlaps":                             {Value: "", At: "/install-config.yaml:11"},
		"workers":                              {Value: 25.0, At: "/install-config.yaml:4"},
		"control_plane":                        {Value: 3.0, At: "/install-config.yaml:8"},
		"network_type":                         {Value: "OVNKubernetes", At: "/install-config.yaml:15"},
		"overlay_mtu":                          {Value: 8900.0, At: "/manifests/net.yml:3"},
		"monitoring.retention_days":            {Value: 2.0, At: "/mon.yaml:5"},
		"monitoring.prometheus_bytes":          {Value: 100. * (1 << 30), At: "/mon.yaml:5"},
		"kubelet.two.yml a.max_pods":           {Value: 500.0, At: "/two.yml:4"},
		"kubelet.two.yml a.pods_per_core":      {Unknown: "/two.yml:4: spec.kubeletConfig.podsPerCore is not a number", At: "/two.yml:4"},
		"kubelet.two.yml a.cpu_manager":        {Value: "static", At: "/two.yml:4"},
		"kubelet.two.yml a.topology":           {},
		"health_check.two.yml b.role":          {Value: "worker", At: "/two.yml:9"},
		"document.two.yml b.api":               {Value: "machine.openshift.io/v1beta1", At: "/two.yml:6"},
		"kubelet_configs":                      {Value: 1.0},
		"health_check.two.yml b.max_unhealthy": {Value: "2", At: "/two.yml:9"},
	} {
		if got := s.Answer("openshift." + input); got != want {
			t.Errorf("%s: %+v, want %+v", input, got, want)
		}
	}
	if items, why := s.Items(kubelets); len(items) != 1 || why != "" {
		t.Errorf("kubelets %v %s", items, why)
	}
}

const nodeList = `apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Node
  metadata: {name: m0, labels: {node-role.kubernetes.io/master: ""}}
  status: {capacity: {cpu: "4", memory: 16163880Ki}, allocatable: {cpu: 3500m}}
- apiVersion: v1
  kind: Node
  metadata: {name: w0, labels: {node-role.kubernetes.io/worker: ""}}
  status: {capacity: {cpu: "8", memory: 32Gi}, allocatable: {cpu: "8"}}
- apiVersion: v1
  kind: Node
  metadata: {name: i0, labels: {node-role.kubernetes.io/worker: "", node-role.kubernetes.io/infra: ""}}
  status: {capacity: {cpu: "16", memory: some}}
`

// What oc has fetched of a cluster that runs: lists, and a must-gather below its
// two directories.
func TestGathered(t *testing.T) {
	const base = "must-gather.local.7/registry-example-com-sha256-1/"
	s := directory(t, map[string]string{
		"install-config.yaml": install,
		"nodes.yaml":          nodeList,
		"pods.json":           `{"kind": "PodList", "apiVersion": "v1", "items": [{"metadata": {"name": "a", "namespace": "x"}, "spec": {"nodeName": "w0"}}, {"metadata": {"name": "b", "namespace": "x"}, "spec": {"nodeName": "i0"}}, {"metadata": {"name": "c", "namespace": "y"}, "spec": {"nodeName": "w0"}}]}`,
		"secrets.yaml":        "kind: SecretList\nitems:\n- metadata: {name: a, namespace: x}\n",
		base + "cluster-scoped-resources/config.openshift.io/clusterversions/version.yaml":                "apiVersion: config.openshift.io/v1\nkind: ClusterVersion\nspec: {desiredUpdate: {version: 4.15.1}}\nstatus: {desired: {version: 4.14.9}}\n",
		base + "cluster-scoped-resources/config.openshift.io/networks.yaml":                               "apiVersion: config.openshift.io/v1\nkind: NetworkList\nitems:\n- spec:\n    networkType: OpenShiftSDN\n    clusterNetwork: [{cidr: 10.128.0.0/16, hostPrefix: 24}, {cidr: 10.140.0.0/16, hostPrefix: 24}]\n    serviceNetwork: [172.30.0.0/16]\n",
		base + "namespaces/kube-system/core/configmaps.yaml":                                              "apiVersion: v1\nkind: ConfigMapList\nitems:\n- metadata: {name: other}\n- metadata: {name: cluster-config-v1}\n  data:\n    install-config: |\n      baseDomain: example.com\n      networking: {machineNetwork: [{cidr: 192.168.7.0/28}]}\n",
		base + "namespaces/openshift-machine-api/machine.openshift.io/machinehealthchecks/w.yaml":         "apiVersion: machine.openshift.io/v1beta1\nkind: MachineHealthCheck\nmetadata: {name: w}\nspec: {maxUnhealthy: 40%, unhealthyConditions: [{type: Ready, status: Unknown, timeout: 300s}, {type: Ready, status: \"False\", timeout: 1h30m}]}\nstatus: {expectedMachines: 7}\n",
		base + "namespaces/openshift-cluster-node-tuning-operator/tuned.openshift.io/tuneds/x.yaml":       "apiVersion: tuned.openshift.io/v1\nkind: Tuned\nmetadata: {name: x}\nspec:\n  profile:\n  - name: p\n    data: |\n      [main]\n      include=openshift-node\n      [net]\n      type = script\n      [sysctl]\n      a=1\n  recommend:\n  - {priority: 20, profile: p, match: [{label: a, match: [{label: b, type: pod}]}]}\n  - {priority: 45, profile: q}\n",
		base + "namespaces/openshift-cluster-node-tuning-operator/tuned.openshift.io/tuneds/default.yaml": "apiVersion: tuned.openshift.io/v1\nkind: Tuned\nmetadata: {name: default}\nspec: {recommend: [{priority: 40, profile: openshift-node}]}\n",
		base + "namespaces/elsewhere/core/configmaps.yaml":                                                "kind: [\n",
	})
	const check = "health_check." + base + "namespaces/openshift-machine-api/machine.openshift.io/machinehealthchecks/w.yaml w."
	const tuned = "tuned." + base + "namespaces/openshift-cluster-node-tuning-operator/tuned.openshift.io/tuneds/x.yaml x."
	const at = "/" + base + "namespaces/"
	for input, want := range map[string]string{
		"version":       "4.14.9 /" + base + "cluster-scoped-resources/config.openshift.io/clusterversions/version.yaml:4",
		"network_type":  "OpenShiftSDN /" + base + "cluster-scoped-resources/config.openshift.io/networks.yaml:5",
		"network_types": "[OpenShiftSDN] /" + base + "cluster-scoped-resources/config.openshift.io/networks.yaml:5",
		"nodes_max":     "512 /" + base + "cluster-scoped-resources/config.openshift.io/networks.yaml:6", "addresses_per_node": "253 /" + base + "cluster-scoped-resources/config.openshift.io/networks.yaml:6",
		"machine_addresses": "14 " + at + "kube-system/core/configmaps.yaml:9", "overlaps": " /" + base + "cluster-scoped-resources/config.openshift.io/networks.yaml:6",
		"workers": "2 /nodes.yaml:4", "control_plane": "1 /nodes.yaml:4", "infra": "1 /nodes.yaml:4", "worker_cores": "16 /nodes.yaml:4",
		"node.nodes.yaml m0.role": "control-plane /nodes.yaml:6", "node.nodes.yaml m0.reserved_cores": "0.5 /nodes.yaml:7", "node.nodes.yaml m0.memory_bytes": "1.655181312e+10 /nodes.yaml:7",
		"node.nodes.yaml w0.reserved_cores": "0 /nodes.yaml:11", "node.nodes.yaml i0.role": "infra /nodes.yaml:14",
		"objects.pods.count": "3 /pods.json", "objects.pods_per_namespace.count": "2 /pods.json", "objects.pods_per_node.count": "2 /pods.json", "objects.nodes.count": "3 /nodes.yaml:4",
		check + "machines": "7 " + at + "openshift-machine-api/machine.openshift.io/machinehealthchecks/w.yaml:5", check + "shortest_s": "300 " + at + "openshift-machine-api/machine.openshift.io/machinehealthchecks/w.yaml:4",
		check + "longest_s": "5400 " + at + "openshift-machine-api/machine.openshift.io/machinehealthchecks/w.yaml:4", check + "conditions": "[Ready=Unknown Ready=False] " + at + "openshift-machine-api/machine.openshift.io/machinehealthchecks/w.yaml:4",
		tuned + "plugins": "[script sysctl] " + at + "openshift-cluster-node-tuning-operator/tuned.openshift.io/tuneds/x.yaml:6", tuned + "priority": "45 " + at + "openshift-cluster-node-tuning-operator/tuned.openshift.io/tuneds/x.yaml:15",
		tuned + "pod_labels": "true " + at + "openshift-cluster-node-tuning-operator/tuned.openshift.io/tuneds/x.yaml:15", tuned + "missing": "[q] " + at + "openshift-cluster-node-tuning-operator/tuned.openshift.io/tuneds/x.yaml:16",
	} {
		a := s.Answer("openshift." + input)
		if got := fmt.Sprint(a.Value, " ", a.At); a.Unknown != "" || got != want {
			t.Errorf("%s: %s %s, want %s", input, got, a.Unknown, want)
		}
	}
	if a := s.Answer("openshift.node.nodes.yaml i0.memory_bytes"); !strings.Contains(a.Unknown, "not a quantity") {
		t.Errorf("%+v", a)
	}
	if a := s.Answer("openshift.objects.secrets.count"); a != (fact.Answer{}) {
		t.Errorf("the secrets of one namespace are taken for all: %+v", a)
	}
	if items, why := s.Items(tuneds); len(items) != 1 || why != "" {
		t.Errorf("%v %s", items, why)
	}
	// The nodes alone; some of them, and what was to be installed.
	s = directory(t, map[string]string{"cluster-scoped-resources/core/nodes/w0.yaml": "kind: Node\napiVersion: v1\nmetadata: {name: w0}\n", "install-config.yaml": install})
	if a := s.Answer("openshift.workers"); a.Value != 25.0 {
		t.Errorf("%+v", a)
	}
	if a := s.Answer("openshift.infra"); a != (fact.Answer{}) {
		t.Errorf("%+v", a)
	}
}

// What openshift-install takes where it is not told.
func TestDefaults(t *testing.T) {
	s := directory(t, map[string]string{"install-config.yaml": "apiVersion: v1\nbaseDomain: example.com\n"})
	for input, want := range map[string]any{"workers": 3.0, "control_plane": 3.0, "nodes_max": 512.0, "addresses_per_node": 509.0, "machine_addresses": 65534.0, "overlaps": ""} {
		if a := s.Answer("openshift." + input); a.Value != want {
			t.Errorf("%s: %+v, want %v", input, a, want)
		}
	}
	// They are the table's.
	e := catalogue(t).Table("openshift-networks").Editions[0]
	for key, want := range map[string]string{"machine": defaultMachine, "service": defaultService, "OVNKubernetes join switch": joinSwitch, "OVNKubernetes transit switch": transitSwitch} {
		r, err := e.Row(key)
		if err != nil || r.Cells["cidr"] != want {
			t.Errorf("%s: %+v, want %s", key, r, want)
		}
	}
	if r, err := catalogue(t).Table("openshift-cluster-network").Editions[0].Row("default"); err != nil || r.Cells["cidr"] != defaultCluster {
		t.Errorf("%+v", r)
	}
}

func TestAmounts(t *testing.T) {
	for text, want := range map[string]float64{"15d": 1296000, "1h30m": 5400, "0": 0, "500ms": 0.5, "1y": 31536000, "1.5h": 5400} {
		if got, err := duration(text); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for text, want := range map[string]float64{"500m": 0.5, "16163880Ki": 16551813120, "20Gi": 20 << 30, "1e3": 1000, "4": 4, "1.5G": 1.5e9} {
		if got, err := unit.ParseQuantity(text); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "d", "15", "15 d", "-1d", "1d-", "0x1d", "99999999999d"} {
		if got, err := duration(text); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
	for _, text := range []string{"", "Gi", "100GB", "-1", "1 Gi", "NaN", "Inf", "0x10", "1e400"} {
		if got, err := unit.ParseQuantity(text); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
}

// What cannot be read makes what is absent unknown; a directory without a document
// of a cluster is not one.
func TestUnreadable(t *testing.T) {
	s := directory(t, map[string]string{"install-config.yaml": install, "broken.yaml": "a: [\n"})
	if a := s.Answer("openshift.overlay_mtu"); !strings.Contains(a.Unknown, "broken.yaml") {
		t.Errorf("%+v", a)
	}
	if _, why := s.Items(checks); !strings.Contains(why, "broken.yaml") {
		t.Error("a set that may be larger is known")
	}
	s = directory(t, map[string]string{"install-config.yaml": strings.Replace(install, "hostPrefix: 23", "hostPrefix: 9", 1)})
	if a := s.Answer("openshift.nodes_max"); !strings.Contains(a.Unknown, "from 14 to 32") {
		t.Errorf("%+v", a)
	}
	s = directory(t, map[string]string{"install-config.yaml": strings.Replace(install, "172.30.0.0/16", "here", 1)})
	if a := s.Answer("openshift.overlaps"); !strings.Contains(a.Unknown, "not a network") {
		t.Errorf("%+v", a)
	}
	s = directory(t, map[string]string{"big.yaml": strings.Repeat("# x\n", maxBytes/4+1), "install-config.yaml": install})
	if a := s.Answer("openshift.overlay_mtu"); !strings.HasPrefix(a.Unknown, "/big.yaml not read") {
		t.Errorf("%+v", a)
	}
	s = directory(t, map[string]string{"install-config.yaml": "a: [\n"})
	if a := s.Answer("openshift.documents"); !strings.Contains(a.Unknown, "install-config.yaml: line 1") {
		t.Errorf("%+v", a)
	}
	s = directory(t, map[string]string{"values.yaml": "a: 1\n", "broken.yaml": "a: [\n"})
	if a := s.Answer("openshift.documents"); a != (fact.Answer{}) {
		t.Errorf("%+v", a)
	}
}

// Whatever a document holds, it is read or named.
func FuzzDocument(f *testing.F) {
	f.Add(install)
	f.Add("a: &a [*a]\nkind: KubeletConfig\napiVersion: machineconfiguration.openshift.io/v1\nspec: *a\n")
	f.Add("kind: ConfigMap\nmetadata: {name: cluster-monitoring-config}\ndata: {config.yaml: \"prometheusK8s: {retention: 9y}\"}\n")
	f.Add("kind: MachineHealthCheck\nspec: {maxUnhealthy: []}\n---\n---\n- 1\n")
	f.Fuzz(func(t *testing.T, text string) {
		docs, err := parse("/f.yaml", text)
		if err != nil && !strings.HasPrefix(err.Error(), "/f.yaml: ") {
			t.Error(err)
		}
		got := newCollector()
		for _, d := range docs {
			if d.kind() != "" {
				got.take(d)
			}
		}
		got.finish()
		for _, in := range Source().Inputs {
			items := []string{""}
			if set := in.Of(); set != "" {
				items, _ = got.known.Items(set)
			}
			for _, item := range items {
				input := strings.Replace(in.Name, "*", item, 1)
				if a := got.known.Answer(input); a.Value != nil {
					if _, ok := fact.Plain(a.Value); !ok {
						t.Errorf("%s is %T", input, a.Value)
					}
				}
			}
		}
	})
}

// A policy of the topology manager of 4.4 is a finding without the FeatureGate that
// switches it on; another object of that kind does not.
func TestTopologyGate(t *testing.T) {
	c := catalogue(t)
	const gate = "apiVersion: config.openshift.io/v1\nkind: FeatureGate\nmetadata: {name: cluster}\nspec: {featureSet: LatencySensitive}\n"
	version := func(v string) string {
		return "apiVersion: config.openshift.io/v1\nkind: ClusterVersion\nmetadata: {name: version}\nstatus: {desired: {version: " + v + "}}\n"
	}
	const kubelet = "apiVersion: machineconfiguration.openshift.io/v1\nkind: KubeletConfig\nmetadata: {name: numa}\nspec: {kubeletConfig: {cpuManagerPolicy: static, topologyManagerPolicy: single-numa-node}}\n"
	for _, tt := range []struct {
		name  string
		files map[string]string
		want  rule.State
	}{
		{"no FeatureGate", map[string]string{"v.yaml": version("4.4.33")}, rule.Failed},
		{"the one", map[string]string{"v.yaml": version("4.4.33"), "g.yaml": gate}, rule.Passed},
		{"one of another name", map[string]string{"v.yaml": version("4.4.33"), "g.yaml": strings.Replace(gate, "cluster}", "latency}", 1)}, rule.Failed},
		{"one of another group", map[string]string{"v.yaml": version("4.4.33"), "g.yaml": strings.Replace(gate, "config.openshift.io", "example.com", 1)}, rule.Failed},
		{"the feature by itself", map[string]string{"v.yaml": version("4.4.33"), "g.yaml": strings.Replace(gate, "LatencySensitive}", "CustomNoUpgrade, customNoUpgrade: {enabled: [TopologyManager]}}", 1)}, rule.Passed},
		{"on by itself", map[string]string{"v.yaml": version("4.5.2")}, rule.NotApplicable},
	} {
		tt.files["kubelet.yaml"] = kubelet
		for _, f := range c.Check(context.Background(), directory(t, tt.files), []string{"openshift"}, nil) {
			if f.ID == "O20.gate" && f.State != tt.want {
				t.Errorf("%s: %s, want %s (%s)", tt.name, f.State, tt.want, f.Reason)
			}
		}
	}
}

// The volume of Prometheus is held against the pods too: of a list of them, or those
// that it was sized for.
func TestVolumeForPods(t *testing.T) {
	c := catalogue(t)
	r := sizing.Sized(t, sizing.Figures(t), cluster.New(), "pods", "2200")
	good := files(r)
	const name = "cluster-monitoring-config.yml"
	verdict := func(files map[string]string) rule.Finding {
		for _, f := range c.Check(context.Background(), directory(t, files), []string{"openshift"}, nil) {
			if f.ID == "O21" {
				return f
			}
		}
		return rule.Finding{}
	}
	if f := verdict(good); f.State != rule.Passed || !strings.Contains(good[name], "storage: 182Gi") {
		t.Errorf("%s %s\n%s", f.State, f.Reason, good[name])
	}
	with := func(text string) map[string]string {
		return map[string]string{name: text, "install-config.yaml": good["install-config.yaml"]}
	}
	for _, size := range []string{"89Gi", "181Gi"} {
		if f := verdict(with(strings.Replace(good[name], "182Gi", size, 1))); f.State != rule.Warned {
			t.Errorf("%s: %s %s", size, f.State, f.Reason)
		}
	}
	bare := regexp.MustCompile(`(?m)^ +(annotations:|fettle\.dev/.*)\n`).ReplaceAllString(good[name], "")
	small := with(strings.Replace(bare, "182Gi", "89Gi", 1))
	if f := verdict(small); f.State != rule.Passed {
		t.Errorf("of pods that nobody has counted: %s %s", f.State, f.Reason)
	}
	pods := "kind: PodList\napiVersion: v1\nitems:\n"
	for i := range 1900 {
		pods += fmt.Sprintf("- metadata: {name: p%d, namespace: n%d}\n", i, i%2)
	}
	small["pods.yaml"] = pods
	if f := verdict(small); f.State != rule.Warned {
		t.Errorf("with a list of 1900 pods: %s %s", f.State, f.Reason)
	}
	odd := with(strings.Replace(good[name], `fettle.dev/pods: "2200"`, "fettle.dev/pods: many", 1))
	if f := verdict(odd); f.State != rule.Unknown || !strings.Contains(f.Reason, `"many" is not a number of pods`) {
		t.Errorf("%s %s", f.State, f.Reason)
	}
}
