package findings

import (
	"bytes"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/ui"
)

// TestWideTables: a table that does not fit the terminal is printed as records; others, and all
// tables on a pipe, are printed as tables.
func TestWideTables(t *testing.T) {
	table := &rule.Table{IDs: []string{"O1"}, Title: "storage", Name: "storage", Columns: []rule.Column{{Name: "block"}, {Name: "why"}, {Name: "none"}},
		Editions: []rule.Edition{{Rows: []rule.Row{{Key: "registry", Cells: map[string]any{"block": "no", "why": strings.TrimSpace(strings.Repeat("two clients ", 8))}}}}}}
	for width, records := range map[int]bool{80: true, 200: false, 0: false} {
		var out bytes.Buffer
		PrintTable(&ui.Screen{Out: &out, Width: width}, table)
		if got := strings.Contains(out.String(), "\nregistry\n  block  no\n  why    two clients"); got != records || records && strings.Contains(out.String(), "none") {
			t.Errorf("width %d:\n%s", width, out.String())
		}
	}
}
