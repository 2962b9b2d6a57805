package undo

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/kube/api"
	"fettle.dev/fettle/internal/kube/load/plan"
)

// answers is an API server that has groups and objects; what it has not is 404.
type answers map[string]any

func (a answers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer, ok := a[r.URL.Path]
	code, fails := answer.(int)
	switch {
	case !ok:
		code, fails = http.StatusNotFound, true
	case !fails && r.URL.Query().Get("labelSelector") != "" && r.URL.Query().Get("labelSelector") != plan.RunLabel+"!=r1":
		code, fails = http.StatusBadRequest, true
	}
	w.Header().Set("Content-Type", "application/json")
	if fails {
		w.WriteHeader(code)
		fmt.Fprintf(w, `{"kind":"Status","message":"of the test, %d"}`, code)
		return
	}
	_ = json.NewEncoder(w).Encode(answer)
}

type o = map[string]any

func has(resources ...string) o {
	var all []o
	for _, name := range resources {
		verbs := []string{"get", "list"}
		if name == "bindings" {
			verbs = []string{"create"}
		}
		all = append(all, o{"name": name, "kind": name, "namespaced": name != "nodes", "verbs": verbs})
	}
	return o{"resources": all}
}

func items(metadata ...o) o {
	var all []o
	for _, m := range metadata {
		all = append(all, o{"metadata": m})
	}
	return o{"items": all}
}

// TestForeign: whatever kind of object somebody has put into a namespace of the run, the
// namespace is kept; what controllers put there does not keep it.
func TestForeign(t *testing.T) {
	object := func(name string) o { return o{"name": name, "namespace": "n0"} }
	cluster := func(change answers) answers {
		a := answers{
			"/api/v1": has("pods", "pods/log", "configmaps", "serviceaccounts", "endpoints", "events", "bindings", "nodes"),
			"/apis": o{"groups": []o{
				{"preferredVersion": o{"groupVersion": "rbac.authorization.k8s.io/v1"}, "versions": []o{{"groupVersion": "rbac.authorization.k8s.io/v1"}}},
				{"preferredVersion": o{"groupVersion": "example.com/v2"}, "versions": []o{{"groupVersion": "example.com/v2"}, {"groupVersion": "example.com/v1"}}},
				{"preferredVersion": o{"groupVersion": "metrics.k8s.io/v1beta1"}, "versions": []o{{"groupVersion": "metrics.k8s.io/v1beta1"}}},
			}},
			"/apis/rbac.authorization.k8s.io/v1": has("roles"),
			"/apis/example.com/v2":               has("widgets"),
			"/apis/example.com/v1":               has("widgets", "gadgets"),
			"/apis/metrics.k8s.io/v1beta1":       503,
			// What there is in each namespace.
			"/api/v1/namespaces/n0/configmaps":      items(object("kube-root-ca.crt")),
			"/api/v1/namespaces/n0/serviceaccounts": items(object("default")),
			"/api/v1/namespaces/n0/endpoints":       items(object("web")),
			"/api/v1/namespaces/n0/events":          items(object("web.1")),
			"/api/v1/namespaces/n0/pods":            items(o{"name": "web-1", "namespace": "n0", "ownerReferences": []o{{"uid": "u"}}}),
		}
		for path, answer := range change {
			a[path] = answer
		}
		return a
	}
	for name, c := range map[string]struct {
		change answers
		want   string // "" for a namespace that goes
	}{
		"nothing":                      {nil, ""},
		"a role":                       {answers{"/apis/rbac.authorization.k8s.io/v1/namespaces/n0/roles": items(object("theirs"))}, "it holds roles/theirs, which this run did not make"},
		"a custom resource":            {answers{"/apis/example.com/v2/namespaces/n0/widgets": items(object("w"))}, "it holds widgets/w"},
		"one of another version alone": {answers{"/apis/example.com/v1/namespaces/n0/gadgets": items(object("g"))}, "it holds gadgets/g"},
		"a pod":                        {answers{"/api/v1/namespaces/n0/pods": items(object("p"))}, "it holds pods/p"},
		"what cannot be seen":          {answers{"/apis/example.com/v2/namespaces/n0/widgets": 403}, "whether somebody has put widgets into it cannot be seen"},
		"a group that is down":         {answers{"/apis/example.com/v2": 503}, "whether somebody has put objects of example.com/v2 into it cannot be seen"},
	} {
		t.Run(name, func(t *testing.T) {
			h := httptest.NewServer(cluster(c.change))
			defer h.Close()
			server, err := serverAt(h.URL)
			if err != nil {
				t.Fatal(err)
			}
			u := &Undo{Plan: &plan.Plan{Run: "r1"}, Server: server}
			found, err := u.foreign(t.Context(), map[string]int{"n0": 1})
			switch why, kept := found["n0"]; {
			case err != nil:
				t.Error(err)
			case kept != (c.want != "") || !strings.HasPrefix(why, c.want):
				t.Errorf("kept %v: %q, want %q", kept, why, c.want)
			}
			// Of many namespaces the whole cluster is asked.
			many := map[string]int{"n0": 1}
			for i := range perSpace {
				many[fmt.Sprint("m", i)] = i + 2
			}
			a := cluster(c.change)
			for path, answer := range a {
				if strings.Contains(path, "/namespaces/n0") {
					a[strings.Replace(path, "/namespaces/n0", "", 1)] = answer
					if answer != http.StatusForbidden { // then each namespace is asked
						delete(a, path)
					}
				}
			}
			all := httptest.NewServer(a)
			defer all.Close()
			if u.Server, err = serverAt(all.URL); err != nil {
				t.Fatal(err)
			}
			found, err = u.foreign(t.Context(), many)
			if why := found["n0"]; err != nil || !strings.HasPrefix(why, c.want) || (why != "") != (c.want != "") {
				t.Errorf("asked of all: %v %q, want %q", err, why, c.want)
			}
		})
	}
}

func serverAt(at string) (*api.Server, error) {
	base, err := url.Parse(at)
	return api.New(base, http.DefaultTransport), err
}
