package cli

import (
	"bytes"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/ui"
)

// tunedNodes answers for two nodes with kubelet settings in force, one of them in no pool.
func tunedNodes() map[string]string {
	const in, fettle = tunedObjects, fettleObjects
	return map[string]string{
		"/apis": `{"kind":"APIGroupList","apiVersion":"v1","groups":[
{"name":"tuned.openshift.io","versions":[{"groupVersion":"tuned.openshift.io/v1","version":"v1"}],"preferredVersion":{"groupVersion":"tuned.openshift.io/v1","version":"v1"}},
{"name":"fettle.dev","versions":[{"groupVersion":"fettle.dev/v1alpha1","version":"v1alpha1"}],"preferredVersion":{"groupVersion":"fettle.dev/v1alpha1","version":"v1alpha1"}}]}`,
		"/apis/tuned.openshift.io":    `{"kind":"APIGroup","apiVersion":"v1","name":"tuned.openshift.io","versions":[{"groupVersion":"tuned.openshift.io/v1","version":"v1"}],"preferredVersion":{"groupVersion":"tuned.openshift.io/v1","version":"v1"}}`,
		"/apis/fettle.dev":            `{"kind":"APIGroup","apiVersion":"v1","name":"fettle.dev","versions":[{"groupVersion":"fettle.dev/v1alpha1","version":"v1alpha1"}],"preferredVersion":{"groupVersion":"fettle.dev/v1alpha1","version":"v1alpha1"}}`,
		"/apis/tuned.openshift.io/v1": tuneds,
		fettle: `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"fettle.dev/v1alpha1","resources":[
{"name":"kubeletpools","namespaced":false,"kind":"KubeletPool","verbs":["list"]},{"name":"nodekubelets","namespaced":false,"kind":"NodeKubelet","verbs":["list"]}]}`,
		"/api": `{"kind":"APIVersions","versions":["v1"]}`, "/api/v1": coreResources,
		"/api/v1/nodes":          `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","items":[{"metadata":{"name":"n1","annotations":{"fettle.dev/kubelet-settings":"abc"}}},{"metadata":{"name":"n2","annotations":{"fettle.dev/kubelet-settings":"def"}}}]}`,
		in + "tuneds":            `{"kind":"TunedList","apiVersion":"tuned.openshift.io/v1","items":[{"metadata":{"name":"default"},"spec":{"managementState":"Managed"}}]}`,
		in + "profiles":          `{"kind":"ProfileList","apiVersion":"tuned.openshift.io/v1","items":[{"metadata":{"name":"n1"},"spec":{"config":{"tunedProfile":"p"}}}]}`,
		fettle + "/kubeletpools": `{"kind":"KubeletPoolList","apiVersion":"fettle.dev/v1alpha1","items":[{"metadata":{"name":"workers"},"spec":{"maxUnavailable":"10%"}}]}`,
		fettle + "/nodekubelets": `{"kind":"NodeKubeletList","apiVersion":"fettle.dev/v1alpha1","items":[{"metadata":{"name":"n1"},"spec":{"pool":"workers"},"status":{"has":"abc","phase":"Settled"}}]}`,
	}
}

// TestUninstallSays tests the announced changes, the question, and the message for a cluster
// without settings. kube/operator and test/cluster test the changes.
func TestUninstallSays(t *testing.T) {
	answers := tunedNodes()
	t.Setenv("KUBECONFIG", "")
	uninstall := func(args ...string) (int, string, string) {
		t.Helper()
		var out, errs bytes.Buffer
		code := runUntil(t.Context(), "1", append([]string{"uninstall", "--kubeconfig", api(t, answers)}, args...), &out, &errs)
		return code, out.String(), errs.String()
	}
	code, out, errs := uninstall()
	const want = `profiles of 1 node, at once
kubelet settings of 2 nodes: each kubelet is restarted, if needed after a drain
POOL         NODES  AT ONCE
workers      1      10%
- (no pool)  1      1
`
	if code != ui.Refused || out != want || !strings.Contains(errs, "use --yes to confirm in advance") {
		t.Errorf("exit code %d, said %q, printed\n%s\nwant\n%s", code, errs, out, want)
	}

	answers[fettleObjects+"/kubeletpools"] = `{"kind":"KubeletPoolList","apiVersion":"fettle.dev/v1alpha1","items":[{"metadata":{"name":"workers"},"spec":{"paused":true}}]}`
	code, out, errs = uninstall("--yes", "--output", "json")
	if code != ui.Refused || !strings.Contains(out, `"state": "stopped"`) || !strings.Contains(out+errs, "nothing changed: pool workers is paused; to resume: kubectl patch kubeletpool workers") {
		t.Errorf("exit code %d, said %q, printed\n%s", code, errs, out)
	}
	valid(t, "uninstall", []byte(out))

	for path := range answers {
		if strings.HasPrefix(path, "/apis/") {
			delete(answers, path)
		}
	}
	answers["/apis"] = `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`
	answers["/api/v1/nodes"] = `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","items":[]}`
	if code, out, errs := uninstall(); code != ui.Done || !strings.Contains(out, "all nodes restored. Now delete the manifests: kubectl delete -k kube/deploy, or your overlay") {
		t.Errorf("of a cluster without it: exit code %d, said %q", code, errs)
	}
}
