package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/ui"
)

var exampleCall = regexp.MustCompile(`(?m)^# +\$ kubectl fettle (.*)$`)

// TestExamples runs every command that the files of examples/kubernetes name, against an
// API server with one node for the pool.
func TestExamples(t *testing.T) {
	t.Chdir("../..")
	group := func(name, version string) string {
		return `{"name":"` + name + `","versions":[{"groupVersion":"` + name + `/` + version + `","version":"` + version + `"}],"preferredVersion":{"groupVersion":"` + name + `/` + version + `","version":"` + version + `"}}`
	}
	kubeconfig := api(t, map[string]string{
		"/apis":   `{"kind":"APIGroupList","apiVersion":"v1","groups":[` + group("fettle.dev", "v1alpha1") + `]}`,
		"/api":    `{"kind":"APIVersions","versions":["v1"]}`,
		"/api/v1": coreResources,
		"/apis/fettle.dev/v1alpha1": `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"fettle.dev/v1alpha1","resources":[
{"name":"kubeletpools","namespaced":false,"kind":"KubeletPool","verbs":["list"]},{"name":"nodekubelets","namespaced":false,"kind":"NodeKubelet","verbs":["list"]}]}`,
		"/apis/fettle.dev/v1alpha1/kubeletpools": `{"kind":"KubeletPoolList","apiVersion":"fettle.dev/v1alpha1","items":[]}`,
		"/apis/fettle.dev/v1alpha1/nodekubelets": `{"kind":"NodeKubeletList","apiVersion":"fettle.dev/v1alpha1","items":[]}`,
		"/api/v1/nodes":                          `{"kind":"NodeList","apiVersion":"v1","items":[{"metadata":{"name":"n1","labels":{"node-role.kubernetes.io/web":""}},"status":{"capacity":{"cpu":"4","memory":"16Gi"},"conditions":[{"type":"Ready","status":"True"}]}}]}`,
		"/api/v1/pods":                           `{"kind":"PodList","apiVersion":"v1","items":[]}`,
		"/api/v1/nodes/n1/proxy/configz":         `{"kubeletconfig":{"maxPods":110}}`,
		podsOfAgents:                             agentPods("n1"),
	})
	files, err := filepath.Glob("examples/kubernetes/*.yaml")
	if err != nil || len(files) < 3 {
		t.Fatalf("%d examples, %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		calls := exampleCall.FindAllStringSubmatch(string(text), -1)
		if len(calls) == 0 {
			t.Errorf("%s names no command", file)
		}
		for _, m := range calls {
			args := strings.Fields(m[1])
			if !strings.Contains(m[1], "--offline") {
				args = append(args, "--kubeconfig", kubeconfig)
			}
			if code, out, errs := run(t, args...); code != ui.Done {
				t.Errorf("%s: kubectl fettle %s: exit code %d\n%s%s", file, m[1], code, out, errs)
			}
		}
	}
}
