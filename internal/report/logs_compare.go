package report

import (
	"fmt"
	"strings"

	"fettle.dev/fettle/internal/logs"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

// LogsCompare prints what changed from logs before to logs after.
func LogsCompare(s *ui.Screen, c *logs.Comparison) {
	for _, l := range append(comparedNotWhole(c), strings.Join(compared(c), "; ")) {
		fmt.Fprintln(s.Out, ui.Printable(l))
	}
	for _, g := range []Grid{comparedGroups(c), comparedLogs(c)} {
		fmt.Fprintln(s.Out)
		g.Write(s)
	}
	for _, n := range comparedNotes(c) {
		s.Say("%s", n)
	}
}

// compared says in words what became of all requests, and by what.
func compared(c *logs.Comparison) []string {
	all := []string{"all requests: " + c.All.Text}
	if c.MixS != nil {
		all = append(all, fmt.Sprintf("the mean went from %s to %s: %s by the mix of requests, %s by how long they take",
			unit.FormatSeconds(*c.All.Before.MeanS), unit.FormatSeconds(*c.All.After.MeanS), signed(*c.MixS), signed(*c.LatencyS)))
	}
	return all
}

// comparedGroups is the table of what became of each group.
func comparedGroups(c *logs.Comparison) Grid {
	g := Grid{Head: []string{strings.Join(c.By, ", "), "change of the mean", "before", "after", "p99 before", "p99 after", "requests before", "after", "share before", "after"}}
	for i := range c.Groups {
		x := &c.Groups[i]
		row := []string{keyed(x.Key), x.Text}
		both := func(f func(*logs.Group) string) {
			for _, side := range comparedSides(c) {
				if g := side.group(x); g == nil {
					row = append(row, "-")
				} else {
					row = append(row, f(g))
				}
			}
		}
		both(func(g *logs.Group) string { return some(g.MeanS) })
		both(func(g *logs.Group) string {
			if v, ok := g.QuantilesS["p99"]; ok {
				return unit.FormatSeconds(v)
			}
			return "-"
		})
		both(func(g *logs.Group) string { return fmt.Sprint(g.Count) })
		both(func(g *logs.Group) string {
			if g.Share == nil {
				return "-"
			}
			return fmt.Sprintf("%.1f %%", 100**g.Share)
		})
		g.Rows = append(g.Rows, row)
	}
	if c.More > 0 {
		row := make([]string, len(g.Head))
		row[0] = fmt.Sprintf("(%d more)", c.More)
		g.Rows = append(g.Rows, row)
	}
	return g
}

// comparedSide is a side, its name, and what a change has of it: nil for nothing.
type comparedSide struct {
	name string
	*logs.Side
	group func(*logs.Change) *logs.Group
}

func comparedSides(c *logs.Comparison) []comparedSide {
	return []comparedSide{
		{"before", &c.Before, func(x *logs.Change) *logs.Group { return x.Before }},
		{"after", &c.After, func(x *logs.Change) *logs.Group { return x.After }},
	}
}

// comparedLogs is the table of the logs.
func comparedLogs(c *logs.Comparison) Grid {
	g := Grid{Head: []string{"logs", "requests", "over", "format"}}
	for _, side := range comparedSides(c) {
		for i, l := range side.Logs {
			n, over := "", ""
			if i == 0 {
				n, over = thousands(side.Requests), unit.FormatSeconds(side.SpanS)
			}
			g.Rows = append(g.Rows, []string{side.name + ": " + l.Path, n, over, l.Format})
		}
	}
	return g
}

// comparedNotWhole names what could not be read.
func comparedNotWhole(c *logs.Comparison) (out []string) {
	for _, side := range comparedSides(c) {
		for _, l := range LogsNotWhole(side.Logs, side.NotRead) {
			out = append(out, side.name+": "+l)
		}
	}
	return out
}

// comparedNotes are what was not read, and what the intervals mean.
func comparedNotes(c *logs.Comparison) (out []string) {
	for _, side := range comparedSides(c) {
		if side.Unread.Lines > 0 {
			out = append(out, fmt.Sprintf("%s: %s could not be read", side.name, several(side.Unread.Lines, "line", "lines")))
		}
		if g := guesses(side.Logs); g != "" {
			out = append(out, side.name+": "+strings.TrimPrefix(g, "; "))
		}
		for _, l := range LogsNoUnit(side.Logs) {
			out = append(out, side.name+": "+l)
		}
	}
	return append(out, "intervals of 95 %, each by itself: of 20 groups that did not change one looks as if it had")
}

func some(v *float64) string {
	if v == nil {
		return "-"
	}
	return unit.FormatSeconds(*v)
}

// signed writes a difference of times.
func signed(s float64) string {
	if s < 0 {
		return "-" + unit.FormatSeconds(-s)
	}
	return "+" + unit.FormatSeconds(s)
}
