package postgres

import (
	"fmt"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

// Print prints the result of the bench, the verdict first.
func Print(s *ui.Screen, r *evidence.Run, b *Result) {
	fmt.Fprintln(s.Out, ui.Printable(b.Text))
	fmt.Fprintln(s.Out)
	g := ui.Grid{Columns: ui.Columns("clients", "transactions/s", "spread", "median", "p99", "mean")}
	ms := func(v float64) string { return fmt.Sprintf("%.2f ms", 1000*v) }
	for _, st := range b.Steps {
		g.Rows = append(g.Rows, []string{fmt.Sprint(st.Clients), fmt.Sprintf("%.0f", st.TPS), text.Percent(st.Spread), ms(st.P50S), ms(st.P99S), ms(st.MeanS)})
	}
	g.Write(s)
	fmt.Fprintln(s.Out)
	g = ui.Grid{Columns: ui.Columns("what", "value")}
	row := func(name, format string, args ...any) {
		g.Rows = append(g.Rows, []string{name, fmt.Sprintf(format, args...)})
	}
	kind := "like TPC-B, which write"
	if b.ReadOnly {
		kind = "that only read"
	}
	row("server", "%s, version %s", b.Server, b.Room.Version)
	row("measured", "%d rounds, steps of %.0f s, transactions %s; medians", b.Rounds, b.StepS, kind)
	row("database", "scale %d, %s", b.Scale, unit.Size(b.Bytes).Human())
	for _, f := range b.Failed {
		row("not measured", "%s", f)
	}
	if r.ID != "" {
		row("evidence", "run %s", r.ID)
	}
	g.Write(s)
	if b.InCache != "" {
		s.Say("%s", b.InCache)
	}
}

// PrintTables prints the largest tables of a database.
func PrintTables(s *ui.Screen, database string, all []Table) {
	g := ui.Grid{Columns: ui.Columns("table of "+database, "total", "rows", "table", "indexes", "dead rows")}
	count := func(n int64) string {
		if n < 0 {
			return "unknown"
		}
		return fmt.Sprint(n)
	}
	for _, t := range all {
		g.Rows = append(g.Rows, []string{t.Name, unit.Size(t.Bytes).Human(), count(t.Rows), unit.Size(t.HeapBytes).Human(), unit.Size(t.IndexBytes).Human(), count(t.Dead)})
	}
	g.Write(s)
}
