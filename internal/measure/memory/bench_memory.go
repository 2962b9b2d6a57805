package memory

import (
	"fmt"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

// Print prints the result of the bench.
func Print(s *ui.Screen, r *evidence.Run, b *Result) {
	g := ui.Grid{Columns: ui.Columns("cell", "random read", "spread", "touch of a GiB", "spread", "page faults", "in such pages")}
	for _, c := range b.Cells {
		g.Rows = append(g.Rows, []string{c.Cell, fmt.Sprintf("%.0f ns", c.Random), text.Percent(c.RandomSpread), fmt.Sprintf("%.3f s", c.Touch), text.Percent(c.TouchSpread),
			fmt.Sprintf("%.0f", c.Faults), text.Percent(c.Huge)})
	}
	g.Write(s)
	if len(b.Comparisons) > 0 {
		fmt.Fprintln(s.Out)
		g = ui.Grid{Columns: ui.Columns("cell", "against", "measure", "verdict")}
		for _, c := range b.Comparisons {
			g.Rows = append(g.Rows, []string{c.Cell, c.Against, string(c.Measure), c.Text})
		}
		g.Write(s)
	}
	fmt.Fprintln(s.Out)
	g = ui.Grid{Columns: ui.Columns("what", "value")}
	row := func(name, format string, args ...any) {
		g.Rows = append(g.Rows, []string{name, fmt.Sprintf(format, args...)})
	}
	if b.Cut != nil {
		row("incomplete", "%s", b.Cut)
	}
	row("measured", "%d rounds of %s, %d random reads each; CPU time, medians", b.Rounds, unit.Size(b.SizeBytes).Human(), b.Reads)
	for _, l := range b.Left {
		row("not measured", "%s: %s", l.Cell, l.Why)
	}
	if r.ID != "" {
		row("evidence", "run %s, seed %d", r.ID, b.Seed)
	}
	g.Write(s)
	s.Say("this is about memory alone: PostgreSQL and Redis recommend to turn transparent huge pages off, whatever it shows")
}
