package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/kube/nodestatus"
	"fettle.dev/fettle/kube/tuned"
)

// api is an API server that answers these paths, and "not found" to all others.
func api(t *testing.T, answers map[string]string) (kubeconfig string) {
	t.Helper()
	t.Helper()
	return server(t, func(w http.ResponseWriter, r *http.Request) {
		text, ok := answers[r.URL.Path]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			text = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`
		}
		fmt.Fprint(w, text)
	})
}

// server is an API server with the given answers.
func server(t *testing.T, answer http.HandlerFunc) (kubeconfig string) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		answer(w, r)
	}))
	t.Cleanup(s.Close)
	kubeconfig = filepath.Join(t.TempDir(), "config")
	text := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: a, clusters: [{name: a, cluster: {server: %q}}], contexts: [{name: a, context: {cluster: a}}]}`, s.URL)
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}

const (
	groups = `{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"tuned.openshift.io","versions":[{"groupVersion":"tuned.openshift.io/v1","version":"v1"}],"preferredVersion":{"groupVersion":"tuned.openshift.io/v1","version":"v1"}}]}`
	tuneds = `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"tuned.openshift.io/v1","resources":[
{"name":"tuneds","namespaced":true,"kind":"Tuned","verbs":["list"]},{"name":"profiles","namespaced":true,"kind":"Profile","verbs":["list"]}]}`
	coreResources = `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"v1","resources":[{"name":"nodes","namespaced":false,"kind":"Node","verbs":["list"]},{"name":"pods","namespaced":true,"kind":"Pod","verbs":["list"]}]}`
	podsOfAgents  = "/api/v1/namespaces/openshift-cluster-node-tuning-operator/pods"
)

// agentPods returns the pods of the nodes' agents; a name that ends with "!" is not Ready.
func agentPods(nodes ...string) string {
	var items []string
	for _, n := range nodes {
		name, ill := strings.CutSuffix(n, "!")
		ready := "True"
		if ill {
			ready = "False"
		}
		items = append(items, fmt.Sprintf(`{"metadata":{"name":"agent-%s"},"spec":{"nodeName":%q,"containers":[]},"status":{"phase":"Running","conditions":[{"type":"Ready","status":%q,"lastTransitionTime":"2026-11-21T10:00:00Z","message":"no answer"}]}}`, name, name, ready))
	}
	return `{"kind":"PodList","apiVersion":"v1","items":[` + strings.Join(items, ",") + `]}`
}

const tunedObjects = "/apis/tuned.openshift.io/v1/namespaces/openshift-cluster-node-tuning-operator/"

// tunedCluster answers for two nodes, one with a value that has drifted and one that no rule
// matches.
func tunedCluster() map[string]string {
	return map[string]string{
		"/apis": groups, "/apis/tuned.openshift.io/v1": tuneds, "/api": `{"kind":"APIVersions","versions":["v1"]}`, "/api/v1": coreResources,
		"/apis/tuned.openshift.io": `{"kind":"APIGroup","apiVersion":"v1","name":"tuned.openshift.io","versions":[{"groupVersion":"tuned.openshift.io/v1","version":"v1"}],"preferredVersion":{"groupVersion":"tuned.openshift.io/v1","version":"v1"}}`,
		"/api/v1/nodes":            `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","items":[{"metadata":{"name":"n1","labels":{"a":""}}},{"metadata":{"name":"n2"}}]}`,
		podsOfAgents:               agentPods("n1"),
		tunedObjects + "tuneds": `{"kind":"TunedList","apiVersion":"tuned.openshift.io/v1","items":[{"metadata":{"name":"default"},"spec":{"managementState":"Unmanaged",
"profile":[{"name":"p","data":"[vm]\n"},{"name":"bad","data":"x"}],"recommend":[{"profile":"p","priority":1,"match":[{"label":"a"}]}]}}]}`,
		tunedObjects + "profiles": `{"kind":"ProfileList","apiVersion":"tuned.openshift.io/v1","items":[
{"metadata":{"name":"n1","annotations":{"fettle.dev/rule":"as given","fettle.dev/values":"{\"values\":[{\"setting\":\"sysctl:a\",\"verdict\":\"drifted\",\"want\":\"1\",\"now\":\"2\"}]}","fettle.dev/history":"{\"switches\":[{\"time\":\"2026-11-21T08:00:00Z\",\"to\":\"p\",\"transaction\":1,\"by\":\"agent of node n1\",\"why\":\"Profile n1: p\"},{\"time\":\"2026-11-21T09:00:00Z\",\"from\":\"p\",\"to\":\"p\",\"transaction\":2,\"by\":\"agent of node n1\",\"why\":\"Profile n1: p\"}]}"}},
"spec":{"config":{"tunedProfile":"p"}},"status":{"tunedProfile":"p","conditions":[{"type":"Applied","status":"True","lastTransitionTime":null},
{"type":"Degraded","status":"True","reason":"ValuesDrifted","message":"changed since","lastTransitionTime":null}]}},
{"metadata":{"name":"n3"},"spec":{"config":{"tunedProfile":"p"}}}]}`,
	}
}

func TestStatus(t *testing.T) {
	const in = tunedObjects
	kubeconfig := api(t, tunedCluster())
	t.Setenv("KUBECONFIG", "")
	status := func(args ...string) (int, string, string) {
		t.Helper()
		var out, errs bytes.Buffer
		code := runUntil(t.Context(), "1", append([]string{"status", "--kubeconfig", kubeconfig}, args...), &out, &errs)
		return code, out.String(), errs.String()
	}
	code, out, errs := status()
	const want = `2 nodes: 1 degraded, 1 none

Nodes
node  state     wanted  applied  rule
n1    degraded  p       p        as given
n2    none      -       -        no rule of any Tuned object matches

Warnings
! managementState of Tuned default is Unmanaged
! node n1: Degraded is True (ValuesDrifted): changed since
! node n1: sysctl:a: want 1, has 2: drifted
! Tuned default is not valid: profile bad, line 1: expected a [section] before "x"
! Profile n3: node not found

To see the values and last switches of one node:
    kubectl fettle status n1
`
	if code != ui.Done || out != want || errs != "" {
		t.Errorf("exit code %d, said %q, printed\n%s\nwant\n%s", code, errs, out, want)
	}
	if _, out, _ := status("n1"); !strings.HasSuffix(out, `
Last switches
node  since                 from  to                           by                why
n1    2026-11-21 08:00:00Z  -     p                            agent of node n1  Profile n1: p
n1    2026-11-21 09:00:00Z  p     p (its content has changed)  agent of node n1  Profile n1: p
`+"") {
		t.Errorf("the history is not at the end:\n%s", out)
	}
	code, out, _ = status("n2", "--output", "json")
	var d struct {
		Nodes []struct{ Node, State string }
	}
	if err := json.Unmarshal([]byte(out), &d); err != nil || code != ui.Done || len(d.Nodes) != 1 || d.Nodes[0].Node != "n2" {
		t.Errorf("%d %v %s", code, err, out)
	}
	valid(t, "node-status", []byte(out))
	if _, out, _ := status("--output", "json"); out != "" {
		valid(t, "node-status", []byte(out))
	}
	if code, _, errs := status("n4"); code != ui.Usage || !strings.Contains(errs, `no node is named "n4"`) {
		t.Errorf("%d %q", code, errs)
	}
	sameHeadline(t, "status", "--kubeconfig", kubeconfig)
	// Two rules of one priority; no objects; no namespace.
	all := map[string]string{
		"/apis": groups, "/apis/tuned.openshift.io/v1": tuneds, "/api": `{"kind":"APIVersions","versions":["v1"]}`,
		"/api/v1":                  strings.Replace(coreResources, "}]}", `},{"name":"namespaces","namespaced":false,"kind":"Namespace","verbs":["get"]}]}`, 1),
		"/apis/tuned.openshift.io": `{"kind":"APIGroup","apiVersion":"v1","name":"tuned.openshift.io","versions":[{"groupVersion":"tuned.openshift.io/v1","version":"v1"}],"preferredVersion":{"groupVersion":"tuned.openshift.io/v1","version":"v1"}}`,
		"/api/v1/nodes":            `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","items":[{"metadata":{"name":"n1"}},{"metadata":{"name":"n2"}}]}`,
		podsOfAgents:               agentPods(),
		in + "profiles":            `{"kind":"ProfileList","apiVersion":"tuned.openshift.io/v1","items":[]}`,
		in + "tuneds": `{"kind":"TunedList","apiVersion":"tuned.openshift.io/v1","items":[
{"metadata":{"name":"a"},"spec":{"profile":[{"name":"p","data":"[vm]\n"}],"recommend":[{"profile":"p","priority":7}]}},
{"metadata":{"name":"b"},"spec":{"profile":[{"name":"q","data":"[main]\ninclude=gone\n"}],"recommend":[{"profile":"q","priority":7}]}}]}`,
	}
	kubeconfig = api(t, all)
	if _, out, _ := status(); !strings.Contains(out, "- Tuned b: recommend[0]: profile gone, included by q, is in no Tuned object and not built in; the node must have it\n") || strings.Contains(out, "not valid") {
		t.Errorf("no warning about a valid object:\n%s", out)
	}
	if code, out, _ := status(); code != ui.Done || !strings.Contains(out, "! node n1, n2: Tuned b, recommend[0] (profile q) also matches, with the same priority 7; Tuned a") {
		t.Errorf("%d\n%s", code, out)
	}
	const nowhere = "/apis/tuned.openshift.io/v1/namespaces/nowhere/"
	all[in+"tuneds"] = `{"kind":"TunedList","apiVersion":"tuned.openshift.io/v1","items":[]}`
	all[nowhere+"tuneds"], all[nowhere+"profiles"] = all[in+"tuneds"], all[in+"profiles"]
	all["/api/v1/namespaces/openshift-cluster-node-tuning-operator"] = `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"openshift-cluster-node-tuning-operator"}}`
	kubeconfig = api(t, all)
	if code, out, errs := status(); code != ui.Done || !strings.Contains(errs, "no Tuned object in openshift-cluster-node-tuning-operator") || !strings.Contains(out, "none   -       -        openshift-cluster-node-tuning-operator has no Tuned object\n") {
		t.Errorf("%d %q\n%s", code, errs, out)
	}
	if code, _, errs := status("-n", "nowhere"); code != ui.Usage || !strings.Contains(errs, "namespace nowhere not found") {
		t.Errorf("%d %q", code, errs)
	}
	kubeconfig = api(t, map[string]string{"/apis": `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`, "/api": `{"kind":"APIVersions","versions":["v1"]}`, "/api/v1": coreResources})
	if code, _, errs := status(); code != ui.Failed || !strings.Contains(errs, "the cluster has no Tuned and Profile") {
		t.Errorf("%d %q", code, errs)
	}
}

// TestStatusOfAgents tests that a node without a running agent is not ok, whatever the agent's last
// report was.
func TestStatusOfAgents(t *testing.T) {
	const in = "/apis/tuned.openshift.io/v1/namespaces/openshift-cluster-node-tuning-operator/"
	var nodes, profiles []string
	for _, n := range []string{"n1", "n2", "n3", "n4"} {
		nodes = append(nodes, fmt.Sprintf(`{"metadata":{"name":%q}}`, n))
		profiles = append(profiles, fmt.Sprintf(`{"metadata":{"name":%q,"annotations":{"fettle.dev/rule":"as given","fettle.dev/values":"{\"values\":[]}"}},"spec":{"config":{"tunedProfile":"p"}},
"status":{"tunedProfile":"p","conditions":[{"type":"Applied","status":"True","lastTransitionTime":null},{"type":"Degraded","status":"False","lastTransitionTime":null}]}}`, n))
	}
	answers := map[string]string{
		"/apis": groups, "/apis/tuned.openshift.io/v1": tuneds, "/api": `{"kind":"APIVersions","versions":["v1"]}`, "/api/v1": coreResources,
		"/apis/tuned.openshift.io": `{"kind":"APIGroup","apiVersion":"v1","name":"tuned.openshift.io","versions":[{"groupVersion":"tuned.openshift.io/v1","version":"v1"}],"preferredVersion":{"groupVersion":"tuned.openshift.io/v1","version":"v1"}}`,
		"/api/v1/nodes":            `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","items":[` + strings.Join(nodes, ",") + `]}`,
		in + "tuneds":              `{"kind":"TunedList","apiVersion":"tuned.openshift.io/v1","items":[{"metadata":{"name":"default"},"spec":{}}]}`,
		in + "profiles":            `{"kind":"ProfileList","apiVersion":"tuned.openshift.io/v1","items":[` + strings.Join(profiles, ",") + `]}`,
		podsOfAgents:               agentPods("n1", "n2!"),
	}
	status := func(kubeconfig string, args ...string) (int, string, string) {
		t.Helper()
		t.Setenv("KUBECONFIG", "")
		var out, errs bytes.Buffer
		code := runUntil(t.Context(), "1", append([]string{"status", "--kubeconfig", kubeconfig}, args...), &out, &errs)
		return code, out.String(), errs.String()
	}
	kubeconfig := api(t, answers)
	const want = `4 nodes: 3 no-agent, 1 ok

Nodes
node  state     wanted  applied  rule
n2    no-agent  p       p        as given
n3    no-agent  p       p        as given
n4    no-agent  p       p        as given
n1    ok        p       p        as given

Warnings
! node n2: its agent is not running: pod agent-n2 is not Ready since 2026-11-21T10:00:00Z: no answer
! node n3, n4: its agent has no pod

Nodes without a running agent show their last report. To find out why the agent is missing:
    kubectl -n openshift-cluster-node-tuning-operator get daemonset,pods -l app.kubernetes.io/name=fettle-agent -o wide
`
	if code, out, errs := status(kubeconfig); code != ui.Done || out != want || errs != "" {
		t.Errorf("exit code %d, said %q, printed\n%s\nwant\n%s", code, errs, out, want)
	}
	if code, out, _ := status(kubeconfig, "n2", "n1", "n2"); code != ui.Done || !strings.Contains(out, "2 nodes: 1 no-agent, 1 ok\n") || strings.Count(out, "\nn2 ") != 1 {
		t.Errorf("a node that is named twice: %d\n%s", code, out)
	}
	if _, out, _ := status(kubeconfig, "n1"); !strings.Contains(out, "1 node: 1 ok\n") {
		t.Errorf("one node:\n%s", out)
	}
	code, out, _ := status(kubeconfig, "n2", "--output", "json")
	if code != ui.Done || !strings.Contains(out, `"state": "no-agent"`) || !strings.Contains(out, `"pod": "agent-n2"`) {
		t.Errorf("%d %s", code, out)
	}
	valid(t, "node-status", []byte(out))
	// Who may not see the pods is told what the agents have said, and that it is unknown
	// whether they run.
	forbidden := server(t, func(w http.ResponseWriter, r *http.Request) {
		text, ok := answers[r.URL.Path]
		switch {
		case r.URL.Path == podsOfAgents:
			w.WriteHeader(http.StatusForbidden)
			text = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"no"}`
		case !ok:
			w.WriteHeader(http.StatusNotFound)
			text = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`
		}
		fmt.Fprint(w, text)
	})
	code, out, errs := status(forbidden)
	if code != ui.Done || !strings.Contains(out, "4 nodes: 4 ok\n") || !strings.Contains(errs, "unknown whether agents run: allow this user to list pods in openshift-cluster-node-tuning-operator") {
		t.Errorf("%d %q\n%s", code, errs, out)
	}
}

// TestStatusOfMany tests that the page of many nodes is short, and that its headline counts all.
func TestStatusOfMany(t *testing.T) {
	d := nodestatus.Document{Management: tuned.Managed, Counts: map[nodestatus.State]int{nodestatus.OK: 1999, nodestatus.Failed: 1}}
	for i := range 2000 {
		d.Nodes = append(d.Nodes, nodestatus.Node{Node: fmt.Sprintf("worker-%04d", i), State: nodestatus.OK, Wanted: "throughput-performance", Applied: "throughput-performance", Rule: strings.Repeat("because ", 20)})
	}
	d.Nodes[1234].State = nodestatus.Failed
	for i := range 100 {
		d.Stray = append(d.Stray, fmt.Sprintf("gone-%d", i))
	}
	d.Headline = statusHeadline(&d)
	if d.Headline.Figures["nodes"] != 2000 || d.Headline.Figures["failed"] != 1 {
		t.Errorf("%v", d.Headline.Figures)
	}
	var out bytes.Buffer
	a := &app{screen: ui.NewScreen(&out, &out)}
	a.screen.Width = 80
	a.printStatus(&d, false, false)
	page := out.String()
	if n := strings.Count(page, "\n"); n > 40 || !strings.Contains(page, "node         state") || !strings.Contains(page, "kubectl fettle status worker-1234\n") {
		t.Errorf("%d lines\n%s", n, page)
	}
	for line := range strings.Lines(page) {
		if utf8.RuneCountInString(line) > 81 {
			t.Errorf("too long: %s", line)
		}
	}
	out.Reset()
	a.printStatus(&d, false, true)
	if n := strings.Count(out.String(), "worker-"); n < 2000 {
		t.Errorf("%d nodes with --details", n)
	}
}
