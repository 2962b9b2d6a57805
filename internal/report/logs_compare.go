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
	all := "all requests: " + c.All.Text
	if c.MixS != nil {
		all += fmt.Sprintf("; the mean went from %s to %s: %s by the mix of requests, %s by how long they take",
			unit.FormatSeconds(*c.All.Before.MeanS), unit.FormatSeconds(*c.All.After.MeanS), signed(*c.MixS), signed(*c.LatencyS))
	}
	fmt.Fprintln(s.Out, ui.Printable(all))
	fmt.Fprintln(s.Out)
	g := Grid{Head: []string{strings.Join(c.By, ", "), "change of the mean", "before", "after", "p99 before", "p99 after", "requests before", "after", "share before", "after"}}
	for _, x := range c.Groups {
		row := []string{keyed(x.Key), x.Text}
		both := func(f func(*logs.Group) string) {
			for _, side := range []*logs.Group{x.Before, x.After} {
				if side == nil {
					row = append(row, "-")
				} else {
					row = append(row, f(side))
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
	g.Write(s)
	fmt.Fprintln(s.Out)
	g = Grid{Head: []string{"logs", "requests", "over", "format"}}
	for _, side := range []struct {
		name string
		logs.Side
	}{{"before", c.Before}, {"after", c.After}} {
		for i, l := range side.Logs {
			n, over := "", ""
			if i == 0 {
				n, over = thousands(side.Requests), unit.FormatSeconds(side.SpanS)
			}
			g.Rows = append(g.Rows, []string{side.name + ": " + l.Path, n, over, l.Format})
		}
		if side.Unread.Lines > 0 {
			s.Say("%s: %s lines could not be read", side.name, thousands(side.Unread.Lines))
		}
	}
	g.Write(s)
	s.Say("intervals of 95 %%, each by itself: of 20 groups that did not change one looks as if it had")
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
