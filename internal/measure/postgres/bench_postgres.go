package postgres

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

// Headline returns the highest rate with its spread, and the limitations of the figures.
func (b *Result) Headline() (h ui.Headline) {
	if len(b.Steps) == 0 {
		h.Line("%s", b.Cut.Text("no step was measured"))
		return b.doubts(h)
	}
	best := slices.MaxFunc(b.Steps, func(x, y Step) int { return cmp.Compare(x.TPS, y.TPS) })
	line := fmt.Sprintf("%s with %s, p99 %s", h.Count("transactions_per_s", int(math.Round(best.TPS)), "transaction")+" a second", h.Count("clients", best.Clients, "client"), h.Value("p99_s", best.P99S, unit.FormatSeconds(best.P99S)))
	if b.Rounds == 1 {
		line += "; only 1 round, so the variation between rounds is unknown"
	} else {
		spread := fmt.Sprintf("the %s differ by %s", text.Count(b.Rounds, "round"), h.Figure("spread_percent", 100*best.Spread, "%"))
		if best.Spread > noisy {
			line = fmt.Sprintf("no verdict: %s, more than %.0f %%; the best step: ", spread, 100*noisy) + line
		} else {
			line += "; " + spread
		}
	}
	h.Line("%s", b.Cut.Text(line))
	return b.doubts(h)
}

// doubts adds the limitations of the figures.
func (b *Result) doubts(h ui.Headline) ui.Headline {
	if b.InCache != "" {
		h.Line("%s", b.InCache)
	}
	if len(b.Failed) > 0 {
		h.Line("%s not measured: %s", h.Count("steps_not_measured", len(b.Failed), "step"), b.Failed[0])
	}
	return h
}

// Next returns how to complete the bench, or how to measure the disk.
func (b *Result) Next() (string, []string) {
	call := []string{"bench", "postgres"}
	if b.ReadOnly {
		call = append(call, "--read-only")
	}
	switch {
	case b.Cut != nil:
		return "to measure all steps:", call
	case b.InCache != "":
		return "to measure with a database larger than the memory:", append(call, "--out-of-cache")
	}
	return "", nil
}

// Print prints the result of the bench, the verdict first.
func (b *Result) Print(s *ui.Screen, r *evidence.Run) {
	h := b.Headline()
	ui.PrintHeadline(s, &h)
	fmt.Fprintln(s.Out)
	g := ui.Grid{Columns: ui.Columns("clients", "transactions/s", "spread", "median", "p99", "mean")}
	ms := func(v float64) string { return unit.FormatSeconds(v) }
	for _, st := range b.Steps {
		g.Rows = append(g.Rows, []string{fmt.Sprint(st.Clients), fmt.Sprintf("%.0f", st.TPS), text.Percent(st.Spread), ms(st.P50S), ms(st.P99S), ms(st.MeanS)})
	}
	g.Write(s)
	fmt.Fprintln(s.Out)
	g = ui.Grid{Columns: []ui.Column{{}, {Below: true}}}
	row := g.Row
	kind := "like TPC-B, which write"
	if b.ReadOnly {
		kind = "that only read"
	}
	row("server", "%s, version %s", b.Server, b.Room.Version)
	row("measured", "%s, steps of %.0f s, transactions %s; medians", text.Count(b.Rounds, "round"), b.StepS, kind)
	row("database", "scale %d, %s", b.Scale, unit.Size(b.Bytes).Human())
	for _, f := range b.Failed {
		row("not measured", "%s", f)
	}
	if r.ID != "" {
		row("evidence", "run %s", r.ID)
	}
	g.Write(s)
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
