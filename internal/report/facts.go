package report

import (
	"fmt"

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

// Facts prints facts.
func Facts(s *ui.Screen, f *fact.Selection) {
	g := Grid{Head: []string{"fact", "value", "from"}}
	for _, it := range f.List() {
		v := fmt.Sprint(it.Value)
		switch {
		case it.Unknown != "":
			v = "unknown: " + it.Unknown
		case it.Absent:
			v = "-"
		case it.More != "":
			v += ", and perhaps more: " + it.More
		}
		if len(v) > 100 {
			v = v[:97] + "..."
		}
		g.Rows = append(g.Rows, []string{it.Name, v, it.Source})
	}
	if len(g.Rows) > 0 {
		g.Write(s)
	}
}
