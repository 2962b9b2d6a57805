package report

import (
	"fmt"
	"strings"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/ui"
)

// Brief prints facts in a dozen lines.
func Brief(s *ui.Screen, lines []fact.Line) {
	g := Grid{}
	for _, l := range lines {
		g.Rows = append(g.Rows, []string{l.Label, l.Text})
	}
	g.Write(s)
}

// Facts prints every fact, or those whose names begin with one of the given
// ones, and returns how many.
func Facts(s *ui.Screen, f *fact.Facts, names []string) int {
	g := Grid{Head: []string{"fact", "value", "from"}}
	for _, it := range f.List() {
		if len(names) > 0 && !selected(it.Name, names) {
			continue
		}
		v := fmt.Sprint(it.Value)
		switch {
		case it.Unknown != "":
			v = "unknown: " + it.Unknown
		case it.Absent:
			v = "-"
		}
		if len(v) > 100 {
			v = v[:97] + "..."
		}
		g.Rows = append(g.Rows, []string{it.Name, v, it.Source})
	}
	if len(g.Rows) > 0 {
		g.Write(s)
	}
	return len(g.Rows)
}

func selected(name string, prefixes []string) bool {
	for _, p := range prefixes {
		if name == p || strings.HasPrefix(name, strings.TrimSuffix(p, ".")+".") {
			return true
		}
	}
	return false
}
