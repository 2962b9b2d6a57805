package kubecli

import (
	"encoding/json"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/ui"
)

// A cluster that has no Tuned objects is told apart from one that does not answer.
func TestOperatorWithoutTuned(t *testing.T) {
	config := apiServer(t, map[string]any{
		"/api":    json.RawMessage(`{"kind":"APIVersions","versions":["v1"]}`),
		"/api/v1": json.RawMessage(`{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"v1","resources":[{"name":"nodes","namespaced":false,"kind":"Node","verbs":["list","watch"]}]}`),
		"/apis":   json.RawMessage(`{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`),
	})
	code, out, errs := run(t, "operator", "--kubeconfig", config, "--metrics-address=0", "--health-address=0")
	if code != ui.Refused || !strings.Contains(errs, "the cluster has no Tuned and Profile of tuned.openshift.io/v1") || !strings.Contains(errs, "kubectl apply -k deploy makes them") {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
}
