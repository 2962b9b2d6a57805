package kubelet

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/testkit/root"
)

// TestManual holds the manual's tables against what may be set and what is refused.
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
