package logs

import (
	"fmt"
	"strings"

	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

// PrintComparison prints a comparison.
func PrintComparison(s *ui.Screen, c *Comparison) {
	for _, l := range append(comparedNotWhole(c), strings.Join(compared(c), "; ")) {
		fmt.Fprintln(s.Out, ui.Printable(l))
	}
	for _, g := range []ui.Grid{comparedGroups(c), comparedLogs(c)} {
		fmt.Fprintln(s.Out)
		g.Write(s)
	}
	for _, n := range comparedNotes(c) {
		s.Say("%s", n)
	}
}

// compared describes the change of all requests and its causes.
func compared(c *Comparison) []string {
	all := []string{"all requests: " + c.All.Text}
	if c.MixS != nil {
		all = append(all, fmt.Sprintf("the mean went from %s to %s: %s by the mix of requests, %s by how long they take",
			unit.FormatSeconds(*c.All.Before.MeanS), unit.FormatSeconds(*c.All.After.MeanS), text.SignedSeconds(*c.MixS), text.SignedSeconds(*c.LatencyS)))
	}
	return all
}

// comparedGroups returns the changes of the groups.
func comparedGroups(c *Comparison) ui.Grid {
	g := ui.Grid{Columns: ui.Columns(strings.Join(c.By, ", "), "change of the mean", "before", "after", "p99 before", "p99 after", "requests before", "after", "share before", "after")}
	for i := range c.Groups {
		x := &c.Groups[i]
		row := []string{keyed(x.Key), x.Text}
		both := func(f func(*Group) string) {
			for _, side := range comparedSides(c) {
				if g := side.group(x); g == nil {
					row = append(row, "-")
				} else {
					row = append(row, f(g))
				}
			}
		}
		both(func(g *Group) string { return text.SecondsOrDash(g.MeanS) })
		both(func(g *Group) string { return g.quantile("p99") })
		both(func(g *Group) string { return fmt.Sprint(g.Count) })
		both((*Group).share)
		g.Rows = append(g.Rows, row)
	}
	if c.More > 0 {
		row := make([]string, len(g.Columns))
		row[0] = fmt.Sprintf("(%d more)", c.More)
		g.Rows = append(g.Rows, row)
	}
	return g
}

// comparedSide is a side, its name, and a function that returns its group of a change, or nil.
type comparedSide struct {
	name string
	*Side
	group func(*Change) *Group
}

func comparedSides(c *Comparison) []comparedSide {
	return []comparedSide{
		{"before", &c.Before, func(x *Change) *Group { return x.Before }},
		{"after", &c.After, func(x *Change) *Group { return x.After }},
	}
}

// comparedLogs returns the logs of both sides.
func comparedLogs(c *Comparison) ui.Grid {
	g := ui.Grid{Columns: ui.Columns("logs", "requests", "over", "format")}
	for _, side := range comparedSides(c) {
		for i, l := range side.Logs {
			n, over := "", ""
			if i == 0 {
				n, over = text.Thousands(side.Requests), unit.FormatSeconds(side.SpanS)
			}
			g.Rows = append(g.Rows, []string{side.name + ": " + l.Path, n, over, l.Format})
		}
	}
	return g
}

// comparedNotWhole lists the data that could not be read.
func comparedNotWhole(c *Comparison) (out []string) {
	for _, side := range comparedSides(c) {
		for _, l := range NotWhole(side.Logs, side.NotRead) {
			out = append(out, side.name+": "+l)
		}
	}
	return out
}

// comparedNotes returns warnings, and the interpretation of the intervals.
func comparedNotes(c *Comparison) (out []string) {
	for _, side := range comparedSides(c) {
		if side.Unread.Lines > 0 {
			out = append(out, fmt.Sprintf("%s: %s could not be read", side.name, text.CountPlural(side.Unread.Lines, "line", "lines")))
		}
		if g := guesses(side.Logs); g != "" {
			out = append(out, side.name+": "+strings.TrimPrefix(g, "; "))
		}
		for _, l := range NoUnit(side.Logs) {
			out = append(out, side.name+": "+l)
		}
	}
	return append(out, "95 % confidence intervals, each by itself: expect 1 false alarm in 20 groups that did not change")
}
