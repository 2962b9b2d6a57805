package cli

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/ui"
)

// checked is a small Kubernetes cluster with a kubelet that would not start again, a Prometheus on
// NFS, and a node with more pods than addresses.
func checked() map[string]any {
	list := func(items ...string) json.RawMessage {
		return json.RawMessage(`{"kind":"List","metadata":{},"items":[` + strings.Join(items, ",") + `]}`)
	}
	node := func(name, pods string) string {
		i := name[len(name)-1:]
		return fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"podCIDRs":["10.244.%s.0/24"]},"status":{"capacity":{"cpu":"8","memory":"32Gi","pods":%q},"conditions":[{"type":"Ready","status":"True"}],"nodeInfo":{"kubeletVersion":"v1.34.4"}}}`, name, i, pods)
	}
	pod := func(ns, name, container, image, claim string) string {
		return fmt.Sprintf(`{"metadata":{"namespace":%q,"name":%q},"spec":{"nodeName":"worker-1","volumes":[{"name":"data","persistentVolumeClaim":{"claimName":%q}}],"containers":[{"name":%q,"image":%q,"volumeMounts":[{"name":"data"}]}]},"status":{"phase":"Running"}}`, ns, name, claim, container, image)
	}
	claim := func(ns, name, volume string) string {
		return fmt.Sprintf(`{"metadata":{"namespace":%q,"name":%q},"spec":{"accessModes":["ReadWriteOnce"],"volumeName":%q}}`, ns, name, volume)
	}
	config := func(text string) json.RawMessage {
		return json.RawMessage(`{"kubeletconfig":{"failSwapOn":false,` + text + `}}`)
	}
	empty := list()
	return map[string]any{
		"/version":                                                        json.RawMessage(`{"gitVersion":"v1.34.4"}`),
		"/api/v1/nodes?limit=500":                                         list(node("worker-1", "110"), node("worker-2", "110"), node("worker-3", "500")),
		"/api/v1/nodes/worker-1/proxy/configz":                            config(`"maxPods":110,"cpuManagerPolicy":"none","topologyManagerPolicy":"none"`),
		"/api/v1/nodes/worker-2/proxy/configz":                            config(`"maxPods":110,"cpuManagerPolicy":"static","topologyManagerPolicy":"none"`),
		"/api/v1/nodes/worker-3/proxy/configz":                            config(`"maxPods":500,"kubeAPIQPS":50,"cpuManagerPolicy":"none","topologyManagerPolicy":"none"`),
		"/api/v1/pods?limit=500":                                          list(pod("monitoring", "prometheus-0", "prometheus", "quay.io/prometheus/prometheus:v2.53.0", "prometheus-0"), pod("shop", "orders-0", "postgres", "postgres:16", "orders")),
		"/api/v1/persistentvolumes?limit=500":                             list(`{"metadata":{"name":"pv-1"},"spec":{"nfs":{"server":"10.0.0.9","path":"/srv"}}}`, `{"metadata":{"name":"pv-2"},"spec":{"csi":{"driver":"rook-ceph.rbd.csi.ceph.com"}}}`),
		"/api/v1/persistentvolumeclaims?limit=500":                        list(claim("monitoring", "prometheus-0", "pv-1"), claim("shop", "orders", "pv-2")),
		"/apis/storage.k8s.io/v1/storageclasses?limit=500":                empty,
		"/api/v1/namespaces?limit=1":                                      json.RawMessage(`{"metadata":{"continue":"x","remainingItemCount":11},"items":[{"metadata":{"name":"default"}}]}`),
		"/api/v1/secrets?limit=1":                                         empty,
		"/api/v1/configmaps?limit=1":                                      empty,
		"/api/v1/services?limit=500":                                      empty,
		"/apis/apps/v1/deployments?limit=500":                             empty,
		"/apis/discovery.k8s.io/v1/endpointslices?limit=500":              empty,
		"/apis/apiextensions.k8s.io/v1/customresourcedefinitions?limit=1": empty,
	}
}

// fakeEtcd simulates three members at 127.0.0.11 to 13, each with a database of 300 MB of which 250
// are free. The second one leads.
type fakeEtcd struct {
	mu    sync.Mutex
	free  map[int]bool // still is
	ill   bool
	order []string
}

func newEtcd(t *testing.T) *fakeEtcd {
	t.Helper()
	long := calm
	calm = 10 * time.Millisecond
	t.Cleanup(func() { calm = long })
	f := &fakeEtcd{free: map[int]bool{1: true, 2: true, 3: true}}
	for i := 1; i <= 3; i++ {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1%d:2379", i))
		if err != nil {
			t.Fatal(err)
		}
		s := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { f.answer(i, w, r) })}}
		s.Start()
		t.Cleanup(s.Close)
	}
	return f
}

const endpoints = "http://127.0.0.11:2379,http://127.0.0.12:2379,http://127.0.0.13:2379"

func (f *fakeEtcd) answer(i int, w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	size := 300_000_000
	if !f.free[i] {
		size = 50_000_000
	}
	head := fmt.Sprintf(`{"header":{"cluster_id":"7","member_id":"%d","revision":"145000"}`, 9000+i)
	switch r.URL.Path {
	case "/health":
		fmt.Fprintf(w, `{"health":"%t"}`, !f.ill)
	case "/v3/maintenance/status":
		fmt.Fprintf(w, `%s,"version":"3.5.9","dbSize":"%d","dbSizeInUse":"50000000","leader":"9002","raftIndex":"9","raftAppliedIndex":"9"}`, head, size)
	case "/v3/maintenance/alarm":
		fmt.Fprint(w, head+"}")
	case "/v3/cluster/member/list":
		fmt.Fprint(w, head+`,"members":[{"ID":"9001","name":"etcd-1"},{"ID":"9002","name":"etcd-2"},{"ID":"9003","name":"etcd-3"}]}`)
	case "/v3/kv/compaction":
		f.order = append(f.order, "compact")
		fmt.Fprint(w, head+"}")
	case "/v3/maintenance/defragment":
		f.order = append(f.order, fmt.Sprint(i))
		f.free[i] = false
		fmt.Fprint(w, head+"}")
	case "/metrics":
		fmt.Fprintf(w, "etcd_mvcc_db_total_size_in_bytes %d\netcd_mvcc_db_total_size_in_use_in_bytes 5e7\netcd_server_quota_backend_bytes 2.147483648e9\netcd_server_has_leader 1\netcd_server_leader_changes_seen_total 2\nprocess_start_time_seconds 1.7e9\nprocess_open_fds 90\nprocess_max_fds 65536\n", size)
		histogram := func(name, labels string, bound float64, n int) {
			for _, x := range []struct {
				le string
				n  int
			}{{fmt.Sprint(bound / 2), 0}, {fmt.Sprint(bound), n}, {fmt.Sprint(2 * bound), n}, {"+Inf", n}} {
				fmt.Fprintf(w, "%s_bucket{%sle=%q} %d\n", name, labels, x.le, x.n)
			}
		}
		histogram("etcd_disk_wal_fsync_duration_seconds", "", 0.016, 80000)
		histogram("etcd_disk_backend_commit_duration_seconds", "", 0.008, 30000)
		for to := 1; to <= 3; to++ {
			if to != i {
				histogram("etcd_network_peer_round_trip_time_seconds", fmt.Sprintf(`To="%x",`, 9000+to), 0.0016, 240)
			}
		}
	default:
		http.NotFound(w, r)
	}
}

func TestCheck(t *testing.T) {
	kubeconfig := apiServer(t, checked())
	check := func(code int, args ...string) (out, said string) {
		t.Helper()
		got, out, said := run(t, append([]string{"--kubeconfig", kubeconfig, "check"}, args...)...)
		if got != code {
			t.Errorf("%v: exit code %d, want %d: %s%s", args, got, code, out, said)
		}
		return out, said
	}
	newEtcd(t)
	out, _ := check(ui.Done, "--etcd-endpoints", endpoints, "--all", "--output", "json")
	valid(t, "check", []byte(out))
	var doc struct {
		Schema    string
		Platforms []string
		Findings  []rule.Finding
		ExitCode  int `json:"exit_code"`
	}
	if err := json.Unmarshal([]byte(out), &doc); err != nil {
		t.Fatal(err)
	}
	states := map[string]rule.State{}
	for _, f := range doc.Findings {
		states[strings.TrimSpace(f.ID+" "+f.Instance)] = f.State
	}
	for id, want := range map[string]rule.State{
		"E01.buckets http://127.0.0.11:2379": rule.Warned, "E02.buckets http://127.0.0.11:2379": rule.Passed, "E09.buckets http://127.0.0.11:2379 to etcd-2": rule.Passed,
		"E10.fragments http://127.0.0.12:2379": rule.Warned, "E11 http://127.0.0.13:2379": rule.Passed, "E08 http://127.0.0.13:2379": rule.Passed,
		"O63 worker-2": rule.Failed, "O63 worker-1": rule.NotApplicable, "O03.node worker-3": rule.Failed, "O03.node worker-1": rule.Passed,
		"O29.claim monitoring/prometheus-0": rule.Warned, "O30.claim monitoring/prometheus-0": rule.Warned, "O29.claim shop/orders": rule.Passed,
		"O66.objects nodes": rule.Passed, "O66.objects namespaces": rule.Passed, "O02.cluster": rule.NotApplicable, "O11.ready": rule.NotApplicable,
	} {
		if states[id] != want {
			t.Errorf("%s is %q, want %s", id, states[id], want)
		}
	}
	if doc.Schema != "fettle/check/v1" || strings.Join(doc.Platforms, " ") != "cluster kubelet" {
		t.Errorf("%s %v", doc.Schema, doc.Platforms)
	}
	if out, said := check(ui.GateNotMet, "--fail-on", "fail"); !strings.Contains(out, "? unknown  1 not determined (--details): etcd") || !strings.Contains(said, "--fail-on is fail") || strings.Contains(out, "fettle check --explain") {
		t.Errorf("%s%s", out, said)
	}
	check(ui.Done, "--fail-on", "fail", "--disable", "O63=known", "--disable", "O03.node=Calico")
	if out, _ := check(ui.Done, "--output", "markdown"); !strings.Contains(out, "# Audit of 127.0.0.1:") {
		t.Error(out)
	}
	for form, want := range map[string]string{"html": "<html", "sarif": `"ruleId": "O63"`, "openmetrics": `fettle_check_finding{id="O63",item="worker-2",state="fail"`} {
		if out, _ := check(ui.Done, "--output", form); !strings.Contains(out, want) {
			t.Errorf("%s: no %s in %.300s", form, want, out)
		}
	}
	for _, args := range []string{
		"--etcd-endpoints http://127.0.0.11:2379 --defragment --output html",
		"--fail-on bad", "--disable O63", "--disable O630=x", "--etcd-cert a", "--defragment", "--yes", "--etcd-endpoints 10.0.0.1", "--kubelet-time 0s", "stray",
		"--etcd-endpoints http://127.0.0.11:2379 --etcd-cacert /is/not/there", "--etcd-endpoints http://127.0.0.11:2379 --defragment --fail-on fail",
		"--etcd-endpoints http://127.0.0.11:2379 --defragment --defragment-share 101", "--etcd-endpoints http://127.0.0.11:2379 --defragment --defragment-size much",
	} {
		check(ui.Usage, strings.Fields(args)...)
	}
	out, said := check(ui.GateNotMet, "--for", "1.37", "--fail-on", "fail")
	if !strings.HasPrefix(out, "With kubelet 1.37 (installed: ") || !strings.Contains(out, "O63") || strings.Contains(out, "O03.node") || !strings.Contains(said, "fettle check --for 1.37") {
		t.Errorf("%s%s", out, said)
	}
	if out, _ := check(ui.Done, "--for", "1.99"); !strings.HasPrefix(out, "With kubelet 1.99 (newer than all known releases, so the rules of 1.37 apply; installed: ") {
		t.Error(out)
	}
	if out, _ := check(ui.Done, "--for", "4.20"); !strings.HasPrefix(out, "With kubelet of OpenShift 4.20 (Kubernetes 1.33, installed: ") {
		t.Error(out)
	}
	if _, said := check(ui.Usage, "--for", "1.28"); !strings.Contains(said, "want a release of Kubernetes from 1.29 to 1.37") {
		t.Error(said)
	}
	// With kubeadm's etcd, the first line says both programs and what breaks.
	objects := checked()
	objects["/api/v1/pods?limit=500"] = json.RawMessage(`{"items":[{"metadata":{"namespace":"kube-system","name":"etcd-a","labels":{"component":"etcd"},"annotations":{"kubeadm.kubernetes.io/etcd.advertise-client-urls":"https://127.0.0.1:2379"}},"spec":{"containers":[{"name":"etcd","image":"registry.k8s.io/etcd:3.6.5-0","command":["etcd","--experimental-initial-corrupt-check=true"]}]},"status":{"phase":"Running"}}]}`)
	objects["/api/v1/namespaces/kube-system/configmaps/kubeadm-config"] = json.RawMessage(`{"data":{"ClusterConfiguration":"kind: ClusterConfiguration\napiServer: {extraArgs: {cloud-provider: external}}\netcd: {local: {extraArgs: {experimental-compaction-batch-limit: '500'}}}\n"}}`)
	kubeconfig = apiServer(t, objects)
	out, _ = check(ui.GateNotMet, "--for", "1.37", "--fail-on", "fail", "--output", "json")
	valid(t, "check", []byte(out))
	var upgrade struct {
		For struct {
			Also struct{ Program, Release, Here string }
		}
	}
	if err := json.Unmarshal([]byte(out), &upgrade); err != nil || upgrade.For.Also.Release != "3.7.0" || upgrade.For.Also.Here != "3.6.5" || upgrade.For.Also.Program != "etcd" {
		t.Errorf("%v %+v", err, upgrade)
	}
	if out, _ := check(ui.Done, "--for", "1.37"); !strings.HasPrefix(strings.Join(strings.Fields(out), " "), "With kubelet 1.37 (installed: 1.34.4) and etcd 3.7.0 (installed: 3.6.5): 3 problems, 0 warnings, ") {
		t.Error(out)
	}
	gone := apiServer(t, map[string]any{})
	if code, _, said := run(t, "--kubeconfig", gone, "check"); code != ui.Failed || !strings.Contains(said, "the API server") {
		t.Errorf("%d %s", code, said)
	}
}

// TestCheckWithoutRights tests that an audit with only unknown results has determined nothing.
func TestCheckWithoutRights(t *testing.T) {
	kubeconfig := server(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/version" {
			fmt.Fprint(w, `{"gitVersion":"v1.34.4"}`)
			return
		}
		refuse(w, http.StatusForbidden, "Forbidden")
	})
	for _, args := range [][]string{{"check"}, {"check", "--fail-on", "unknown"}, {"check", "--output", "json"}} {
		code, out, said := run(t, append([]string{"--kubeconfig", kubeconfig}, args...)...)
		if code != ui.Failed || !strings.Contains(said, "nothing could be determined: ") {
			t.Errorf("%v: exit code %d: %s%s", args, code, out, said)
		}
	}
}

func TestDefragment(t *testing.T) {
	f := newEtcd(t)
	stdin(t)
	defragment := func(code int, args ...string) (out, said string) {
		t.Helper()
		got, out, said := run(t, append([]string{"check", "--etcd-endpoints", endpoints, "--defragment"}, args...)...)
		if got != code {
			t.Errorf("%v: exit code %d, want %d: %s%s", args, got, code, out, said)
		}
		return out, said
	}
	if out, said := defragment(ui.Refused); !strings.Contains(said, "cannot ask for confirmation: stdin is not a terminal; nothing changed") || !strings.Contains(out, "3      http://127.0.0.12:2379  232a  leader") || len(f.order) > 0 {
		t.Errorf("%s%s%v", out, said, f.order)
	}
	f.ill = true
	if _, said := defragment(ui.Refused, "--yes"); !strings.Contains(said, "nothing defragmented: http://127.0.0.11:2379 ") || len(f.order) > 0 {
		t.Errorf("%s%v", said, f.order)
	}
	f.ill = false
	out, _ := defragment(ui.Done, "--yes", "--output", "json")
	valid(t, "etcd-defragment", []byte(out))
	if got := strings.Join(f.order, " "); got != "compact 1 3 2" {
		t.Error(got)
	}
	if out, _ := defragment(ui.Done, "--yes", "--no-compact"); strings.Count(out, "free space in its database is below the limits") != 3 {
		t.Error(out)
	}
	if got := strings.Join(f.order, " "); got != "compact 1 3 2" {
		t.Error(got)
	}
}

// stdin is a file, not a terminal.
func stdin(t *testing.T) {
	t.Helper()
	before := os.Stdin
	f, err := os.Create(filepath.Join(t.TempDir(), "stdin"))
	if err != nil {
		t.Fatal(err)
	}
	os.Stdin = f
	t.Cleanup(func() { os.Stdin = before; f.Close() })
}
