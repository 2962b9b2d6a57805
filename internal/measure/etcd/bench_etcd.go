package etcd

import (
	"fmt"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

// Print prints the result of the bench, the verdict first.
func Print(s *ui.Screen, r *evidence.Run, b *Result) {
	fmt.Fprintln(s.Out, ui.Printable(b.Text))
	fmt.Fprintln(s.Out)
	g := ui.Grid{Columns: ui.Columns("what", "when", "observations", "p50", "p99", "verdict")}
	for _, j := range b.Judged {
		when := "since its start"
		if j.When == "window" {
			when = fmt.Sprintf("in these %.0f s", b.WindowS)
		}
		p50, p99 := "", ""
		if j.N > 0 {
			p50, p99 = j.P50.String(), j.P99.String()
		}
		g.Rows = append(g.Rows, []string{j.What, when, fmt.Sprint(j.N), p50, p99, string(j.Word)})
	}
	g.Write(s)
	fmt.Fprintln(s.Out)
	g = ui.Grid{Columns: ui.Columns("what", "value")}
	row := func(name, format string, args ...any) {
		g.Rows = append(g.Rows, []string{name, fmt.Sprintf(format, args...)})
	}
	row("member", "%s, version %s", b.Member, b.Version)
	if w := b.Writes; w != nil {
		p99 := "no p99 (needs 1000 writes)"
		if w.P99S != nil {
			p99 = fmt.Sprintf("p99 %.2f ms", 1000**w.P99S)
		}
		row("writes", "%d of %d bytes, one after the other: median %.2f ms, %s, %.0f a second", w.N, w.ValueBytes, 1000*w.P50S, p99, w.RateS)
	}
	row("database", "%s, %.0f leader changes since its start", unit.Size(b.SizeBytes).Human(), b.LeaderChanges)
	if r.ID != "" {
		row("evidence", "run %s", r.ID)
	}
	g.Write(s)
}
