package fact

import (
	"fmt"

	"fettle.dev/fettle/internal/ui"
)

// PrintBrief prints the summary of the facts.
func PrintBrief(s *ui.Screen, lines []Line) {
	g := ui.Grid{}
	for _, l := range lines {
		g.Rows = append(g.Rows, []string{l.Label, l.Text})
	}
	g.Write(s)
}

// PrintSelection prints facts as a table.
func PrintSelection(s *ui.Screen, f *Selection) {
	g := ui.Grid{Columns: ui.Columns("fact", "value", "from")}
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
			v = v[:97] + "../report/..."
		}
		g.Rows = append(g.Rows, []string{it.Name, v, it.Source})
	}
	if len(g.Rows) > 0 {
		g.Write(s)
	}
}
