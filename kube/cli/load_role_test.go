package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"sigs.k8s.io/yaml"

	"fettle.dev/fettle/internal/ui"
)

// rbacRule is a rule of a ClusterRole (k8s.io/api, rbac/v1, PolicyRule).
type rbacRule struct {
	APIGroups       []string `json:"apiGroups"`
	Resources       []string `json:"resources"`
	Verbs           []string `json:"verbs"`
	NonResourceURLs []string `json:"nonResourceURLs"`
}

// loadServer is an API server that stores objects by path, and allows what a role allows. It loses
// the answer to the first object of each kind that it creates.
type loadServer struct {
	made  func() // called with each object that is made; may be nil
	rules []rbacRule

	mu      sync.Mutex
	objects map[string]map[string]any
	lost    map[string]bool // by resource
	denied  []string
	used    map[string]bool // what of the rules was asked for
}

// known reports whether all users may send the request (the role system:discovery).
func known(path string) bool {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch parts[0] {
	case "version":
		return true
	case "api":
		return len(parts) <= 2
	case "apis":
		return len(parts) <= 3
	}
	return false
}

// wants returns what a request needs in RBAC's terms.
func wants(r *http.Request) (verb, group, resource, name string) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	rest := parts[2:]
	if parts[0] == "apis" {
		group, rest = parts[1], parts[3:]
	}
	if len(rest) > 2 && rest[0] == "namespaces" {
		rest = rest[2:]
	}
	resource = rest[0]
	if len(rest) > 1 {
		name = rest[1]
	}
	if len(rest) > 2 {
		resource += "/" + rest[2]
	}
	switch {
	case r.Method == http.MethodPost:
		verb = "create"
	case r.Method == http.MethodDelete:
		verb = "delete"
	case name != "":
		verb = "get"
	case r.URL.Query().Get("watch") != "":
		verb = "watch"
	default:
		verb = "list"
	}
	return verb, group, resource, name
}

// allows records which parts of the rules allow a request.
func (s *loadServer) allows(r *http.Request) bool {
	if known(r.URL.Path) {
		return true
	}
	ok := false
	if r.URL.Path == "/metrics" {
		for i, rule := range s.rules {
			if slices.Contains(rule.NonResourceURLs, r.URL.Path) && slices.Contains(rule.Verbs, "get") {
				s.used[fmt.Sprint(i, " get /metrics")], ok = true, true
			}
		}
		return ok
	}
	verb, group, resource, _ := wants(r)
	for i, rule := range s.rules {
		for _, g := range rule.APIGroups {
			for _, res := range rule.Resources {
				if (g == group || g == "*") && (res == resource || res == "*") && slices.Contains(rule.Verbs, verb) {
					s.used[fmt.Sprint(i, " ", verb, " ", g, "/", res)], ok = true, true
				}
			}
		}
	}
	return ok
}

// holds returns all parts of the rules.
func (s *loadServer) holds() []string {
	var all []string
	for i, rule := range s.rules {
		for _, verb := range rule.Verbs {
			for _, at := range rule.NonResourceURLs {
				all = append(all, fmt.Sprint(i, " ", verb, " ", at))
			}
			for _, g := range rule.APIGroups {
				for _, res := range rule.Resources {
					all = append(all, fmt.Sprint(i, " ", verb, " ", g, "/", res))
				}
			}
		}
	}
	return all
}

func (s *loadServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	type o = map[string]any
	say := func(status int, answer any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(answer)
	}
	path := r.URL.Path
	if !s.allows(r) {
		s.denied = append(s.denied, r.Method+" "+path)
		say(http.StatusForbidden, o{"kind": "Status", "code": 403, "message": "forbidden by the role"})
		return
	}
	namespaced := func(kinds string) o {
		var all []o
		for pair := range strings.FieldsSeq(kinds) {
			kind, name, _ := strings.Cut(pair, "=")
			all = append(all, o{"name": name, "kind": kind, "namespaced": kind != "Namespace" && kind != "Node", "verbs": []string{"list"}})
		}
		return o{"resources": all}
	}
	group := func(v string) o {
		return o{"preferredVersion": o{"groupVersion": v}, "versions": []o{{"groupVersion": v}}}
	}
	switch path {
	case "/metrics":
		return
	case "/version":
		say(http.StatusOK, o{"gitVersion": "v1.34.4"})
		return
	case "/api/v1":
		say(http.StatusOK, namespaced("Namespace=namespaces Node=nodes ConfigMap=configmaps Pod=pods Secret=secrets Service=services"))
		return
	case "/apis":
		say(http.StatusOK, o{"groups": []o{group("apps/v1"), group("rbac.authorization.k8s.io/v1")}})
		return
	case "/apis/apps/v1":
		say(http.StatusOK, namespaced("Deployment=deployments"))
		return
	case "/apis/rbac.authorization.k8s.io/v1":
		say(http.StatusOK, namespaced("Role=roles"))
		return
	}
	if known(path) {
		say(http.StatusNotFound, o{"kind": "Status", "code": 404})
		return
	}
	verb, _, resource, name := wants(r)
	there, is := s.objects[path]
	switch {
	case verb == "create":
		var made o
		_ = json.NewDecoder(r.Body).Decode(&made)
		meta := made["metadata"].(o)
		at := fmt.Sprint(path, "/", meta["name"])
		if _, is := s.objects[at]; is {
			say(http.StatusConflict, o{"kind": "Status", "code": 409, "reason": "AlreadyExists"})
			return
		}
		meta["uid"] = "uid-of-" + at
		if s.made != nil {
			s.made()
		}
		if _, in, is := strings.Cut(path, "/namespaces/"); is {
			meta["namespace"], _, _ = strings.Cut(in, "/")
		}
		s.objects[at] = made
		if !s.lost[resource] {
			s.lost[resource] = true
			say(http.StatusServiceUnavailable, o{"kind": "Status", "code": 503})
			return
		}
		say(http.StatusCreated, made)
	case verb == "watch":
		w.(http.Flusher).Flush()
		s.mu.Unlock()
		<-r.Context().Done()
		s.mu.Lock()
	case verb == "list":
		items := []o{}
		key, value, _ := strings.Cut(r.URL.Query().Get("labelSelector"), "=")
		key, not := strings.CutSuffix(key, "!")
		for at, object := range s.objects {
			in, _, _ := strings.Cut(path, resource)
			labels, _ := object["metadata"].(o)["labels"].(o)
			if matches := labels[key] == value; strings.HasPrefix(at, in) && strings.HasSuffix(at, "/"+resource+"/"+fmt.Sprint(object["metadata"].(o)["name"])) && (key == "" || matches != not) {
				items = append(items, object)
			}
		}
		say(http.StatusOK, o{"metadata": o{"resourceVersion": "1"}, "items": items})
	case !is || name == "":
		say(http.StatusNotFound, o{"kind": "Status", "code": 404})
	case verb == "delete":
		maps.DeleteFunc(s.objects, func(at string, _ o) bool {
			return at == path || resource == "namespaces" && strings.Contains(at, "/namespaces/"+name+"/")
		})
		say(http.StatusOK, o{"kind": "Status"})
	default:
		say(http.StatusOK, there)
	}
}

// TestLoadRole tests that run, resume and undo need exactly the permissions of the manual's role.
func TestLoadRole(t *testing.T) {
	page, err := os.ReadFile("../../docs/cluster-load-journal.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "```yaml\n# load-role.yaml\n")
	text, _, _ = strings.Cut(text, "```\n")
	var role struct {
		Kind  string
		Rules []rbacRule
	}
	if err := yaml.UnmarshalStrict([]byte(text), &struct {
		APIVersion string      `json:"apiVersion"`
		Kind       *string     `json:"kind"`
		Metadata   any         `json:"metadata"`
		Rules      *[]rbacRule `json:"rules"`
	}{Kind: &role.Kind, Rules: &role.Rules}); err != nil || role.Kind != "ClusterRole" || len(role.Rules) == 0 {
		t.Fatalf("%v %+v", err, role)
	}
	type o = map[string]any
	s := &loadServer{rules: role.Rules, lost: map[string]bool{}, used: map[string]bool{}, objects: map[string]map[string]any{
		"/api/v1/namespaces/kube-system": {"metadata": o{"name": "kube-system", "uid": "c1"}},
		"/api/v1/namespaces/theirs0":     {"metadata": o{"name": "theirs0", "uid": "t0"}},
		"/api/v1/nodes/n":                {"metadata": o{"name": "n", "uid": "n"}, "status": o{"allocatable": o{"pods": "110"}, "conditions": []o{{"type": "Ready", "status": "True"}}}},
	}}
	server := httptest.NewServer(s)
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	dir := t.TempDir()
	t.Chdir(dir)
	t.Setenv("KUBECONFIG", filepath.Join(dir, "kubeconfig"))
	const contents = "    pods: [{num: 2, basename: a, image: i}]\n    objects: [{num: 2, file: objects.yaml}]\n"
	for name, text := range map[string]string{
		"kubeconfig":   fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: a, clusters: [{name: a, cluster: {server: %q}}], contexts: [{name: a, context: {cluster: a}}]}`, server.URL),
		"load.yaml":    "ClusterLoader:\n  wait: 0\n  projects:\n  - num: 1\n    basename: ours\n" + contents + "  - num: 1\n    basename: theirs\n    ifexists: reuse\n" + contents,
		"objects.yaml": "{apiVersion: v1, kind: ConfigMap, metadata: {name: \"m${IDENTIFIER}\"}}\n---\n{apiVersion: v1, kind: Secret, metadata: {name: \"s${IDENTIFIER}\"}}\n---\n{apiVersion: v1, kind: Service, metadata: {name: \"v${IDENTIFIER}\"}}\n---\n{apiVersion: apps/v1, kind: Deployment, metadata: {name: \"d${IDENTIFIER}\"}, spec: {replicas: 1, template: {spec: {}}}}\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	before := len(s.objects)
	for _, c := range []struct{ args, says string }{
		{"run load.yaml", "21 objects made"},
		{"resume", "22 made before"},
		{"undo", "21 objects removed"},
		{"status", "undone"},
	} {
		var printed bytes.Buffer
		if code := runUntil(t.Context(), "devel", append([]string{"load", "--state-dir", "runs"}, strings.Fields(c.args)...), &printed, &printed); code != ui.Done || !strings.Contains(printed.String(), c.says) {
			t.Fatalf("load %s: exit code %d, want %q\n%s%q", c.args, code, c.says, &printed, s.denied)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.denied) > 0 {
		t.Errorf("the role lacks %q", s.denied)
	}
	for _, part := range s.holds() {
		if !s.used[part] {
			t.Errorf("nothing asks for %s (rule, verb, group/resource)", part)
		}
	}
	if len(s.objects) != before {
		t.Errorf("left: %q", slices.Sorted(maps.Keys(s.objects)))
	}
}
