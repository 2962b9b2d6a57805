package fact

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
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
	g := ui.Grid{Columns: []ui.Column{{Head: "fact"}, {Head: "from", Optional: true}, {Head: "value", Cut: true}}}
	for _, it := range f.List() {
		v := quantityText(it.Name, it.Value)
		switch {
		case it.Unknown != "":
			v = "unknown: " + it.Unknown
		case it.Absent:
			v = "-"
		case it.More != "":
			v += ", and perhaps more: " + it.More
		}
		g.Rows = append(g.Rows, []string{it.Name, it.Source, v})
	}
	if len(g.Rows) > 0 {
		g.Write(s)
	}
}

// quantityText formats the value of a fact: sizes and times, by the end of the name, with a unit.
func quantityText(name string, v any) string {
	n, ok := v.(float64)
	if i, whole := v.(int64); whole {
		n, ok = float64(i), true
	}
	switch {
	case ok && strings.HasSuffix(name, "_bytes"):
		return unit.Size(n).Human()
	case ok && strings.HasSuffix(name, "_s"):
		return unit.FormatSeconds(n)
	}
	return valueText(v)
}

// valueText formats the value of a fact.
func valueText(v any) string {
	switch v := v.(type) {
	case []string:
		return strings.Join(v, " ")
	case map[string]string:
		var pairs []string
		for _, k := range slices.Sorted(maps.Keys(v)) {
			pairs = append(pairs, strings.TrimSuffix(k+"="+v[k], "="))
		}
		return strings.Join(pairs, " ")
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return fmt.Sprint(v)
}
