package cli

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fettle.dev/fettle/internal/ui"
)

// TestPlanWithoutNodes tests a user who may not read the nodes: the plan names what is not judged,
// and a run without its guard rails is refused.
func TestPlanWithoutNodes(t *testing.T) {
	type o = map[string]any
	file := filepath.Join(t.TempDir(), "load.yaml")
	if err := os.WriteFile(file, []byte("ClusterLoader:\n  projects:\n  - num: 1\n    basename: p\n    pods: [{num: 3, basename: a, image: i}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	none := o{"items": []any{}}
	t.Setenv("KUBECONFIG", apiServer(t, o{
		"/api/v1":              o{"resources": []o{{"name": "namespaces", "kind": "Namespace"}, {"name": "pods", "kind": "Pod", "namespaced": true}}},
		"/api/v1/nodes":        meta.Status{Status: "Failure", Message: `nodes is forbidden: User "alice"`, Code: 403},
		"/api/v1/pods?limit=1": none,
		"/api/v1/pods?fieldSelector=status.phase%3DSucceeded&limit=500": none,
		"/api/v1/pods?fieldSelector=status.phase%3DFailed&limit=500":    none,
		"/api/v1/namespaces?limit=1":                                    none,
		"/api/v1/services?limit=1":                                      none,
	}))
	for _, c := range []struct {
		args string
		code int
		want []string
	}{
		{"plan", ui.Done, []string{"cannot list the nodes; pod capacity, pods_per_node and pods of daemon sets are not judged: the API server answers 403: nodes is forbidden: User \"alice\"\n", "4 objects, 3 pods"}},
		{"plan --output json", ui.Done, []string{`"what": "nodes"`, "are not judged"}},
		{"run", ui.Failed, []string{"cannot determine the cluster's size; nothing created: nodes: the API server answers 403", "--beyond-maximums"}},
	} {
		var printed bytes.Buffer
		code := runUntil(t.Context(), "devel", append([]string{"load", "--state-dir", t.TempDir()}, append(strings.Fields(c.args), file)...), &printed, &printed)
		for _, want := range c.want {
			if code != c.code || !strings.Contains(printed.String(), want) || strings.Contains(printed.String(), "pods that the nodes take") {
				t.Errorf("%s: exit code %d, want %d and %q in\n%s", c.args, code, c.code, want, &printed)
			}
		}
	}
}

// TestLoadInterrupted tests that an interruption is reported as such, with and without a cluster.
func TestLoadInterrupted(t *testing.T) {
	t.Setenv("KUBECONFIG", apiServer(t, nil))
	ctx, stop := context.WithCancel(t.Context())
	stop()
	for _, args := range []string{"load plan --offline", "load plan", "load run", "load mirror --write copy"} {
		var printed bytes.Buffer
		code := runUntil(ctx, "devel", append(strings.Fields(args), "--state-dir", t.TempDir()), &printed, &printed)
		if code != ui.Interrupted || !strings.Contains(printed.String(), "interrupted") || strings.Contains(printed.String(), "context canceled") {
			t.Errorf("%s: exit code %d\n%s", args, code, &printed)
		}
	}
}
