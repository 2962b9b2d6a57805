package report

import (
	"strings"
	"testing"

	"fettle.dev/fettle/internal/ui"
)

// On a terminal no line is wider than it, and no word is lost; elsewhere each
// row is one line.
func TestGridFitsTheTerminal(t *testing.T) {
	long := strings.TrimSpace(strings.Repeat("a profile for many purposes ", 12))
	for _, width := range []int{0, 60, 80, 200} {
		var out strings.Builder
		s := &ui.Screen{Out: &out, Format: ui.Table, Width: width}
		g := Grid{Head: []string{"", "profile", "summary", "from"}, Rows: [][]string{{"*", "throughput-performance", long, "fettle"}, {"", "x", "short", "installed"}}}
		g.Write(s)
		lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		for _, l := range lines {
			if n := len([]rune(l)); width > 0 && n > width {
				t.Errorf("width %d: a line of %d: %q", width, n, l)
			}
		}
		if width == 0 && len(lines) != 3 {
			t.Errorf("no terminal: %d lines, want 3", len(lines))
		}
		if got := strings.Count(out.String(), "purposes"); got != 12 {
			t.Errorf("width %d: the summary has %d of its 12 parts", width, got)
		}
	}
}
