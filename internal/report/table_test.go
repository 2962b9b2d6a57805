package report

import (
	"bytes"
	"strings"
	"testing"

	"github.com/jedib0t/go-pretty/v6/text"

	"fettle.dev/fettle/internal/ui"
)

// A table is as wide as the terminal at most, cuts words only where there is no
// other way, and loses nothing.
func TestGridFitsTheTerminal(t *testing.T) {
	g := Grid{Head: []string{"setting", "verdict", "why", "from"}, Rows: [][]string{
		{"/sys/devices/system/cpu/cpufreq/policy0/energy_performance_preference", "unsupported", "this machine is a guest, and its hypervisor decides on the frequency of the CPUs", "throughput-performance/tuned.conf:13"},
		{"vm.swappiness", "ok", "", "throughput-performance/tuned.conf:46"},
	}}
	for _, width := range []int{0, 60, 80, 110, 132, 300} {
		var out bytes.Buffer
		g.Write(&ui.Screen{Out: &out, Width: width})
		lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		for _, l := range lines {
			if w := text.StringWidthWithoutEscSequences(l); width > 0 && w > width {
				t.Errorf("at %d: a line of %d columns: %s", width, w, l)
			}
		}
		if (width == 0 || width == 300) && len(lines) != 3 {
			t.Errorf("at %d: %d lines where 3 have room:\n%s", width, len(lines), out.String())
		}
		if width >= 110 {
			for _, whole := range []string{"energy_performance_preference", "throughput-performance/", "hypervisor", "tuned.conf:13", "unsupported"} {
				if !strings.Contains(out.String(), whole) {
					t.Errorf("at %d: %s is cut:\n%s", width, whole, out.String())
				}
			}
		}
		for c := range g.Head {
			var want, got strings.Builder
			for _, r := range g.Rows {
				want.WriteString(r[c])
			}
			for _, l := range lines[1:] {
				at := strings.Index(lines[0], g.Head[c])
				end := len(l)
				if c+1 < len(g.Head) {
					end = min(end, strings.Index(lines[0], g.Head[c+1]))
				}
				if at < end {
					got.WriteString(strings.TrimSpace(l[at:end]))
				}
			}
			if w := strings.ReplaceAll(want.String(), " ", ""); strings.ReplaceAll(got.String(), " ", "") != w {
				t.Errorf("at %d: column %s has %q, want %q", width, g.Head[c], got.String(), w)
			}
		}
	}
}
