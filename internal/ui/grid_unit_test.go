package ui

import (
	"slices"
	"testing"
)

func TestOneUnit(t *testing.T) {
	for _, tt := range []struct {
		name       string
		cells, out []string
	}{
		{"ms and s", []string{"342 ms", "30 s", "1.25 s"}, []string{"0.342 s", "30 s", "1.25 s"}},
		{"small in the smaller unit", []string{"5.5 ms", "1.25 s"}, []string{"5.5 ms", "1,250 ms"}},
		{"10 ms is 0.01 s", []string{"10 ms", "119 s"}, []string{"0.01 s", "119 s"}},
		{"us and ms", []string{"950 us", "1.5 ms"}, []string{"950 us", "1,500 us"}},
		{"negative", []string{"-342 ms", "2 s"}, []string{"-342 ms", "2,000 ms"}},
		{"zero and unmeasured", []string{"0 s", "-", "90 ms", "950 us"}, []string{"0 ms", "-", "90 ms", "0.95 ms"}},
		{"one unit already", []string{"0 s", "10 ms"}, []string{"0 s", "10 ms"}},
		{"too different", []string{"2 us", "119 s"}, []string{"2 us", "119 s"}},
		{"minutes", []string{"20 ms", "4 s", "13.8 min"}, []string{"20 ms", "4 s", "13.8 min"}},
		{"sizes", []string{"20 KiB", "4 GiB"}, []string{"20 KiB", "4 GiB"}},
		{"other text", []string{"20 ms", "4 s", "up to 3 s"}, []string{"20 ms", "4 s", "up to 3 s"}},
	} {
		g := Grid{Columns: []Column{{Head: "mean", Right: true}, {Head: "name"}}}
		for _, c := range tt.cells {
			g.Rows = append(g.Rows, []string{c, c})
		}
		shown, page := g.shown(true), g.Table("")
		for i, want := range tt.out {
			if shown.Rows[i][0] != want || page.Rows[i][0] != want || shown.Rows[i][1] != tt.cells[i] {
				t.Errorf("%s: %q, %q on a page, want %q", tt.name, shown.Rows[i], page.Rows[i], want)
			}
		}
		if got := g.Rows[0][0]; got != tt.cells[0] || !slices.Equal(g.Rows[0], []string{got, got}) {
			t.Errorf("%s: the grid itself has changed: %q", tt.name, g.Rows[0])
		}
	}
}
