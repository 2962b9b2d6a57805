package etcd

import (
	"fmt"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

// Headline returns the verdict by the limits in etcd's manual, and the speed of the benchmark's
// writes.
func (b *Result) Headline() (h ui.Headline) {
	for i := 0; i < len(b.Judged); i += 2 {
		j, _ := b.decisive(i)
		h.Value(j.What+"_p99_limit_s", j.LimitS, "")
		if j.P99.High > 0 { // otherwise above the last bucket, or nothing was observed
			h.Value(j.What+"_p99_at_most_s", j.P99.High, "")
		}
	}
	h.Line("%s (limits: etcd's manual)", b.Text)
	line := fmt.Sprintf("member %s", b.Member)
	if w := b.Writes; w != nil {
		line = fmt.Sprintf("%s by this benchmark through member %s: median %s, %s/s", h.Count("writes", w.N, "write"), b.Member, h.Value("write_p50_s", w.P50S, unit.FormatSeconds(w.P50S)), h.Figure("writes_per_s", w.RateS, ""))
	}
	h.Line("%s; %s since its start", line, h.Count("leader_changes", int(b.LeaderChanges), "leader change"))
	return h
}

// Next returns advice on how to get a verdict, or what to check if the disk is too slow.
func (b *Result) Next() (string, []string) {
	switch {
	case b.Cut != nil || b.Word == CannotTell:
		return "to observe more writes:", []string{"bench", "etcd", "--for", "10m"}
	case b.Word == Fail:
		return "to measure the disk of etcd alone (usual data directory):", []string{"bench", "disk", "/var/lib/etcd", "--role", "etcd"}
	}
	return "", nil
}

// Print prints the result of the bench, the verdict first.
func (b *Result) Print(s *ui.Screen, r *evidence.Run) {
	h := b.Headline()
	ui.PrintHeadline(s, &h)
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
	g = ui.Grid{Columns: []ui.Column{{}, {Below: true}}}
	row := g.Row
	row("member", "%s, version %s", b.Member, b.Version)
	if w := b.Writes; w != nil {
		p99 := "p99 unknown (needs 1000 writes)"
		if w.P99S != nil {
			p99 = fmt.Sprintf("p99 %.2f ms", 1000**w.P99S)
		}
		row("writes", "%d of %s, one after the other: median %.2f ms, %s, %.0f a second", w.N, text.Count(w.ValueBytes, "byte"), 1000*w.P50S, p99, w.RateS)
	}
	row("database", "%s, %.0f leader changes since its start", unit.Size(b.SizeBytes).Human(), b.LeaderChanges)
	if r.ID != "" {
		row("evidence", "run %s", r.ID)
	}
	g.Write(s)
}
