package audit

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"fettle.dev/fettle/internal/guide/platform"
	"fettle.dev/fettle/internal/guide/platform/openshift"
	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/kuberelease"
	"fettle.dev/fettle/kube/etcd"
	"fettle.dev/fettle/kube/machine"
	"fettle.dev/fettle/rules"
)

type ours struct{ all, tables *rule.Catalogue }

var load = sync.OnceValues(func() (ours, error) {
	files, err := rule.Embedded(rules.FS)
	if err != nil {
		return ours{}, err
	}
	tables, err := rule.Tables(files)
	if err != nil {
		return ours{}, err
	}
	inputs, sets := platform.Inputs(slices.Concat(platform.Facts(), Sources()))
	all, err := rule.Load(inputs, sets, rule.Only(files, rule.Needed{Platforms: AllPlatforms}))
	return ours{all, tables}, err
})

func catalogue(t testing.TB) (all *rule.Catalogue, tables Tables) {
	t.Helper()
	c, err := load()
	if err != nil {
		t.Fatal(err)
	}
	return c.all, c.tables
}

// judged returns the findings of the rules for a cluster, by "ID instance".
func judged(t *testing.T, c *Cluster, disabled map[string]string) map[string]rule.Finding {
	t.Helper()
	all, tables := catalogue(t)
	if c.Now.IsZero() {
		c.Now = time.Unix(2e9, 0)
	}
	findings, err := c.Findings(t.Context(), all, tables, disabled)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]rule.Finding{}
	for _, f := range findings {
		out[strings.TrimSpace(f.ID+" "+f.Instance)] = f
	}
	return out
}

// want checks states: "ID instance", state.
func want(t *testing.T, got map[string]rule.Finding, states map[string]rule.State) {
	t.Helper()
	for id, state := range states {
		f, ok := got[id]
		if !ok || f.State != state {
			t.Errorf("%s is %s (%v, %s), want %s", id, f.State, f.Measured, f.Reason, state)
		}
	}
}

// TestKubelets tests that the rules for a node's kubelet use the running configuration of each
// kubelet.
func TestKubelets(t *testing.T) {
	config := func(text string) []byte {
		return []byte(`{"kind":"KubeletConfiguration","apiVersion":"kubelet.config.k8s.io/v1beta1",` + text + `}`)
	}
	c := &Cluster{Nodes: []Node{
		{Name: "a", Kubelet: "v1.34.4", Config: config(`"maxPods":250,"kubeAPIQPS":50,"cpuManagerPolicy":"none","topologyManagerPolicy":"none","systemReserved":{"cpu":"500m"}`)},
		{Name: "b", Kubelet: "v1.34.4", Config: config(`"maxPods":3000,"kubeAPIQPS":5,"cpuManagerPolicy":"static","topologyManagerPolicy":"single-numa-node","kubeReserved":{"memory":"1Gi"}`)},
		{Name: "c", Kubelet: "v1.34.4", Unread: "it does not answer"},
		{Name: "d", Kubelet: "v0.0.0-master+$Format:%H$", Config: config(`"maxPods":250`)},
		{Name: "e", Config: []byte(`{"kind":"Other"}`)},
	}}
	got := judged(t, c, nil)
	want(t, got, map[string]rule.State{
		"O61 a": rule.Passed, "O63 a": rule.NotApplicable, "O64 a": rule.NotApplicable, "O65 a": rule.Passed, "O08.node a": rule.Passed,
		"O61 b": rule.Warned, "O63 b": rule.Failed, "O64 b": rule.Passed, "O65 b": rule.Warned, "O61 c": rule.Unknown, "O65 c": rule.Unknown, "O65 e": rule.Unknown,
	})
	if f := got["O61 d"]; f.State == "" {
		t.Error("a version that is none stops the rules")
	}
}

// TestOpenShift tests that the rules for OpenShift's documents are also evaluated for the objects
// of a cluster.
func TestOpenShift(t *testing.T) {
	object := func(kind, name, text string) openshift.Object {
		return openshift.Object{Kind: kind, Name: name, Text: []byte(text), Listed: true}
	}
	c := &Cluster{
		OpenShift: "4.17.3",
		Counts:    []Count{{What: "nodes", N: 3000}, {What: "routes", N: 20}, {What: "pods", N: 1000}},
		Objects: []openshift.Object{
			object("ClusterVersion", "version", `{"apiVersion":"config.openshift.io/v1","kind":"ClusterVersion","metadata":{"name":"version"},"status":{"desired":{"version":"4.17.3"}}}`),
			object("Network", "cluster", `{"apiVersion":"config.openshift.io/v1","kind":"Network","metadata":{"name":"cluster"},"spec":{"clusterNetwork":[{"cidr":"10.128.0.0/14","hostPrefix":23}],"serviceNetwork":["172.30.0.0/16"],"networkType":"OpenShiftSDN"}}`),
			object("KubeletConfig", "many", `{"apiVersion":"machineconfiguration.openshift.io/v1","kind":"KubeletConfig","metadata":{"name":"many"},"spec":{"kubeletConfig":{"maxPods":600}},"status":{"conditions":[{"type":"Success","status":"True"}]}}`),
			object("MachineHealthCheck", "workers", `{"apiVersion":"machine.openshift.io/v1beta1","kind":"MachineHealthCheck","metadata":{"name":"workers"},"spec":{"selector":{},"unhealthyConditions":[{"type":"Ready","status":"False","timeout":"300s"}]}}`),
		},
	}
	got := judged(t, c, nil)
	want(t, got, map[string]rule.State{
		"O01": rule.Passed, "O01.plug-in": rule.Failed, "O03 KubeletConfig many": rule.Failed, "O04.keys KubeletConfig many": rule.Passed,
		"O25.objects nodes": rule.Warned, "O25.objects routes": rule.Passed, "O14 MachineHealthCheck workers": rule.Failed, "O14.conditions MachineHealthCheck workers": rule.Warned,
		"O66.objects nodes": rule.NotApplicable,
	})
	if f := got["O03 KubeletConfig many"]; len(f.At) == 0 || !slices.Contains(f.At, "Network cluster") {
		t.Errorf("%v", f.At)
	}
}

func TestMachines(t *testing.T) {
	three, zero := int32(3), int32(0)
	labels := func(role string) map[string]string { return map[string]string{machine.RoleLabel: role} }
	set := func(name, role string, n *int32, ready int32) machine.Set {
		s := machine.Set{ObjectMeta: meta.ObjectMeta{Name: name, Namespace: "n"}, Spec: machine.SetSpec{Replicas: n}, Status: machine.SetStatus{ReadyReplicas: ready}}
		s.Spec.Template.Labels = labels(role)
		return s
	}
	check := func(name, role, most string) machine.HealthCheck {
		limit := intstr.Parse(most)
		return machine.HealthCheck{ObjectMeta: meta.ObjectMeta{Name: name, Namespace: "n"}, Spec: machine.HealthCheckSpec{
			Selector: meta.LabelSelector{MatchLabels: labels(role)}, MaxUnhealthy: &limit,
			UnhealthyConditions: []machine.UnhealthyCondition{{Type: core.NodeReady, Status: core.ConditionFalse, Timeout: meta.Duration{Duration: time.Minute}}},
		}}
	}
	failed := machine.PhaseFailed
	var machines []machine.Machine
	for i := range 3 {
		machines = append(machines, machine.Machine{ObjectMeta: meta.ObjectMeta{Name: fmt.Sprint("m", i), Namespace: "n", Labels: labels("worker")}, Status: machine.Status{Phase: &failed}})
	}
	c := &Cluster{
		MachineSets: []machine.Set{set("a", "worker", &three, 0), set("b", "infra", &zero, 0), set("c", "gpu", nil, 1)},
		Machines:    machines, Checks: []machine.HealthCheck{check("workers", "worker", "40%"), check("gpu", "gpu", "2"), check("gpu-too", "gpu", "2")},
	}
	c.Checks[1].Annotations = map[string]string{machine.PausedAnnotation: ""}
	got := judged(t, c, nil)
	want(t, got, map[string]rule.State{
		"O11.ready a": rule.Warned, "O11.ready b": rule.Passed, "O11.ready c": rule.Passed,
		"O14.watched a": rule.Passed, "O14.watched b": rule.NotApplicable, "O14.watched c": rule.Warned,
		"O14.open workers": rule.Failed, "O14.open gpu": rule.Passed, "O14.alone workers": rule.Passed, "O14.alone gpu": rule.Warned,
	})
	if f := got["O14.open workers"]; f.Measured != "40 % of 3 machines is 1 (1.2 rounded down); 3 are unhealthy: nothing is remediated" {
		t.Errorf("%v", f.Measured)
	}
	if f := judged(t, &Cluster{Unread: map[Part]string{OfMachines: "forbidden"}}, nil)["O11.ready"]; f.State != rule.Unknown {
		t.Errorf("%+v", f)
	}
	if f := judged(t, &Cluster{}, nil)["O11.ready"]; f.State != rule.NotApplicable {
		t.Errorf("%+v", f)
	}
}

// TestFixesAreWords tests that no fix for a cluster is a change that fettle fix would make on a
// machine.
func TestFixesAreWords(t *testing.T) {
	all, _ := catalogue(t)
	for _, r := range all.Rules() {
		if slices.Contains(r.Platforms, platform.Name) && len(r.Platforms) == 1 && r.Fix != nil && len(r.Fix.Changes) > 0 {
			t.Errorf("%s: %s changes a machine", r.At, r.ID)
		}
	}
}

// BenchmarkFindings audits a large cluster: 2,000 nodes with five kubelet rules each take seconds.
func BenchmarkFindings(b *testing.B) {
	all, tables := catalogue(b)
	c := &Cluster{Now: time.Unix(2e9, 0)}
	for i := range 2000 {
		c.Nodes = append(c.Nodes, Node{Name: fmt.Sprint("n", i), Ready: true, CIDRs: []string{"10.0.0.0/24"}, MaxPods: 500, Kubelet: "v1.34.4", Config: []byte(`{"maxPods":500,"kubeAPIQPS":5,"cpuManagerPolicy":"static"}`)})
	}
	for b.Loop() {
		if _, err := c.Findings(b.Context(), all, tables, nil); err != nil {
			b.Fatal(err)
		}
	}
}

// TestEtcdByRelease tests that flags of kubeadm's pods are judged by the release of their image,
// and by the release that kubeadm installs with another Kubernetes. An external etcd is judged by
// the oldest version that kubeadm accepts.
func TestEtcdByRelease(t *testing.T) {
	member := func(name, image, labels, annotations string, flags ...string) string {
		words, _ := json.Marshal(append([]string{"etcd"}, flags...))
		return fmt.Sprintf(`{"metadata":{"namespace":"kube-system","name":%q,"labels":{%s},"annotations":{%s}},"spec":{"nodeName":"a","containers":[{"name":"etcd","image":%q,"command":%s,"env":[{"name":"ETCD_SNAPSHOT_COUNTS","value":"5"}]}]},"status":{"phase":"Running"}}`, name, labels, annotations, image, words)
	}
	const etcdLabel, kubeadm = `"component":"etcd"`, `"kubeadm.kubernetes.io/etcd.advertise-client-urls":"https://10.0.0.1:2379"`
	s := small()
	s.lists["/api/v1/pods"] = []string{
		member("etcd-a", "registry.k8s.io/etcd:3.6.5-0", etcdLabel, kubeadm, "--experimental-initial-corrupt-check=true"),
		member("etcd-b", "registry.k8s.io/etcd:3.5.24-0", etcdLabel, kubeadm, "--pre-vote"),
		member("etcd-c", "registry.k8s.io/etcd@sha256:0123", etcdLabel, kubeadm, "--pre-vote"),
		member("etcd-rke", "rancher/hardened-etcd:v3.5.21-k3s1-build20250612", etcdLabel, "", "--config-file=/var/lib/rancher/rke2/server/db/etcd/config"),
		member("other", "etcd:3.4.3", "", ""),
	}
	c, err := start(t, s).Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := judged(t, c, nil)
	want(t, got, map[string]rule.State{
		"E15 etcd-a": rule.Passed, "E16 etcd-a": rule.Warned, "E15 etcd-b": rule.Passed, "E15 etcd-c": rule.Passed, "E16 etcd-c": rule.Warned, "E18 etcd-a": rule.NotApplicable,
		"E15 etcd-rke": rule.Passed, "E16 etcd-rke": rule.Unknown, "E17 etcd-rke": rule.Warned, "E17 etcd-a": rule.NotApplicable,
	})
	for id := range got {
		if strings.HasSuffix(id, " other") || strings.HasPrefix(id, "E06") {
			t.Errorf("%s was asked", id)
		}
	}
	as := func(c *Cluster, r kuberelease.Release, disabled map[string]string) map[string]rule.Finding {
		t.Helper()
		rules, _ := catalogue(t)
		all, err := c.As(t.Context(), r, rules, disabled)
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]rule.Finding{}
		for _, f := range all {
			out[strings.TrimSpace(f.ID+" "+f.Instance)] = f
		}
		return out
	}
	if c.Kubeadm, err = readKubeadm("kind: ClusterConfiguration\netcd: {local: {extraArgs: {experimental-compaction-batch-limit: '500'}}}\n"); err != nil {
		t.Fatal(err)
	}
	want(t, as(c, 37, nil), map[string]rule.State{
		"E15 etcd-a": rule.Failed, "E18 etcd-a": rule.Passed, "E15 etcd-b": rule.Failed, "E18 etcd-b": rule.Failed, "E18 etcd-c": rule.Unknown, "E15 etcd-rke": rule.Passed, "E16 etcd-rke": rule.Unknown,
	})
	want(t, as(c, 33, nil), map[string]rule.State{"E15 etcd-a": rule.Passed, "E18 etcd-a": rule.NotApplicable, "E18 etcd-b": rule.Passed})
	if here, installed := c.EtcdVersions(37); installed != "3.7.0" || strings.Join(here, " ") != "3.5.21 3.5.24 3.6.5" {
		t.Errorf("%s, %v", installed, here)
	}
	if _, off := as(c, 37, map[string]string{"E15": rule.Disabled + "known"})["E15 etcd-a"]; off {
		t.Error("E15 was asked although it is disabled")
	}
	external := &Cluster{Version: "1.34.4", Members: []etcd.Look{{URL: "https://10.0.0.9:2379", Version: "3.4.27"}, {URL: "https://10.0.0.8:2379", Silent: errors.New("no answer")}}}
	want(t, judged(t, external, nil), map[string]rule.State{"E15 https://10.0.0.9:2379": rule.Unknown, "E16 https://10.0.0.9:2379": rule.Unknown, "E17 https://10.0.0.9:2379": rule.Warned})
	want(t, as(external, 30, nil), map[string]rule.State{"E17 https://10.0.0.9:2379": rule.Passed})
	want(t, as(&Cluster{Unread: map[Part]string{OfEtcd: "want a certificate"}}, 37, nil), map[string]rule.State{"etcd": rule.Unknown})
}
