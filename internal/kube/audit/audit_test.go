package audit

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"fettle.dev/fettle/internal/component/metrics"
	"fettle.dev/fettle/internal/kube/etcd"
	"fettle.dev/fettle/internal/kube/machine"
	"fettle.dev/fettle/internal/platform"
	"fettle.dev/fettle/internal/platform/cluster"
	"fettle.dev/fettle/internal/platform/openshift"
	"fettle.dev/fettle/internal/rule"
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
	all, err := rule.Load(inputs, sets, rule.Only(files, AllPlatforms))
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

// judged is what the rules say of a cluster: "ID instance" to the finding.
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

// want looks at states: "ID instance", state.
func want(t *testing.T, got map[string]rule.Finding, states map[string]rule.State) {
	t.Helper()
	for id, state := range states {
		f, ok := got[id]
		if !ok || f.State != state {
			t.Errorf("%s is %s (%v, %s), want %s", id, f.State, f.Measured, f.Reason, state)
		}
	}
}

const url = "https://10.0.0.1:2379"

// histogram is one of a member's with all observations in one bucket.
func histogram(n float64, below, bound float64) metrics.Buckets {
	return metrics.Buckets{below: 0, bound: n, 2 * bound: n, math.Inf(1): n}
}

// member is one that is well.
func member() etcd.Look {
	return etcd.Look{URL: url, Healthy: true, ID: 1, Peers: []etcd.Peer{{ID: 1, Name: "a"}, {ID: 0xb, Name: "b"}, {ID: 0xc, Name: "c"}}, Page: metrics.Page{
		Values: map[string]float64{
			"etcd_mvcc_db_total_size_in_bytes": 300 << 20, "etcd_mvcc_db_total_size_in_use_in_bytes": 290 << 20, "etcd_server_quota_backend_bytes": 2 << 30,
			"etcd_server_has_leader": 1, "etcd_server_leader_changes_seen_total": 2, "process_start_time_seconds": 2e9 - 86400, "process_open_fds": 100, "process_max_fds": 65536,
		},
		Histograms: map[string]map[string]metrics.Buckets{
			"etcd_disk_wal_fsync_duration_seconds":      {"": histogram(5000, 0.001, 0.002)},
			"etcd_disk_backend_commit_duration_seconds": {"": histogram(5000, 0.004, 0.008)},
			"etcd_network_peer_round_trip_time_seconds": {"b": histogram(4, 0.0128, 0.0256), "c": histogram(4, 0.0128, 0.0256)},
		},
	}}
}

func TestEtcd(t *testing.T) {
	well := map[string]rule.State{
		"E04 " + url: rule.Passed, "E07 " + url: rule.Passed, "E08 " + url: rule.Passed, "E10 " + url: rule.Passed, "E10.fragments " + url: rule.Passed,
		"E11 " + url: rule.Passed, "E12 " + url: rule.Passed, "E01.buckets " + url: rule.Passed, "E02.buckets " + url: rule.Passed,
		"E09.buckets " + url + " to b": rule.Passed, "E09.buckets " + url + " to c": rule.Passed,
	}
	for name, c := range map[string]struct {
		change func(*etcd.Look)
		want   map[string]rule.State
	}{
		"well": {func(*etcd.Look) {}, nil},
		"fsync in the bucket of the limit": {func(m *etcd.Look) {
			m.Page.Histograms["etcd_disk_wal_fsync_duration_seconds"][""] = histogram(5000, 0.008, 0.016)
		}, map[string]rule.State{"E01.buckets " + url: rule.Warned}},
		"fsync too slow": {func(m *etcd.Look) {
			m.Page.Histograms["etcd_disk_wal_fsync_duration_seconds"][""] = histogram(5000, 0.016, 0.032)
		}, map[string]rule.State{"E01.buckets " + url: rule.Failed}},
		"young": {func(m *etcd.Look) {
			m.Page.Histograms["etcd_disk_wal_fsync_duration_seconds"][""] = histogram(999, 0.016, 0.032)
		}, map[string]rule.State{"E01.buckets " + url: rule.Unknown}},
		"all round trips 26 ms": {func(m *etcd.Look) {
			m.Page.Histograms["etcd_network_peer_round_trip_time_seconds"]["b"] = histogram(240, 0.0256, 0.0512)
		}, map[string]rule.State{"E09.buckets " + url + " to b": rule.Warned}},
		"far apart": {func(m *etcd.Look) {
			m.Page.Histograms["etcd_network_peer_round_trip_time_seconds"]["b"] = histogram(4, 0.0512, 0.1024)
		}, map[string]rule.State{"E09.buckets " + url + " to b": rule.Failed}},
		"none measured yet": {func(m *etcd.Look) {
			m.Page.Histograms["etcd_network_peer_round_trip_time_seconds"]["b"] = histogram(0, 0.0512, 0.1024)
		}, map[string]rule.State{"E09.buckets " + url + " to b": rule.Unknown}},
		"hostile": {func(m *etcd.Look) {
			m.Page.Histograms["etcd_network_peer_round_trip_time_seconds"]["b"] = metrics.Buckets{1: 5, 2: 3, math.Inf(1): 5}
			m.Page.Histograms["etcd_disk_wal_fsync_duration_seconds"][""] = metrics.Buckets{1: 5}
		}, map[string]rule.State{"E09.buckets " + url + " to b": rule.Unknown, "E01.buckets " + url: rule.Unknown}},
		"fragments":   {func(m *etcd.Look) { m.Page.Values["etcd_mvcc_db_total_size_in_use_in_bytes"] = 30 << 20 }, map[string]rule.State{"E10.fragments " + url: rule.Warned}},
		"nearly full": {func(m *etcd.Look) { m.Page.Values["etcd_server_quota_backend_bytes"] = 310 << 20 }, map[string]rule.State{"E10 " + url: rule.Failed, "E04 " + url: rule.Warned}},
		"before 3.4": {func(m *etcd.Look) {
			delete(m.Page.Values, "etcd_mvcc_db_total_size_in_bytes")
			m.Page.Values["etcd_debugging_mvcc_db_total_size_in_bytes"] = 300 << 20
		}, nil},
		"restless":  {func(m *etcd.Look) { m.Page.Values["etcd_server_leader_changes_seen_total"] = 900 }, map[string]rule.State{"E07 " + url: rule.Warned}},
		"no leader": {func(m *etcd.Look) { m.Page.Values["etcd_server_has_leader"] = 0 }, map[string]rule.State{"E11 " + url: rule.Failed}},
		"ill":       {func(m *etcd.Look) { m.Healthy = false }, map[string]rule.State{"E11 " + url: rule.Failed}},
		"metrics only": {func(m *etcd.Look) { m.Peers, m.ID, m.Unwell = nil, 0, errors.New("404") },
			map[string]rule.State{"E08 " + url: rule.Unknown, "E11 " + url: rule.Unknown}},
		"two members": {func(m *etcd.Look) { m.Peers = m.Peers[:2] }, map[string]rule.State{"E08 " + url: rule.Warned, "E09.buckets " + url + " to c": ""}},
	} {
		t.Run(name, func(t *testing.T) {
			m := member()
			c.change(&m)
			got := judged(t, &Cluster{Members: []etcd.Look{m}}, nil)
			states := map[string]rule.State{}
			for id, s := range well {
				states[id] = s
			}
			for id, s := range c.want {
				if states[id] = s; s == "" {
					delete(states, id)
				}
			}
			want(t, got, states)
		})
	}
	if f := judged(t, &Cluster{Members: []etcd.Look{member()}}, nil)["E09.buckets "+url+" to b"]; f.Measured != "p99 of 4 between 12.8 and 25.6 ms" {
		t.Errorf("%v", f.Measured)
	}
	silent := judged(t, &Cluster{Members: []etcd.Look{{URL: url, Silent: errors.New("nothing listens")}}}, nil)
	for id := range well {
		if strings.HasPrefix(id, "E09") {
			id = "E09.buckets " + url
		}
		if f := silent[id]; f.State != rule.Unknown || !strings.Contains(f.Reason, "nothing listens") {
			t.Errorf("%s: %+v", id, f)
		}
	}
	// Nobody has asked: that is one thing to do, and nothing has passed.
	unasked := &Cluster{}
	unasked.Miss(OfEtcd, "--etcd-endpoints names them")
	none := judged(t, unasked, nil)
	for id, f := range none {
		if strings.HasPrefix(id, "E") {
			t.Errorf("%s: %s", id, f.State)
		}
	}
	if f := none["etcd"]; f.State != rule.Unknown || !strings.Contains(f.Reason, "--etcd-endpoints") {
		t.Errorf("%+v", f)
	}
}

func TestAddresses(t *testing.T) {
	for text, want := range map[string]float64{"10.244.1.0/24": 253, "10.128.0.0/23": 509, "10.244.1.0/24 fd00::/64": 253, "fd00::/120": 253, "10.0.0.0/31": 0} {
		if got, err := addresses(strings.Fields(text)); err != nil || got != want {
			t.Errorf("%s: %g %v, want %g", text, got, err, want)
		}
	}
	if _, err := addresses([]string{"10.0.0.0"}); err == nil {
		t.Error("no network is one")
	}
}

func TestParts(t *testing.T) {
	for text, want := range map[string]string{
		"kube-controller-manager --cluster-cidr=10.244.0.0/16 --allocate-node-cidrs=true":                  "256 true <nil>",
		"--cluster-cidr 10.244.0.0/16 --node-cidr-mask-size 26":                                            "1024 true <nil>",
		"--cluster-cidr=10.0.0.0/16,fd00::/56":                                                             "256 true <nil>",
		"--cluster-cidr=10.0.0.0/16,fd00::/60 --node-cidr-mask-size-ipv6=64 --node-cidr-mask-size-ipv4=25": "16 true <nil>",
		"--cluster-cidr=10.244.0.0/16 --allocate-node-cidrs=false":                                         "0 false <nil>",
		"--leader-elect": "0 false <nil>",
		"":               "0 false <nil>",
		"--cluster-cidr=10.244.0.0/16 --node-cidr-mask-size=12":   "0 false parts of /12 do not fit into --cluster-cidr=10.244.0.0/16",
		"--cluster-cidr=10.244.0.0/16 --node-cidr-mask-size=many": "0 false --node-cidr-mask-size=many is no number",
		"--cluster-cidr=here": `0 false --cluster-cidr=here: "here" is no network`,
	} {
		n, known, err := parts(strings.Fields(text))
		if got := fmt.Sprintf("%g %v %v", n, known, err); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

func FuzzParts(f *testing.F) {
	f.Add("--cluster-cidr=10.244.0.0/16 --node-cidr-mask-size=24")
	f.Add("--cluster-cidr=fd00::/56,10.0.0.0/8 --node-cidr-mask-size-ipv6 64")
	f.Fuzz(func(t *testing.T, text string) {
		n, known, err := parts(strings.Fields(text))
		if known && (err != nil || n < 1 || math.IsInf(n, 0) || n != math.Trunc(n)) || !known && n != 0 {
			t.Errorf("%g %v %v", n, known, err)
		}
	})
}

func TestNetwork(t *testing.T) {
	c := &Cluster{
		Controller: []string{"--cluster-cidr=10.244.0.0/22"},
		Nodes: []Node{
			{Name: "a", Ready: true, CIDRs: []string{"10.244.0.0/24"}, MaxPods: 110}, {Name: "b", CIDRs: []string{"10.244.1.0/24"}, MaxPods: 500},
			{Name: "c", MaxPods: 500}, {Name: "d", CIDRs: []string{"odd"}},
		},
		Counts: []Count{{What: "nodes", N: 6000}, {What: "pods_per_node", N: 50, Where: "a"}, {What: "namespaces", Unread: "may not be listed"}, {What: "secrets", N: 1 << 20}},
	}
	want(t, judged(t, c, nil), map[string]rule.State{
		"O02.cluster": rule.Warned, "O03.node a": rule.Passed, "O03.node b": rule.Failed, "O03.node c": rule.NotApplicable, "O03.node d": rule.Unknown,
		"O66.objects nodes": rule.Warned, "O66.objects pods_per_node": rule.Passed, "O66.objects namespaces": rule.Unknown, "O66.objects secrets": rule.NotApplicable,
	})
	want(t, judged(t, &Cluster{Unread: map[Part]string{OfNodes: "forbidden"}, Controller: c.Controller}, nil), map[string]rule.State{
		"O02.cluster": rule.Unknown, "O03.node": rule.Unknown, "O61": rule.Unknown, "O65": rule.Unknown,
	})
	want(t, judged(t, c, map[string]string{"O03.node": rule.Disabled + "Calico (--disable)", "O65": rule.Disabled + "why (--disable)"}), map[string]rule.State{"O03.node": rule.NotApplicable, "O65": rule.NotApplicable})
}

// TestKubelets: the rules of a node's kubelet are asked of what each kubelet runs with.
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

// TestOpenShift: what there are rules for of documents is asked of the objects.
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

// What no fix of a cluster may be: something that fettle fix writes on a machine.
func TestFixesAreWords(t *testing.T) {
	all, _ := catalogue(t)
	for _, r := range all.Rules() {
		if slices.Contains(r.Platforms, cluster.Name) && len(r.Platforms) == 1 && r.Fix != nil && len(r.Fix.Changes) > 0 {
			t.Errorf("%s: %s changes a machine", r.At, r.ID)
		}
	}
}

// A large cluster is judged in seconds: 2000 nodes with five rules of kubelets each.
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
