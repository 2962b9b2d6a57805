package audit

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"fettle.dev/fettle/internal/guide/platform/openshift"
	"fettle.dev/fettle/kube/cluster"
)

// server is an API server with lists of objects, in pages of two.
type server struct {
	lists   map[string][]string // by path
	objects map[string]string
	status  map[string]int
	hang    map[string]bool
	mu      sync.Mutex
	asked   []string
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.asked = append(s.asked, r.Method+" "+r.URL.Path)
	s.mu.Unlock()
	if s.hang[r.URL.Path] {
		<-r.Context().Done()
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if code := s.status[r.URL.Path]; code != 0 {
		w.WriteHeader(code)
		fmt.Fprintf(w, `{"kind":"Status","reason":"Forbidden","message":"%s is forbidden","code":%d}`, r.URL.Path, code)
		return
	}
	if text, ok := s.objects[r.URL.Path]; ok {
		fmt.Fprint(w, text)
		return
	}
	items, ok := s.lists[r.URL.Path]
	if !ok {
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"kind":"Status","reason":"NotFound","code":404}`)
		return
	}
	from, _ := strconv.Atoi(r.URL.Query().Get("continue"))
	limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	if limit == 0 {
		limit = len(items)
	} else {
		limit = min(limit, 2)
	}
	to := min(from+limit, len(items))
	meta := map[string]any{}
	if to < len(items) {
		meta["continue"], meta["remainingItemCount"] = fmt.Sprint(to), len(items)-to
	}
	text, _ := json.Marshal(meta)
	fmt.Fprintf(w, `{"kind":"List","metadata":%s,"items":[%s]}`, text, strings.Join(items[from:to], ","))
}

func start(t *testing.T, s *server) *Survey {
	t.Helper()
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	u, err := url.Parse(h.URL)
	if err != nil {
		t.Fatal(err)
	}
	return &Survey{Server: cluster.New(u, http.DefaultTransport), Kubelets: time.Minute}
}

// small is a cluster of two nodes without machines.
func small() *server {
	node := func(name, ready string) string {
		return fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"podCIDR":"10.244.0.0/24","podCIDRs":["10.244.0.0/24"]},"status":{"capacity":{"cpu":"4","pods":"110","memory":"16Gi"},"addresses":[{"type":"InternalIP","address":"10.0.0.1"}],"conditions":[{"type":"Ready","status":%q}],"nodeInfo":{"kubeletVersion":"v1.34.4"}}}`, name, ready)
	}
	pod := func(ns, name, node, phase, more string) string {
		return fmt.Sprintf(`{"metadata":{"namespace":%q,"name":%q,"ownerReferences":[{"uid":"o","controller":true}]},"spec":{"nodeName":%q%s},"status":{"phase":%q}}`, ns, name, node, more, phase)
	}
	mount := `,"volumes":[{"name":"v","persistentVolumeClaim":{"claimName":"data"}},{"name":"e","ephemeral":{}}],"containers":[{"name":"postgres","image":"postgres:16","volumeMounts":[{"name":"v"}]},{"name":"other","image":"busybox"}]`
	of := func(ns string) string { return fmt.Sprintf(`{"metadata":{"namespace":%q,"name":"x"}}`, ns) }
	return &server{
		objects: map[string]string{
			"/version":                          `{"gitVersion":"v1.34.4"}`,
			"/api/v1/nodes/a/proxy/configz":     `{"kubeletconfig":{"maxPods":110}}`,
			"/api/v1/nodes/b/proxy/configz":     `{"kubeletconfig":{"maxPods":110}}`,
			"/api/v1/persistentvolumeclaims/no": `{}`,
		},
		lists: map[string][]string{
			"/api/v1/nodes": {node("a", "True"), node("b", "False"), node("c", "True")},
			"/api/v1/pods": {
				pod("ns", "db-0", "a", "Running", mount), pod("ns", "db-1", "a", "Running", ""), pod("ns", "done", "a", "Succeeded", ""), pod("other", "p", "c", "Running", ""), pod("other", "waits", "", "Pending", ""),
				pod("kube-system", "kube-controller-manager-a", "a", "Running", `,"containers":[{"name":"kube-controller-manager","command":["kube-controller-manager","--cluster-cidr=10.244.0.0/16"],"args":["-v=2"]}]`),
			},
			"/api/v1/namespaces": {of(""), of(""), of("")}, "/api/v1/configmaps": {of("ns")}, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions": {},
			"/api/v1/services": {of("ns"), of("ns"), of("other")}, "/apis/apps/v1/deployments": {of("other")},
			"/apis/discovery.k8s.io/v1/endpointslices": {
				`{"metadata":{"namespace":"ns","labels":{"kubernetes.io/service-name":"s"}},"addressType":"IPv4","endpoints":[{},{},{}]}`,
				`{"metadata":{"namespace":"ns","labels":{"kubernetes.io/service-name":"s"}},"addressType":"IPv4","endpoints":[{}]}`,
				`{"metadata":{"namespace":"ns","labels":{"kubernetes.io/service-name":"s"}},"addressType":"IPv6","endpoints":[{},{},{},{}]}`,
			},
			"/api/v1/persistentvolumes":              {`{"metadata":{"name":"pv1"},"spec":{"capacity":{"storage":"1Gi"},"csi":{"driver":"ebs.csi.aws.com"}}}`},
			"/apis/storage.k8s.io/v1/storageclasses": {`{"metadata":{"name":"slow"},"provisioner":"kubernetes.io/gce-pd"}`},
			"/api/v1/persistentvolumeclaims": {
				`{"metadata":{"namespace":"ns","name":"data"},"spec":{"accessModes":["ReadWriteOnce"],"volumeName":"pv1","storageClassName":"slow"}}`,
				`{"metadata":{"namespace":"ns","name":"waits"},"spec":{"accessModes":["ReadWriteMany"],"storageClassName":"slow","volumeMode":"Block"}}`,
			},
		},
		status: map[string]int{"/api/v1/secrets": http.StatusForbidden},
		hang:   map[string]bool{},
	}
}

func TestRead(t *testing.T) {
	s := small()
	c, err := start(t, s).Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if c.Version != "1.34.4" || c.OpenShift != "" || len(c.Unread) > 0 {
		t.Errorf("%q %q %v", c.Version, c.OpenShift, c.Unread)
	}
	want := []Node{
		{Name: "a", Ready: true, CIDRs: []string{"10.244.0.0/24"}, MaxPods: 110, Cores: 4, Kubelet: "v1.34.4", Config: []byte(`{"maxPods":110}`)},
		{Name: "b", CIDRs: []string{"10.244.0.0/24"}, MaxPods: 110, Cores: 4, Kubelet: "v1.34.4", Unread: "node not Ready; not queried"},
	}
	if diff := cmp.Diff(want, c.Nodes[:2]); diff != "" {
		t.Error(diff)
	}
	if n := c.Nodes[2]; n.Unread == "" || strings.Contains(n.Unread, "nodes/proxy") {
		t.Errorf("a kubelet that is not there is no lack of rights: %s", n.Unread)
	}
	bare := small()
	bare.lists["/api/v1/nodes"][2] = strings.Replace(bare.lists["/api/v1/nodes"][2], `"addresses"`, `"others"`, 1)
	if c, err := start(t, bare).Read(t.Context()); err != nil || !strings.Contains(c.Nodes[2].Unread, "no address (status.addresses)") {
		t.Errorf("%v %+v", err, c.Nodes[2])
	}
	s.status["/api/v1/nodes/c/proxy/configz"] = http.StatusForbidden
	refused, err := start(t, s).Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if n := refused.Nodes[2]; !strings.Contains(n.Unread, "configuration not readable; allow this user to get nodes/proxy:") {
		t.Errorf("%+v", n)
	}
	counts := map[string]string{}
	for _, x := range c.Counts {
		counts[x.What] = strings.TrimSpace(fmt.Sprint(x.N, " ", x.Where))
		if x.Unread != "" {
			counts[x.What] = x.Unread
		}
	}
	wanted := map[string]string{
		"nodes": "3", "pods": "6", "pods_per_namespace": "3 ns", "pods_per_node": "3 a", "namespaces": "3", "config_maps": "1", "crds": "0", "services": "3",
		"services_per_namespace": "2 ns", "deployments_per_namespace": "1 other", "backends_per_service": "4 ns/s", "secrets": "the API server answers 403: /api/v1/secrets is forbidden",
	}
	if diff := cmp.Diff(wanted, counts); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"kube-controller-manager", "--cluster-cidr=10.244.0.0/16", "-v=2"}, c.Controller); diff != "" {
		t.Error(diff)
	}
	claims := []Claim{
		{Namespace: "ns", Name: "data", Modes: []string{"ReadWriteOnce"}, Driver: "ebs.csi.aws.com", Users: []User{{Pod: "db-0", Owner: "o", Replicas: 4, Containers: []Container{{Name: "postgres", Image: "postgres:16"}}}}},
		{Namespace: "ns", Name: "waits", Modes: []string{"ReadWriteMany"}, Driver: "in-tree gcePersistentDisk", Raw: true},
	}
	if diff := cmp.Diff(claims, c.Claims); diff != "" {
		t.Error(diff)
	}
	for _, a := range s.asked {
		if !strings.HasPrefix(a, "GET ") {
			t.Errorf("%s: it only reads", a)
		}
	}
}

// TestUnasked tests parts that may not be read or do not answer: each is recorded where it is
// missing, and the rest is read. If etcd is not queried, the reason is known.
func TestUnasked(t *testing.T) {
	s := start(t, small())
	s.Unasked = "want a certificate"
	c, err := s.Read(t.Context())
	if err != nil || c.Unread[OfEtcd] != "want a certificate" || len(c.Members) > 0 {
		t.Errorf("%v %v", c.Unread, err)
	}
}

func TestUnread(t *testing.T) {
	s := small()
	s.status["/api/v1/pods"], s.status["/api/v1/nodes"] = http.StatusForbidden, http.StatusForbidden
	s.lists["/apis/machine.openshift.io/v1beta1/machines"] = nil
	s.status["/apis/machine.openshift.io/v1beta1/machinesets"] = http.StatusForbidden
	c, err := start(t, s).Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []Part{OfNodes, OfClaims, OfMachines} {
		if !strings.Contains(c.Unread[p], "forbidden") {
			t.Errorf("%s: %q", p, c.Unread[p])
		}
	}
	if i := slices.IndexFunc(c.Counts, func(x Count) bool { return x.What == "pods_per_node" }); i < 0 || c.Counts[i].Unread == "" {
		t.Errorf("%+v", c.Counts)
	}

	s = small()
	s.hang["/api/v1/nodes/a/proxy/configz"] = true
	x := start(t, s)
	x.Kubelets = 100 * time.Millisecond
	if c, err = x.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	if u := c.Nodes[0].Unread; u != "no answer in time" {
		t.Errorf("%q", u)
	}
	s = small()
	s.status["/version"] = http.StatusUnauthorized
	if _, err := start(t, s).Read(t.Context()); err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("%v", err)
	}
	if _, err := (&Survey{Server: cluster.New(&url.URL{Scheme: "http", Host: "127.0.0.1:1"}, http.DefaultTransport), Kubelets: time.Second}).Read(t.Context()); err == nil {
		t.Error("nobody is read")
	}
}

func TestSurveyOpenShift(t *testing.T) {
	s := small()
	s.objects["/apis/config.openshift.io/v1/clusterversions/version"] = `{"status":{"desired":{"version":"4.17.3"}}}`
	s.lists["/apis/config.openshift.io/v1/networks"] = []string{`{"metadata":{"name":"cluster","managedFields":[{"manager":"x"}]},"spec":{"networkType":"OVNKubernetes"}}`}
	s.lists["/apis/machine.openshift.io/v1beta1/machinesets"] = []string{`{"metadata":{"name":"w","namespace":"n"},"spec":{"replicas":2,"template":{"metadata":{"labels":{"a":"b"}}}},"status":{"readyReplicas":1}}`}
	c, err := start(t, s).Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(c.Objects, func(o openshift.Object) bool { return o.Kind == "Network" })
	if c.OpenShift != "4.17.3" || i < 0 || string(c.Objects[i].Text) != `{"apiVersion":"config.openshift.io/v1","kind":"Network","metadata":{"name":"cluster"},"spec":{"networkType":"OVNKubernetes"}}` {
		t.Errorf("%q %+v", c.OpenShift, c.Objects)
	}
	if len(c.MachineSets) != 1 || *c.MachineSets[0].Spec.Replicas != 2 || c.MachineSets[0].Spec.Template.Labels["a"] != "b" || c.MachineSets[0].Status.ReadyReplicas != 1 {
		t.Errorf("%+v", c.MachineSets)
	}
}

func TestDriverOf(t *testing.T) {
	for text, want := range map[string]string{
		`{"csi":{"driver":"a"},"capacity":{}}`: "a", `{"nfs":{"server":"s"},"storageClassName":"x"}`: "in-tree nfs", `{"capacity":{}}`: "", `{}`: "",
		`{"nfs":{},"hostPath":{}}`: "in-tree hostPath",
	} {
		var spec map[string]json.RawMessage
		if err := json.Unmarshal([]byte(text), &spec); err != nil {
			t.Fatal(err)
		}
		if got := driverOf(spec); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	for p, want := range map[string]string{"kubernetes.io/aws-ebs": "in-tree awsElasticBlockStore", "kubernetes.io/no-provisioner": "", "ebs.csi.aws.com": "ebs.csi.aws.com"} {
		if got := inTree(p); got != want {
			t.Errorf("%s: %q, want %q", p, got, want)
		}
	}
}

func FuzzSubnets(f *testing.F) {
	f.Add(`{"default":["10.128.0.0/23"]}`)
	f.Add(`{"default":"10.128.0.0/23"}`)
	f.Add(`{"default":[1]}`)
	f.Fuzz(func(_ *testing.T, text string) { _ = subnets(text) })
}

func FuzzConfigOf(f *testing.F) {
	f.Add([]byte(`{"kubeletconfig":{"maxPods":110}}`))
	f.Add([]byte(`{"kubeletconfig":[]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if config, err := configOf(text); err == nil && !json.Valid(config) {
			t.Errorf("%q", config)
		}
	})
}

func TestSubnets(t *testing.T) {
	for text, want := range map[string]string{`{"default":["10.128.0.0/23","fd01::/64"]}`: "10.128.0.0/23 fd01::/64", `{"default":"10.128.0.0/23"}`: "10.128.0.0/23", `{`: "", ``: "", `{"default":3}`: ""} {
		if got := strings.Join(subnets(text), " "); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// FuzzObjects tests that objects of any user who may create pods and volumes are read without an
// error.
func FuzzObjects(f *testing.F) {
	for _, text := range small().lists["/api/v1/pods"] {
		f.Add([]byte(text))
	}
	f.Add([]byte(`{"spec":{"nfs":{},"csi":{"driver":"x"}}}`))
	f.Add([]byte(`{"spec":{"csi":[]}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var p pod
		if json.Unmarshal(text, &p) == nil {
			x := pods{users: map[string][]User{}, replicas: map[string]int{}}
			x.take(&p)
			if len(x.users) > len(p.Spec.Volumes) || len(x.replicas) > 1 {
				t.Errorf("%+v", x)
			}
			_ = controller(&p)
		}
		var v struct{ Spec map[string]json.RawMessage }
		if json.Unmarshal(text, &v) == nil {
			if d := driverOf(v.Spec); len(v.Spec) == 0 && d != "" {
				t.Errorf("%q", d)
			}
		}
	})
}
