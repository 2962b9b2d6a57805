package cli

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/testkit/browser"
	testkit "fettle.dev/fettle/internal/testkit/root"
)

// pages are the calls of TestWalk whose pages are looked at; the names are those of the screenshots.
var pages = map[string]string{
	"check":        "check --all",
	"check-root":   "check --root MUSTGATHER --details",
	"size":         "size openshift --pods 2200 --details",
	"load-plan":    "load plan load.yaml --details",
	"load-compare": "load compare RUN RUN --state-dir runs",
	"pod-explain":  "pod explain POD --state STATE --details",
	"pod-verify":   "pod verify cpumanager-6cqz7 --root NODE --details",
	"status":       "status --details",
	"kubelet-plan": "kubelet plan KUBELET --details",
	"health":       "health --details -n fleet",
	"scale-plan":   "scale plan workers-a workers-b --to 10",
}

// TestPages looks at the page of each verb in a browser (browser.LookAt).
func TestPages(t *testing.T) {
	testkit.Real(t, "starts a browser")
	dir, files := t.TempDir(), walkFiles(t)
	for name, call := range pages {
		at := slices.IndexFunc(walks, func(w walk) bool { return w.call == call })
		if at < 0 {
			t.Fatalf("%q is no call of TestWalk", call)
		}
		t.Run(name, func(t *testing.T) {
			t.Setenv("HOME", t.TempDir()) // not of the browser's test, whose axe-core is below it
			t.Setenv("KUBERNETES_SERVICE_HOST", "")
			t.Setenv("KUBECONFIG", clusters[walks[at].cluster](t))
			words := files.Replace(call)
			if runs, err := os.ReadDir("runs"); err == nil {
				words = strings.ReplaceAll(words, "RUN", runs[0].Name())
			}
			var out, said bytes.Buffer
			Main("test", append(strings.Fields(words), "--output", "html"), &out, &said)
			if !bytes.HasPrefix(bytes.TrimSpace(out.Bytes()), []byte("<!")) {
				t.Fatalf("%s: %s", words, &said)
			}
			if err := os.WriteFile(filepath.Join(dir, name+".html"), out.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
		})
	}
	if !t.Failed() {
		browser.LookAt(t, dir, slices.Sorted(maps.Keys(pages)))
	}
}
