package kubelet

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/testkit/root"
)

// TestManual compares the manual's tables with the allowed and refused settings.
func TestManual(t *testing.T) {
	var set, not strings.Builder
	set.WriteString("| setting | takes | what it is |\n|---|---|---|\n")
	for _, s := range settings {
		set.WriteString("| `" + s.name + "` | " + s.class.String() + " | " + s.doc + " |\n")
	}
	not.WriteString("| refused | because |\n|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(refused)) {
		not.WriteString("| `" + name + "` | " + refused[name] + " |\n")
	}
	root.Manual(t, "kubelet.md", root.Generated{Name: "settings", Text: set.String()}, root.Generated{Name: "refused", Text: not.String()})
}

// TestManualObjects tests that the objects of the page are accepted, and that each KubeletConfig
// selects its pool.
func TestManualObjects(t *testing.T) {
	page, err := os.ReadFile("../../docs/kubelet.md")
	if err != nil {
		t.Fatal(err)
	}
	pools := 0
	for block := range strings.SplitSeq(string(page), "```yaml\n") {
		text, _, _ := strings.Cut(block, "```\n")
		if !strings.HasPrefix(text, "apiVersion: machineconfiguration") {
			continue
		}
		o, err := Read("kubelet.md", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range o.Pools {
			pools++
			if w, err := WantOfConfig(o.Configs, p.Labels); err != nil || len(w.Fields) == 0 {
				t.Errorf("%s: %v, %v", p.Name, w.Fields, err)
			}
		}
	}
	if pools != 2 {
		t.Errorf("%d pools, want 2", pools)
	}
}
