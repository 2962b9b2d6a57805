package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/ui"
)

// TestStatusOfFile tests that Tuned objects of a file are evaluated together with those of the
// cluster, and that nothing is written. It works before the kinds exist, too.
func TestStatusOfFile(t *testing.T) {
	const in = "/apis/tuned.openshift.io/v1/namespaces/openshift-cluster-node-tuning-operator/"
	all := map[string]string{
		"/apis": groups, "/apis/tuned.openshift.io/v1": tuneds, "/api": `{"kind":"APIVersions","versions":["v1"]}`, "/api/v1": coreResources,
		"/apis/tuned.openshift.io": `{"kind":"APIGroup","apiVersion":"v1","name":"tuned.openshift.io","versions":[{"groupVersion":"tuned.openshift.io/v1","version":"v1"}],"preferredVersion":{"groupVersion":"tuned.openshift.io/v1","version":"v1"}}`,
		"/api/v1/nodes": `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","items":[
{"metadata":{"name":"n1","labels":{"a":""}}},{"metadata":{"name":"n2"}},{"metadata":{"name":"n3","labels":{"old":""}}}]}`,
		podsOfAgents: agentPods("n1", "n2", "n3"),
		in + "tuneds": `{"kind":"TunedList","apiVersion":"tuned.openshift.io/v1","items":[
{"metadata":{"name":"mine"},"spec":{"profile":[{"name":"old","data":"[vm]\n"}],"recommend":[{"profile":"old","priority":5,"match":[{"label":"old"}]}]}}]}`,
		in + "profiles": `{"kind":"ProfileList","apiVersion":"tuned.openshift.io/v1","items":[
{"metadata":{"name":"n1"},"spec":{"config":{"tunedProfile":"openshift-node"}}},{"metadata":{"name":"n2"},"spec":{"config":{"tunedProfile":"openshift-node"}}},
{"metadata":{"name":"n3"},"spec":{"config":{"tunedProfile":"old"}}}]}`,
	}
	t.Setenv("KUBECONFIG", "")
	const head = "apiVersion: tuned.openshift.io/v1\nkind: Tuned\nmetadata: {name: mine, namespace: openshift-cluster-node-tuning-operator}\nspec:\n"
	type document struct {
		Changed int `json:"nodes_changed"`
		Nodes   []struct{ Node, Now, Would string }
		Objects []struct {
			Name  string
			Valid bool
		} `json:"tuned_objects"`
	}
	status := func(kubeconfig, text string, args ...string) (int, document, string, string) {
		t.Helper()
		file := filepath.Join(t.TempDir(), "mine.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var out, errs bytes.Buffer
		code := runUntil(t.Context(), "1", append([]string{"status", "--kubeconfig", kubeconfig, "--file", file}, args...), &out, &errs)
		var d document
		if strings.HasPrefix(out.String(), "{") {
			valid(t, "tuned-preview", out.Bytes())
			if err := json.Unmarshal(out.Bytes(), &d); err != nil {
				t.Fatal(err)
			}
		}
		return code, d, out.String(), errs.String()
	}
	const mine = head + "  profile: [{name: mine, data: \"[main]\\ninclude=openshift-node\\n\"}]\n  recommend: [{profile: mine, priority: 20, match: [{label: a}]}]\n"
	kubeconfig := api(t, all)
	code, d, out, errs := status(kubeconfig, mine, "--output", "json")
	if code != ui.Done || d.Changed != 2 || len(d.Nodes) != 3 || d.Nodes[0].Would != "mine" || d.Nodes[1].Would != "openshift-node" || d.Nodes[2].Would != "openshift-node" || len(d.Objects) != 1 || !d.Objects[0].Valid {
		t.Errorf("%d %q\n%s", code, errs, out)
	}
	const want = `2 nodes: 1 would get another profile
NODE  NOW             WOULD GET       RULE
n1    openshift-node  mine            Tuned mine, recommend[0] (priority 20): match[0]: node has a=""
n2    openshift-node  openshift-node  Tuned default, recommend[1] (priority 40): matches every node
to apply it:
    kubectl apply -f `
	if _, _, out, errs := status(kubeconfig, mine, "n1", "n2"); !strings.HasPrefix(out, want) {
		t.Errorf("%q\n%s\nwant\n%s", errs, out, want)
	}
	// What would be refused, and whom it would hold.
	code, d, out, errs = status(kubeconfig, head+"  profile: [{name: mine, data: \"[script]\\nscript=x\\n\"}]\n  recommend: [{profile: mine, priority: 20, match: [{label: a}]}]\n", "--output", "json")
	if code != ui.Refused || len(d.Objects) != 1 || d.Objects[0].Valid || d.Nodes[0].Would != "openshift-node" {
		t.Errorf("%d %q\n%s", code, errs, out)
	}
	// Before the kinds are there the operator's own object counts.
	bare := api(t, map[string]string{"/apis": `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`, "/api": `{"kind":"APIVersions","versions":["v1"]}`, "/api/v1": coreResources, "/api/v1/nodes": all["/api/v1/nodes"], podsOfAgents: agentPods()})
	if code, d, out, errs := status(bare, mine, "--output", "json"); code != ui.Done || d.Changed != 3 || d.Nodes[0].Would != "mine" || d.Nodes[1].Would != "openshift-node" || d.Nodes[0].Now != "" {
		t.Errorf("%d %q\n%s", code, errs, out)
	}
	for text, want := range map[string]string{
		"apiVersion: v1\nkind: List\nitems: []\n":                  ": no Tuned object found",
		head + "  profiles: []\n":                                  `unknown field "profiles"`,
		strings.Replace(mine, "namespace: o", "namespace: x-o", 1): "is in namespace x-openshift",
	} {
		if code, _, _, errs := status(kubeconfig, text); code != ui.Usage || !strings.Contains(errs, want) {
			t.Errorf("%d %q, want %q", code, errs, want)
		}
	}
}
