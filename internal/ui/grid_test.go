package ui

import (
	"slices"
	"strings"
	"testing"
)

// changes is a grid with a column of each kind.
func changes() Grid {
	return Grid{
		Columns: []Column{{Head: "setting"}, {Head: "now", Right: true}, {Head: "from", Optional: true}, {Head: "source", Wide: true}, {Head: "why", Cut: true}},
		Rows: [][]string{
			{"vm.swappiness", "60", "virtual-guest/tuned.conf:14", "a guide", "less is swapped, which keeps what programs use in memory"},
			{"/sys/devices/system/cpu/cpufreq/policy0/energy_performance_preference/and/more", "12345678", "x", "y", "short"},
			{"vm.dirty_ratio", "20", "z", "", ""},
		},
	}
}

func TestGridLayout(t *testing.T) {
	tests := []struct {
		name  string
		width int
		wide  bool
		want  string
	}{
		{"pipe", 0, false, `
setting                                                                              now  from                         why
vm.swappiness                                                                         60  virtual-guest/tuned.conf:14  less is swapped, which keeps what programs use in memory
/sys/devices/system/cpu/cpufreq/policy0/energy_performance_preference/and/more  12345678  x                            short
vm.dirty_ratio                                                                        20  z
`},
		{"--wide", 60, true, `
setting                                                                              now  from                         source   why
vm.swappiness                                                                         60  virtual-guest/tuned.conf:14  a guide  less is swapped, which keeps what programs use in memory
/sys/devices/system/cpu/cpufreq/policy0/energy_performance_preference/and/more  12345678  x                            y        short
vm.dirty_ratio                                                                        20  z
`},
		{"narrow: no optional column, an explanation is cut, a long name has its own line", 60, false, `
setting                        now  why
vm.swappiness                   60  less is swapped, which…
/sys/devices/system/cpu/cpufreq/policy0/energy_performance_preference/and/more
                          12345678  short
vm.dirty_ratio                  20
`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var out strings.Builder
			g := changes()
			g.Write(&Screen{Out: &out, Format: Table, Width: test.width, Wide: test.wide})
			if got := "\n" + out.String(); got != test.want {
				t.Errorf("got%s\nwant%s", got, test.want)
			}
		})
	}
}

// The last column stands below its row, in full, where the row does not fit.
func TestGridBelow(t *testing.T) {
	g := Grid{
		Columns: []Column{{Head: "setting"}, {Head: "verdict"}, {Head: "why", Below: true}},
		Rows: [][]string{
			{"vm.swappiness", "rejected", "the kernel takes 0 to 200"},
			{"kernel.version", "rejected", "read-only"},
			{"/sys/kernel/mm/transparent_hugepage/defrag", "refused", "a file of the administrator sets it"},
			{"vm.dirty_ratio", "ok", ""},
		},
	}
	for width, want := range map[int]string{
		0: `
setting                                     verdict   why
vm.swappiness                               rejected  the kernel takes 0 to 200
kernel.version                              rejected  read-only
/sys/kernel/mm/transparent_hugepage/defrag  refused   a file of the administrator sets it
vm.dirty_ratio                              ok
`,
		36: `
setting                     verdict
vm.swappiness               rejected
    the kernel takes 0 to 200
kernel.version              rejected
    read-only
/sys/kernel/mm/transparent_hugepage/defrag
                            refused
    a file of the administrator sets
    it
vm.dirty_ratio              ok
`,
		66: `
setting                                     verdict
vm.swappiness                               rejected
    the kernel takes 0 to 200
kernel.version                              rejected  read-only
/sys/kernel/mm/transparent_hugepage/defrag  refused
    a file of the administrator sets it
vm.dirty_ratio                              ok
`,
	} {
		var out strings.Builder
		g.Write(&Screen{Out: &out, Format: Table, Width: width})
		if got := "\n" + out.String(); got != want {
			t.Errorf("width %d: got%s\nwant%s", width, got, want)
		}
	}
}

// Whatever the width, no line exceeds it but a single word, and only explanations are cut.
func TestGridFitsTheTerminal(t *testing.T) {
	g := Grid{Columns: []Column{{}, {Head: "profile"}, {Head: "summary"}, {Head: "from"}}, Rows: [][]string{
		{"*", "throughput-performance", strings.TrimSpace(strings.Repeat("a profile for many purposes ", 12)), "/etc/tuned/throughput-performance/tuned.conf"},
		{"", "x", "short", "installed"},
	}}
	for width := 30; width < 200; width++ {
		var out strings.Builder
		g.Write(&Screen{Out: &out, Format: Table, Width: width})
		for l := range strings.Lines(out.String()) {
			if n := displayWidth(strings.TrimSuffix(l, "\n")); n > width && len(strings.Fields(l)) > 1 {
				t.Errorf("width %d: a line of %d: %q", width, n, l)
			}
		}
		words := func(s string) []string { w := strings.Fields(s); slices.Sort(w); return w }
		all := strings.Join(slices.Concat(g.Heads(), g.Rows[0], g.Rows[1]), " ")
		if got := words(out.String()); !slices.Equal(got, words(all)) {
			t.Errorf("width %d: %q", width, got)
		}
	}
}

// One long name in ten rows does not take the room of the other columns.
func TestGridOutlier(t *testing.T) {
	g := Grid{Columns: []Column{{Head: "id"}, {Head: "what", Cut: true}}}
	for range 9 {
		g.Rows = append(g.Rows, []string{"T1", "a sentence of fifty columns, which is the last one"})
	}
	g.Rows = append(g.Rows, []string{"T2.with_a_name_of_forty_columns_to_the_end", "short"})
	var out strings.Builder
	g.Write(&Screen{Out: &out, Format: Table, Width: 60})
	lines := strings.Split(out.String(), "\n")
	if lines[1] != "T1  a sentence of fifty columns, which is the last one" || lines[10] != "T2.with_a_name_of_forty_columns_to_the_end" || lines[11] != "    short" {
		t.Errorf("%s", out.String())
	}
}

// TestGridLabels: a label that is little wider than the others does not wrap.
func TestGridLabels(t *testing.T) {
	t.Parallel()
	g := Grid{}
	for range 10 {
		g.Rows = append(g.Rows, []string{"frequency", strings.Repeat("word ", 20)})
	}
	g.Rows = append(g.Rows, []string{"huge pages", "none"})
	var out strings.Builder
	g.Write(&Screen{Out: &out, Format: Table, Width: 60})
	if !strings.HasSuffix(out.String(), "\nhuge pages  none\n") {
		t.Errorf("%s", out.String())
	}
	out.Reset()
	PrintLine(&Screen{Out: &out, Format: Table, Width: 20}, "  because of one reason")
	if want := "  because of one\n  reason\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}

// Colors belong to the original column, also where columns before it are omitted.
func TestGridColors(t *testing.T) {
	var out strings.Builder
	g := changes()
	g.Color = func(row, col int) string {
		if row == 0 && col == 4 {
			return Red
		}
		return ""
	}
	g.Write(&Screen{Out: &out, Format: Table, Width: 60, Color: true})
	if n := strings.Count(out.String(), "\x1b["); n != 2 || !strings.Contains(out.String(), Red+"less is swapped, which…"+reset) {
		t.Errorf("%d control sequences in %q", n, out.String())
	}
}

func TestGridMarkdown(t *testing.T) {
	var out strings.Builder
	g := Grid{Columns: []Column{{Head: "a"}, {Head: "b", Wide: true}, {Head: "c", Cut: true}}, Rows: [][]string{{"1", "2", "x|y"}}}
	g.Write(&Screen{Out: &out, Format: Markdown, Width: 10})
	if want := "| a | c |\n| --- | --- |\n| 1 | x\\|y |\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

// A cell is one line, also without a width.
func TestGridIsOneLineARow(t *testing.T) {
	var out strings.Builder
	s := NewScreen(&out, &out)
	g := Grid{Rows: [][]string{{"  a", "x\ny\x1b[1m\r\x00\x01\x02\x03\x04\x05\x06", "f:1"}, {"  b", "2", "f:2"}}}
	g.Write(s)
	if n := strings.Count(out.String(), "\n"); n != 2 || strings.ContainsAny(out.String(), "\x1b\x00\r") {
		t.Errorf("%d lines: %q", n, out.String())
	}
}
