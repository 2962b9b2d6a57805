package load

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fettle.dev/fettle/kube/cluster"
	"fettle.dev/fettle/kube/load/plan"
)

// hidden is a text in all parts of the cluster that must not be copied.
const hidden = "Hush"

// mirrorCluster answers lists of objects by their path.
type mirrorCluster struct {
	t     *testing.T
	lists map[string][]map[string]any
	// forbidden reports whether a path may not be read; nil for none.
	forbidden func(path string) bool
	asked     map[string]int
}

func (c *mirrorCluster) add(path, namespace, name string, more map[string]any) {
	meta := map[string]any{"name": name, "namespace": namespace}
	for key, value := range more {
		if key, is := strings.CutPrefix(key, "meta."); is {
			meta[key] = value
			delete(more, "meta."+key)
		}
	}
	if more == nil {
		more = map[string]any{}
	}
	more["metadata"] = meta
	c.lists[path] = append(c.lists[path], more)
}

func (c *mirrorCluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.asked[r.URL.Path]++
	if r.Method != http.MethodGet {
		c.t.Errorf("%s %s: a mirror only reads", r.Method, r.URL)
	}
	metadata := strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadataList")
	if strings.Contains(r.URL.Path, "secrets") && !metadata {
		c.t.Errorf("%s: the content of secrets is asked for", r.URL)
	}
	path := r.URL.Path
	if c.forbidden != nil && c.forbidden(path) {
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, `{"reason":"Forbidden","message":"not you"}`)
		return
	}
	namespace := ""
	if head, rest, found := strings.Cut(path, "/namespaces/"); found {
		space, resource, list := strings.Cut(rest, "/")
		if !list {
			fmt.Fprintf(w, `{"metadata":{"name":%q}}`, space)
			return
		}
		namespace, path = space, head+"/"+resource
	}
	items := []map[string]any{}
	for _, item := range c.lists[path] {
		if namespace == "" || item["metadata"].(map[string]any)["namespace"] == namespace {
			items = append(items, item)
		}
	}
	// Two pages, where there is enough for them.
	next := ""
	if half := len(items) / 2; half > 0 {
		if r.URL.Query().Get("continue") == "" {
			items, next = items[:half], "more"
		} else {
			items = items[half:]
		}
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"metadata": map[string]any{"continue": next}, "items": items})
}

// site is a cluster with three namespaces, two of them equal.
func site(t *testing.T) *mirrorCluster {
	c := &mirrorCluster{t: t, lists: map[string][]map[string]any{}, asked: map[string]int{}}
	for _, name := range []string{"default", "kube-system", "openshift-etcd", "team-" + hidden + "-a", "team-" + hidden + "-b", "other-" + hidden} {
		c.add("/api/v1/namespaces", "", name, nil)
		c.add("/api/v1/configmaps", name, "kube-root-ca.crt", map[string]any{"data": map[string]any{"ca.crt": hidden}})
		c.add("/api/v1/serviceaccounts", name, "default", nil)
	}
	c.add("/api/v1/namespaces", "", "loaded", map[string]any{"meta.labels": map[string]any{plan.RunLabel: "x"}})
	template := map[string]any{"metadata": map[string]any{"labels": map[string]any{"app": hidden}}, "spec": map[string]any{
		"nodeSelector": map[string]any{"site": hidden},
		"containers": []any{map[string]any{
			"name": hidden, "image": "registry/" + hidden + ":1", "command": []any{hidden}, "args": []any{hidden},
			"env":       []any{map[string]any{"name": hidden, "value": hidden + strings.Repeat("y", 16)}, map[string]any{"name": "FROM", "valueFrom": map[string]any{"secretKeyRef": map[string]any{"name": hidden}}}},
			"resources": map[string]any{"requests": map[string]any{"cpu": "100m", "memory": "64Mi"}, "limits": map[string]any{"memory": "128Mi"}},
			"ports":     []any{map[string]any{"containerPort": 8080, "name": hidden}},
		}},
		"volumes": []any{map[string]any{"name": hidden, "secret": map[string]any{"secretName": hidden}}},
	}}
	for i, space := range []string{"team-" + hidden + "-a", "team-" + hidden + "-b"} {
		for n := range 3 {
			// Nearly alike: 1000 and a few letters.
			c.add("/api/v1/configmaps", space, fmt.Sprint(hidden, n), map[string]any{"data": map[string]any{hidden: hidden + strings.Repeat("z", 996+n+i)}, "meta.annotations": map[string]any{"note": hidden}})
			c.add("/api/v1/secrets", space, fmt.Sprint(hidden, n), map[string]any{"meta.managedFields": []any{map[string]any{"fieldsV1": map[string]any{"f:data": map[string]any{".": map[string]any{}, "f:user" + hidden: map[string]any{}, "f:password": map[string]any{}}}}}})
		}
		c.add("/api/v1/secrets", space, "default-token", map[string]any{"meta.annotations": map[string]any{"kubernetes.io/service-account.name": "default"}})
		c.add("/apis/apps/v1/deployments", space, hidden, map[string]any{"spec": map[string]any{"replicas": 4, "selector": map[string]any{"matchLabels": map[string]any{"app": hidden}}, "template": template}})
		c.add("/apis/apps/v1/replicasets", space, hidden, map[string]any{"meta.ownerReferences": []any{map[string]any{"uid": "1"}}, "spec": map[string]any{"replicas": 4, "template": template}})
		c.add("/api/v1/pods", space, hidden, map[string]any{"meta.ownerReferences": []any{map[string]any{"uid": "2"}}, "spec": template["spec"]})
		c.add("/api/v1/services", space, hidden, map[string]any{"spec": map[string]any{"type": "LoadBalancer", "clusterIP": "10.1.2.3", "selector": map[string]any{"app": hidden}, "ports": []any{map[string]any{"port": 80, "protocol": "TCP", "name": hidden}, map[string]any{"port": 53, "protocol": "UDP"}}}})
		c.add("/apis/batch/v1/jobs", space, hidden, nil)
	}
	other := "other-" + hidden
	c.add("/apis/apps/v1/statefulsets", other, hidden, map[string]any{"spec": map[string]any{"replicas": 2, "template": template, "volumeClaimTemplates": []any{map[string]any{}}}})
	c.add("/apis/apps/v1/daemonsets", other, hidden, map[string]any{"spec": map[string]any{"template": template}})
	c.add("/api/v1/replicationcontrollers", other, hidden, map[string]any{"spec": map[string]any{"replicas": 1, "template": template}})
	c.add("/apis/batch/v1/cronjobs", other, hidden, map[string]any{"spec": map[string]any{"schedule": "* * * * *", "jobTemplate": map[string]any{"spec": map[string]any{"template": template}}}})
	c.add("/api/v1/pods", other, hidden, map[string]any{"spec": template["spec"], "status": map[string]any{"phase": "Running"}})
	c.add("/api/v1/pods", other, hidden+"-done", map[string]any{"spec": template["spec"], "status": map[string]any{"phase": "Succeeded"}})
	c.add("/api/v1/configmaps", other, hidden, map[string]any{"binaryData": map[string]any{hidden: "SHVzaA=="}})
	c.add("/api/v1/serviceaccounts", other, hidden, nil)
	return c
}

func (c *mirrorCluster) server(t *testing.T) *cluster.Server {
	t.Helper()
	h := httptest.NewServer(c)
	t.Cleanup(h.Close)
	base, err := url.Parse(h.URL)
	if err != nil {
		t.Fatal(err)
	}
	return cluster.New(base, h.Client().Transport)
}

// TestMirror tests that the written load creates the same numbers of objects, and contains nothing
// of the cluster's content.
func TestMirror(t *testing.T) {
	c := site(t)
	m, err := ReadWorkloads(t.Context(), c.server(t), MirrorOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Spaces) != 2 || m.Spaces[0].Count != 2 || m.Spaces[1].Count != 1 {
		t.Fatalf("%+v", m.Spaces)
	}
	dir := filepath.Join(t.TempDir(), "mirror")
	file, err := m.Write(dir)
	if err != nil {
		t.Fatal(err)
	}
	all, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(strings.ToLower(string(text)), strings.ToLower(hidden)) || strings.Contains(string(text), "SHVzaA") || strings.Contains(string(text), "zzz") {
			t.Errorf("%s holds content of the cluster:\n%s", e.Name(), text)
		}
	}
	l, err := Read(file, ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := plan.Compile(t.Context(), l, "run", nil)
	if err != nil {
		t.Fatal(err)
	}
	got, pods, names := map[string]int{}, 0, map[string]bool{}
	bodies := map[string]map[string]any{}
	for i := range p.Len() {
		got[p.Kind(i).Kind]++
		n, _ := p.Pods(i)
		pods += n
		names[p.Namespace(i)] = true
		var o map[string]any
		if err := json.Unmarshal(p.Body(i), &o); err != nil {
			t.Fatal(err)
		}
		bodies[p.Kind(i).Kind] = o
	}
	want := map[string]int{"Namespace": 3, "ConfigMap": 7, "Secret": 6, "Deployment": 2, "Service": 2, "StatefulSet": 1, "DaemonSet": 1, "ReplicationController": 1, "CronJob": 1, "Pod": 1, "ServiceAccount": 1}
	for kind, n := range want {
		if got[kind] != n {
			t.Errorf("%d %s, want %d", got[kind], kind, n)
		}
	}
	if len(got) != len(want) || len(p.Missing) != 0 || pods != 2*4+2+1+1 || !names["mirror0-1"] || !names["mirror1-0"] {
		t.Errorf("%v, %d pods, missing %v, in %v", got, pods, p.Missing, names)
	}
	at := func(kind string, path ...string) any {
		var v any = bodies[kind]
		for _, step := range path {
			switch x := v.(type) {
			case map[string]any:
				v = x[step]
			case []any:
				v = x[0]
			}
		}
		return v
	}
	container := []string{"spec", "template", "spec", "containers", "0"}
	if at("Deployment", append(container, "resources", "requests", "cpu")...) != "100m" || at("Deployment", append(container, "resources", "limits", "memory")...) != "128Mi" || at("Deployment", append(container, "image")...) != Pause {
		t.Errorf("%v", bodies["Deployment"])
	}
	if at("Deployment", "spec", "selector", "matchLabels", "app") != at("Deployment", "metadata", "name") || at("Deployment", "spec", "template", "metadata", "labels", "app") != at("Deployment", "metadata", "name") {
		t.Errorf("the selector: %v", bodies["Deployment"])
	}
	if at("CronJob", "spec", "suspend") != true || at("StatefulSet", "spec", "serviceName") != at("StatefulSet", "metadata", "name") || at("ReplicationController", "spec", "selector", "app") == nil {
		t.Errorf("%v %v %v", bodies["CronJob"], bodies["StatefulSet"], bodies["ReplicationController"])
	}
	if len(at("Secret", "data").(map[string]any)) != 2 || len(at("Service", "spec", "ports").([]any)) != 2 {
		t.Errorf("%v %v", bodies["Secret"], bodies["Service"])
	}
	left := map[string]int{}
	for _, x := range m.Left {
		left[x.Kind] += x.Count
	}
	if left["Job"] != 2 || left["Pod"] != 1 || len(left) != 2 {
		t.Errorf("%+v", m.Left)
	}
	if text := strings.Join(m.Notes, "\n"); !strings.Contains(text, "LoadBalancer is mirrored as ClusterIP (2 times)") || !strings.Contains(text, "the volumes of pods") || strings.Contains(text, hidden) {
		t.Errorf("%q", m.Notes)
	}
	// Nothing is replaced.
	if _, err := m.Write(dir); !os.IsExist(err) {
		t.Errorf("%v", err)
	}
}

// TestNamed tests that only the named namespaces are read, and that a kind that may not be read is
// reported.
func TestNamed(t *testing.T) {
	c := site(t)
	c.forbidden = func(path string) bool { return path == "/api/v1/namespaces/kube-system/secrets" }
	m, err := ReadWorkloads(t.Context(), c.server(t), MirrorOptions{Namespaces: []string{"kube-system"}, Image: "x/y:1"})
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Spaces) != 1 || len(m.Spaces[0].Groups) != 0 || len(m.Notes) != 1 || !strings.Contains(m.Notes[0], "Secret is not mirrored: the API server answers 403: not you") {
		t.Errorf("%+v", m)
	}
	c.forbidden = func(path string) bool { return strings.Contains(path, "/namespaces/kube-system/") }
	if _, err := ReadWorkloads(t.Context(), c.server(t), MirrorOptions{Namespaces: []string{"kube-system"}}); !errors.Is(err, ErrUnseen) {
		t.Errorf("nothing may be seen: %v", err)
	}
	for path := range c.asked {
		if !strings.HasPrefix(path, "/api/v1/namespaces/kube-system") && !strings.Contains(path, "/namespaces/kube-system/") {
			t.Errorf("%s was asked for", path)
		}
	}
	if _, err := (&Mirror{}).Write(t.TempDir()); err != ErrNothingToMirror {
		t.Error(err)
	}
}

func TestAbout(t *testing.T) {
	for n := range 100_000 {
		if a := about(n); a < n || float64(a) > 1.125*float64(n)+1e-9 && n > 0 {
			t.Fatalf("%d: %d", n, a)
		}
	}
}
