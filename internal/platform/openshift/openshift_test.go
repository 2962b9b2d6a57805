package openshift

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/platform"
	"fettle.dev/fettle/internal/rule"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/sizing"
	sized "fettle.dev/fettle/internal/sizing/openshift"
	"fettle.dev/fettle/internal/sizing/sizingtest"
	"fettle.dev/fettle/rules"
)

// directory makes a directory of documents.
func directory(t testing.TB, files map[string]string) *platform.Subject {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		p := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
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
	for input, want := range map[string]rule.Answer{
		"documents":                            {Value: 5.0, At: "/install-config.yaml"},
		"cluster_cidr":                         {Value: "10.128.0.0/14", At: "/install-config.yaml:11"},
		"host_prefix":                          {Value: 23.0, At: "/install-config.yaml:12"},
		"nodes_max":                            {Value: 512.0, At: "/install-config.yaml:12"},
		"addresses_per_node":                   {Value: 509.0, At: "/install-config.yaml:12"},
		"machine_addresses":                    {Value: 65534.0, At: "/install-config.yaml:14"},
		"overlaps":                             {Value: "", At: "/install-config.yaml:10"},
		"workers":                              {Value: 25.0, At: "/install-config.yaml:4"},
		"control_plane":                        {Value: 3.0, At: "/install-config.yaml:8"},
		"network_type":                         {Value: "OVNKubernetes", At: "/install-config.yaml:15"},
		"overlay_mtu":                          {Value: 8900.0, At: "/manifests/net.yml:3"},
		"monitoring.retention_days":            {Value: 2.0, At: "/mon.yaml:4"},
		"monitoring.prometheus_bytes":          {Value: 100. * (1 << 30), At: "/mon.yaml:4"},
		"kubelet.two.yml a.max_pods":           {Value: 500.0, At: "/two.yml:4"},
		"kubelet.two.yml a.pods_per_core":      {Unknown: "/two.yml:4: spec.kubeletConfig.podsPerCore is no number", At: "/two.yml:4"},
		"kubelet.two.yml a.cpu_manager":        {Value: "static", At: "/two.yml:4"},
		"kubelet.two.yml a.topology":           {},
		"health_check.two.yml b.role":          {Value: "worker", At: "/two.yml:9"},
		"health_check.two.yml b.api":           {Value: "machine.openshift.io/v1beta1", At: "/two.yml:6"},
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

// What cannot be read makes what is absent unknown; a directory without a document
// of a cluster is none.
func TestUnreadable(t *testing.T) {
	s := directory(t, map[string]string{"install-config.yaml": install, "broken.yaml": "a: [\n"})
	if a := s.Answer("openshift.overlay_mtu"); !strings.Contains(a.Unknown, "broken.yaml") {
		t.Errorf("%+v", a)
	}
	if _, why := s.Items(checks); !strings.Contains(why, "broken.yaml") {
		t.Error("a set that may be larger is known")
	}
	s = directory(t, map[string]string{"install-config.yaml": strings.Replace(install, "hostPrefix: 23", "hostPrefix: 9", 1)})
	if a := s.Answer("openshift.nodes_max"); !strings.Contains(a.Unknown, "between 14 and 32") {
		t.Errorf("%+v", a)
	}
	s = directory(t, map[string]string{"install-config.yaml": strings.Replace(install, "172.30.0.0/16", "here", 1)})
	if a := s.Answer("openshift.overlaps"); !strings.Contains(a.Unknown, "no network") {
		t.Errorf("%+v", a)
	}
	s = directory(t, map[string]string{"big.yaml": strings.Repeat("# x\n", maxBytes/4+1), "install-config.yaml": install})
	if a := s.Answer("openshift.overlay_mtu"); !strings.Contains(a.Unknown, "was not read") {
		t.Errorf("%+v", a)
	}
	s = directory(t, map[string]string{"values.yaml": "a: 1\n", "broken.yaml": "a: [\n"})
	if a := s.Answer("openshift.documents"); a != (rule.Answer{}) {
		t.Errorf("%+v", a)
	}
}

func catalogue(t testing.TB) *rule.Catalogue {
	t.Helper()
	text, err := rules.FS.ReadFile("openshift.yaml")
	if err != nil {
		t.Fatal(err)
	}
	inputs, sets := platform.Inputs([]platform.Source{Source()})
	// Rules that others share a platform with are not ours to judge.
	c, err := rule.Load(inputs, sets, []rule.File{{Name: "openshift.yaml", Text: text}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// judge is the findings that are neither passed nor not applicable, and the number
// of those that passed.
func judge(c *rule.Catalogue, s *platform.Subject) (bad map[string]rule.State, passed int) {
	bad = map[string]rule.State{}
	for _, f := range c.Check(s, []string{"openshift"}, nil) {
		switch f.State {
		case rule.Passed:
			passed++
		case rule.Failed, rule.Warned, rule.Unknown:
			bad[f.ID] = f.State
		}
	}
	return bad, passed
}

// breaks are values that size writes, and what says so when one is wrong.
var breaks = []struct{ file, old, new, rule string }{
	{"install-config.yaml", "- cidr: 10.128.0.0/", "- cidr: 172.16.0.0/", "O01"},
	{"install-config.yaml", "    - 172.30.0.0/16", "    - 10.0.4.0/24", "O01"},
	{"install-config.yaml", "cidr: 10.128.0.0/14", "cidr: 10.128.0.0/22", "O02"},
	{"install-config.yaml", "hostPrefix: 22", "hostPrefix: 24", "O03"},
	{"install-config.yaml", ": 10.0.0.0/16", ": 10.0.0.0/30", "O02.machines"},
	{"change-maxPods-cr.yaml", "maxPods: 400", "maxPods: 1100", "O03"},
	{"change-maxPods-cr.yaml", "maxPods: 400", "maxPods: 4000", "O25"},
	{"change-maxPods-cr.yaml", "maxPods: 400", "maxPods: 400\n    podsPerCore: 500", "O03.per-core"},
	{"change-maxPods-cr.yaml", "kubeAPIBurst: 200", "kubeAPIBurst: 20", "O05"},
	{"change-maxPods-cr.yaml", "cpuManagerPolicy: static", "cpuManagerPolicy: none", "O20"},
	{"healthcheck.yml", "maxUnhealthy: 40%", "maxUnhealthy: 100%", "O14"},
	{"healthcheck.yml", "  maxUnhealthy: 40%\n", "", "O14"},
	{"healthcheck.yml", "v1beta1", "v1beta", "O14.api"},
	{"healthcheck.yml", "machine-role: worker", "machine-role: master", "O14.control-plane"},
	{"cluster-monitoring-config.yml", "retention: 15d", "retention: 150d", "O21"},
	{"cluster-monitoring-config.yml", "storage: 88Gi", "storage: 8Gi", "O21"},
	{"cluster-monitoring-config.yml", "storage: 88Gi", "other: 88Gi", "O24"},
}

// What size writes is clean under check, for random clusters.
func TestSizedIsClean(t *testing.T) {
	f, c := sizingtest.Figures(t), catalogue(t)
	rnd := rand.New(rand.NewPCG(5, 6))
	clean := 0
	for range 60 {
		said := []string{"version", []string{"4.3", "4.4", "4.10", "4.16", "4.20"}[rnd.IntN(5)], "pods", strconv.Itoa(1 + rnd.IntN(30000)), "pods-per-node", strconv.Itoa(20 + rnd.IntN(2400)), "node-cores", strconv.Itoa(4 + rnd.IntN(60)), "retention", strconv.Itoa(1 + rnd.IntN(90))}
		if rnd.IntN(3) == 0 {
			said = append(said, "mtu", "9000", "kube-api-qps", strconv.Itoa(1+rnd.IntN(100)), "kube-api-burst", strconv.Itoa(101+rnd.IntN(100)))
		}
		if rnd.IntN(3) == 0 {
			said = append(said, "cpu-manager", "static", "topology", "restricted", "pods-per-core", strconv.Itoa(5+rnd.IntN(10)))
		}
		r, err := sizingtest.Ask(f, sized.New(), said...)
		if err != nil {
			if !sizingtest.BadInput(err) {
				t.Fatal(said, err)
			}
			continue
		}
		clean++
		bad, passed := judge(c, directory(t, files(r)))
		if len(bad) > 0 || passed < 7 {
			t.Errorf("fettle size openshift %v: %v, %d passed", said, bad, passed)
		}
	}
	if clean < 20 {
		t.Errorf("only %d clusters", clean)
	}
}

func files(r *sizing.Result) map[string]string {
	out := map[string]string{}
	for _, a := range r.Files {
		out[a.Name] = a.Content
	}
	return out
}

// For every value that it writes and a rule judges, a document with that one value
// broken is found.
func TestBrokenIsFound(t *testing.T) {
	f, c := sizingtest.Figures(t), catalogue(t)
	r, err := sizingtest.Ask(f, sized.New(), "version", "4.4", "nodes", "20", "pods", "700", "pods-per-node", "500", "kube-api-qps", "100", "kube-api-burst", "200", "cpu-manager", "static", "topology", "restricted")
	if err != nil {
		t.Fatal(err)
	}
	good := files(r)
	good["change-maxPods-cr.yaml"] = strings.Replace(good["change-maxPods-cr.yaml"], "maxPods: 500", "maxPods: 400", 1)
	if bad, _ := judge(c, directory(t, good)); len(bad) > 0 {
		t.Fatalf("as written: %v", bad)
	}
	seen := map[string]bool{}
	for _, b := range breaks {
		broken := map[string]string{}
		for name, text := range good {
			if name == b.file {
				if !strings.Contains(text, b.old) {
					t.Errorf("%s has no %q:\n%s", name, b.old, text)
				}
				text = strings.Replace(text, b.old, b.new, 1)
			}
			broken[name] = text
		}
		bad, _ := judge(c, directory(t, broken))
		if bad[b.rule] != rule.Failed && bad[b.rule] != rule.Warned {
			t.Errorf("%s with %q: %v, want %s", b.file, b.new, bad, b.rule)
		}
		seen[b.rule] = true
	}
	for _, r := range c.Rules() {
		if !r.Reminder && !seen[r.ID] {
			t.Errorf("%s is broken by nothing", r.ID)
		}
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
		got := &told{answers: map[string]rule.Answer{}, items: map[string][]string{}}
		for _, d := range docs {
			got.take(d)
		}
		for input, a := range got.answers {
			if _, ok := rule.Plain(a.Value); !ok {
				t.Error(fmt.Errorf("%s is %T", input, a.Value))
			}
		}
	})
}
