package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/ui"
)

// TestOffline tests that load plan and pod explain decide without a cluster only if none is
// configured, and report what they did not consider. A cluster that does not answer is an error.
func TestOffline(t *testing.T) {
	root, pod := vm(t), manifest(t, nextPod)
	settings := "kind: KubeletConfiguration\ncpuManagerPolicy: static\nreservedSystemCPUs: \"0\"\nevictionHard: {memory.available: 100Mi}\n"
	if err := os.WriteFile(filepath.Join(root, "var/lib/kubelet/config.yaml"), []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	for _, c := range []struct {
		args, kubeconfig string
		code             int
		out, said        string
	}{
		{"load plan", "", ui.Done, "object", "planned offline"},
		{"pod explain " + pod + " --root " + root, "", ui.Done, "CPU manager static", "predicted offline from /var/lib/kubelet/config.yaml"},
		{"pod explain " + pod + " --root " + home, "", ui.Usage, "", "pod explain FILE --state DIR"},
		{"pod record " + home + "/node --root " + root, "", ui.Usage, "", "no cluster: no kubeconfig found"},
		{"status", "", ui.Usage, "", "no cluster: no kubeconfig found"},
		{"load plan", filepath.Join(home, "gone"), ui.Usage, "", "which does not exist"},
		{"load plan --server https://127.0.0.1:1", "", ui.Failed, "", "cannot be reached"},
		{"pod explain " + pod + " --root " + root + " --server https://127.0.0.1:1", "", ui.Failed, "", "cannot be reached"},
	} {
		t.Setenv("KUBECONFIG", c.kubeconfig)
		var out, said bytes.Buffer
		code := runUntil(t.Context(), "1", strings.Fields(c.args), &out, &said)
		if code != c.code || !strings.Contains(out.String(), c.out) || !strings.Contains(said.String(), c.said) {
			t.Errorf("%s (KUBECONFIG=%s): exit code %d, want %d\n%s%s", c.args, c.kubeconfig, code, c.code, &out, &said)
		}
	}
}
