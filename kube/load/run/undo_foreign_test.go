package run

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"fettle.dev/fettle/kube/cluster"
	"fettle.dev/fettle/kube/load/plan"
)

// undoAnswers is an API server with groups and objects; other paths give 404.
type undoAnswers map[string]any

func (a undoAnswers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer, ok := a[r.URL.Path]
	code, fails := answer.(int)
	switch {
	case !ok:
		code, fails = http.StatusNotFound, true
	case !fails && r.URL.Query().Get("labelSelector") != "": // whose an object is no label tells
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

// items returns a list; "secrets" in the metadata of a service account becomes a field next to it.
func items(metadata ...o) o {
	var all []o
	for _, m := range metadata {
		i := o{"metadata": m}
		if secrets, has := m["secrets"]; has {
			i["secrets"] = secrets
		}
		all = append(all, i)
	}
	return o{"items": all}
}

// aPlan is the plan of a namespace n0 with a config map m0, a stateful set s0 with claims, and a
// service. Their UIDs in the state are run-0 and so on.
func aPlan(t *testing.T) (*plan.Plan, *State) {
	t.Helper()
	l := &plan.Load{Stages: []plan.Stage{{At: "f:1", Prefix: "n", Iterations: 1, PerNamespace: 1, IfExists: plan.Fail, Groups: []plan.Group{{
		At: "f:2", File: "t", Count: 1, Template: json.RawMessage(`{"kind":"Template","apiVersion":"v1","parameters":[{"name":"IDENTIFIER"}],"objects":[
			{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"m0"}},
			{"kind":"StatefulSet","apiVersion":"apps/v1","metadata":{"name":"s0"},"spec":{"volumeClaimTemplates":[{"metadata":{"name":"data"}}],"template":{"spec":{"containers":[]}}}},
			{"kind":"Service","apiVersion":"v1","metadata":{"name":"web"}}]}`),
	}}}}}
	p, err := plan.Compile(t.Context(), l, "r1", nil)
	if err != nil {
		t.Fatal(err)
	}
	state := &State{Reserved: p.Len(), Objects: make([]Object, p.Len())}
	for i := range p.Len() {
		state.Objects[i] = Object{Was: Created, UID: "run-" + p.Kind(i).Kind}
	}
	return p, state
}

// TestForeign tests that a namespace is kept if another user has put an object of any kind into it,
// but not for objects of controllers.
func TestForeign(t *testing.T) {
	object := func(name string) o { return o{"name": name, "namespace": "n0", "uid": "uid-" + name} }
	with := func(m o, more ...any) o {
		for i := 0; i < len(more); i += 2 {
			m[more[i].(string)] = more[i+1]
		}
		return m
	}
	owned := func(name string, owners ...string) o { // KIND/UID
		var all []o
		for _, by := range owners {
			kind, uid, _ := strings.Cut(by, "/")
			version := "v1"
			if kind != "pods" {
				version = "apps/v1"
			}
			all = append(all, o{"apiVersion": version, "kind": kind, "name": "x", "uid": uid})
		}
		return with(object(name), "ownerReferences", all)
	}
	run := func(kind, name string) o {
		return with(object(name), "uid", "run-"+kind, "labels", o{plan.RunLabel: "r1"})
	}
	token := func(name string) o {
		return with(object(name), "annotations", o{"kubernetes.io/service-account.name": "default"})
	}
	listing := func(secrets ...string) o {
		var all []o
		for _, name := range secrets {
			all = append(all, o{"name": name})
		}
		return items(with(object("default"), "secrets", all))
	}
	cluster := func(change undoAnswers) undoAnswers {
		a := undoAnswers{
			"/api/v1": has("pods", "pods/log", "configmaps", "serviceaccounts", "endpoints", "events", "bindings", "nodes", "secrets", "services", "persistentvolumeclaims"),
			"/apis": o{"groups": []o{
				{"preferredVersion": o{"groupVersion": "rbac.authorization.k8s.io/v1"}, "versions": []o{{"groupVersion": "rbac.authorization.k8s.io/v1"}}},
				{"preferredVersion": o{"groupVersion": "example.com/v2"}, "versions": []o{{"groupVersion": "example.com/v2"}, {"groupVersion": "example.com/v1"}}},
				{"preferredVersion": o{"groupVersion": "apps/v1"}},
				{"preferredVersion": o{"groupVersion": "discovery.k8s.io/v1"}},
				{"preferredVersion": o{"groupVersion": "metrics.k8s.io/v1beta1"}, "versions": []o{{"groupVersion": "metrics.k8s.io/v1beta1"}}},
			}},
			"/apis/rbac.authorization.k8s.io/v1": has("roles"),
			"/apis/example.com/v2":               has("widgets"),
			"/apis/example.com/v1":               has("widgets", "gadgets"),
			"/apis/metrics.k8s.io/v1beta1":       503,
			"/apis/apps/v1":                      has("deployments", "replicasets", "statefulsets"),
			"/apis/discovery.k8s.io/v1":          has("endpointslices"),
			// What there is in each namespace.
			"/api/v1/namespaces/n0/configmaps":                       items(object("kube-root-ca.crt"), run("ConfigMap", "m0")),
			"/api/v1/namespaces/n0/serviceaccounts":                  listing("default-token-1"),
			"/api/v1/namespaces/n0/secrets":                          items(token("default-token-1")),
			"/api/v1/namespaces/n0/services":                         items(run("Service", "web")),
			"/api/v1/namespaces/n0/endpoints":                        items(object("web")),
			"/apis/discovery.k8s.io/v1/namespaces/n0/endpointslices": items(with(object("web-1"), "labels", o{"kubernetes.io/service-name": "web"})),
			"/api/v1/namespaces/n0/events":                           items(object("web.1")),
			"/apis/apps/v1/namespaces/n0/statefulsets":               items(run("StatefulSet", "s0")),
			"/api/v1/namespaces/n0/pods":                             items(owned("s0-0", "statefulsets/run-StatefulSet")),
			"/api/v1/namespaces/n0/persistentvolumeclaims":           items(object("data-s0-0")),
			"/apis/example.com/v2/namespaces/n0/widgets":             items(owned("of-a-pod", "pods/uid-s0-0")),
		}
		for path, answer := range change {
			a[path] = answer
		}
		return a
	}
	for name, c := range map[string]struct {
		change undoAnswers
		want   string // "" for a namespace that goes
	}{
		"nothing":                      {nil, ""},
		"a role":                       {undoAnswers{"/apis/rbac.authorization.k8s.io/v1/namespaces/n0/roles": items(object("theirs"))}, "it holds roles/theirs, not created by this run"},
		"a custom resource":            {undoAnswers{"/apis/example.com/v2/namespaces/n0/widgets": items(object("w"))}, "it holds widgets/w"},
		"one of another version alone": {undoAnswers{"/apis/example.com/v1/namespaces/n0/gadgets": items(object("g"))}, "it holds gadgets/g"},
		"a pod":                        {undoAnswers{"/api/v1/namespaces/n0/pods": items(object("p"))}, "it holds pods/p"},
		"one with the run's label":     {undoAnswers{"/api/v1/namespaces/n0/configmaps": items(run("ConfigMap", "m0"), with(object("copy"), "labels", o{plan.RunLabel: "r1"}))}, "it holds configmaps/copy, not created by this run"},
		"a copy, label, note and all":  {undoAnswers{"/apis/apps/v1/namespaces/n0/deployments": items(with(object("m0"), "labels", o{plan.RunLabel: "r1"}, "annotations", o{plan.ObjectNote: "1"}))}, "it holds deployments/m0"},
		"one that was replaced":        {undoAnswers{"/api/v1/namespaces/n0/configmaps": items(with(run("ConfigMap", "m0"), "uid", "another"))}, "it holds configmaps/m0"},
		"an owner of somebody else":    {undoAnswers{"/api/v1/namespaces/n0/pods": items(owned("p", "nodes/uid-of-a-node"))}, "it holds pods/p"},
		"two owners, one of them not":  {undoAnswers{"/api/v1/namespaces/n0/pods": items(owned("p", "statefulsets/run-StatefulSet", "nodes/x"))}, "it holds pods/p"},
		"owners in a ring": {undoAnswers{
			"/api/v1/namespaces/n0/pods":                 items(owned("p", "widgets/uid-w")),
			"/apis/example.com/v2/namespaces/n0/widgets": items(owned("w", "pods/uid-p")),
		}, "it holds pods/p"},
		"owned by what somebody has put there": {undoAnswers{
			"/apis/apps/v1/namespaces/n0/deployments": items(object("theirs")),
			"/api/v1/namespaces/n0/pods":              items(owned("a", "deployments/uid-theirs")),
		}, "it holds deployments/theirs"},
		"a token that nobody lists":      {undoAnswers{"/api/v1/namespaces/n0/secrets": items(token("mine"))}, "it holds secrets/mine"},
		"an account without a token":     {undoAnswers{"/api/v1/namespaces/n0/serviceaccounts": listing()}, "it holds secrets/default-token-1"},
		"endpoints without a service":    {undoAnswers{"/api/v1/namespaces/n0/endpoints": items(object("lonely"))}, "it holds endpoints/lonely"},
		"a slice without a service":      {undoAnswers{"/apis/discovery.k8s.io/v1/namespaces/n0/endpointslices": items(object("lonely"))}, "it holds endpointslices/lonely"},
		"a claim of no set":              {undoAnswers{"/api/v1/namespaces/n0/persistentvolumeclaims": items(object("data-s1-0"))}, "it holds persistentvolumeclaims/data-s1-0"},
		"an account of OpenShift's name": {undoAnswers{"/api/v1/namespaces/n0/serviceaccounts": items(object("builder"), with(object("default"), "secrets", []o{{"name": "default-token-1"}}))}, "it holds serviceaccounts/builder"},
		"what OpenShift puts there": {undoAnswers{
			"/apis":                                 o{"groups": []o{{"preferredVersion": o{"groupVersion": "apps/v1"}}, {"preferredVersion": o{"groupVersion": "discovery.k8s.io/v1"}}, {"preferredVersion": o{"groupVersion": "example.com/v2"}}, {"preferredVersion": o{"groupVersion": "project.openshift.io/v1"}}}},
			"/apis/project.openshift.io/v1":         has("templates"),
			"/api/v1/namespaces/n0/serviceaccounts": items(with(object("builder"), "secrets", []o{{"name": "builder-dockercfg-1"}})),
			"/api/v1/namespaces/n0/secrets": items(
				with(object("builder-token-2"), "annotations", o{"kubernetes.io/service-account.name": "builder"}),
				with(owned("builder-dockercfg-1", "secrets/uid-builder-token-2"), "annotations", o{"kubernetes.io/service-account.name": "builder", "openshift.io/token-secret.name": "builder-token-2"}),
			),
		}, ""},
		"what is on its way out": {undoAnswers{"/api/v1/namespaces/n0/secrets": items(with(object("theirs"), "deletionTimestamp", "2026-01-01T00:00:00Z"))}, ""},
		"what cannot be seen":    {undoAnswers{"/apis/example.com/v2/namespaces/n0/widgets": 403}, "unknown whether another client has put widgets into it: "},
		"a group that is down":   {undoAnswers{"/apis/example.com/v2": 503}, "unknown whether another client has put objects of example.com/v2 into it: "},
	} {
		t.Run(name, func(t *testing.T) {
			h := httptest.NewServer(cluster(c.change))
			defer h.Close()
			server, err := serverAt(h.URL)
			if err != nil {
				t.Fatal(err)
			}
			p, state := aPlan(t)
			u := &Undo{Plan: p, State: state, Server: server}
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

func serverAt(at string) (*cluster.Server, error) {
	base, err := url.Parse(at)
	return cluster.New(base, http.DefaultTransport), err
}

// TestMadeMeanwhile tests objects that a controller creates while lists are read: such an object
// may be found before its owner, which is then searched again.
func TestMadeMeanwhile(t *testing.T) {
	p, state := aPlan(t)
	var asked atomic.Int32
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := undoAnswers{
			"/api/v1":       has("pods"),
			"/apis":         o{"groups": []o{{"preferredVersion": o{"groupVersion": "apps/v1"}}}},
			"/apis/apps/v1": has("replicasets"),
			"/api/v1/namespaces/n0/pods": items(o{"name": "p", "namespace": "n0", "uid": "p", "ownerReferences": []o{
				{"apiVersion": "apps/v1", "kind": "replicasets", "uid": "late"}}}),
			"/apis/apps/v1/namespaces/n0/replicasets": items(),
		}
		if strings.HasSuffix(r.URL.Path, "replicasets") && asked.Add(1) > 1 {
			a[r.URL.Path] = items(o{"name": "late", "namespace": "n0", "uid": "late", "ownerReferences": []o{
				{"apiVersion": "apps/v1", "kind": "StatefulSet", "uid": "run-StatefulSet"}}})
		}
		a.ServeHTTP(w, r)
	}))
	defer h.Close()
	server, err := serverAt(h.URL)
	if err != nil {
		t.Fatal(err)
	}
	u := &Undo{Plan: p, State: state, Server: server}
	if found, err := u.foreign(t.Context(), map[string]int{"n0": 1}); err != nil || len(found) > 0 {
		t.Errorf("%v %v", found, err)
	}
}

// TestManyOthers tests that the pods of twenty thousand owners are recognized as the run's, with
// little memory.
func TestManyOthers(t *testing.T) {
	p, state := aPlan(t)
	f := (&Undo{Plan: p, State: state}).found(map[string]int{"n0": 1}, []query{{plan.Kind{APIVersion: "apps/v1", Kind: "ReplicaSet", Resource: "replicasets"}, "n0"}})
	const n = 20000
	owner := func(kind, uid string) []struct{ APIVersion, Kind, UID string } {
		return []struct{ APIVersion, Kind, UID string }{{"apps/v1", kind, uid}}
	}
	see := func(resource, name, kind, by string) {
		m := item{Metadata: cluster.Metadata{Name: name, Namespace: "n0", UID: name}, OwnerReferences: owner(kind, by)}
		f.see(plan.Kind{APIVersion: "v1", Resource: resource}, m)
	}
	for i := range n { // pods first, which is the worst
		see("pods", fmt.Sprint("pod-", i), "ReplicaSet", fmt.Sprint("set-", i%100))
	}
	if len(f.again()) != 1 || len(f.pending) != n {
		t.Errorf("%d wait", len(f.pending))
	}
	for i := range 100 {
		see("replicasets", fmt.Sprint("set-", i), "StatefulSet", "run-StatefulSet")
	}
	if kept := f.verdicts(); len(kept) > 0 || len(f.pending) > 0 {
		t.Errorf("kept %v, %d wait", kept, len(f.pending))
	}
	// What comes behind its owners does not wait.
	for i := range n {
		see("pods", fmt.Sprint("more-", i), "ReplicaSet", fmt.Sprint("set-", i%100))
		if len(f.pending) >= settleAt {
			t.Fatalf("%d wait", len(f.pending))
		}
	}
}
