package puppetrun

import (
	"encoding/csv"
	"fmt"
	"io"
	"time"

	"fettle.dev/fettle/internal/requests/logs"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

// Print prints the analysis of reports, beginning with where the time of the runs went.
func Print(s *ui.Screen, r *Runs) {
	say := func(format string, args ...any) { fmt.Fprintln(s.Out, ui.Printable(fmt.Sprintf(format, args...))) }
	if m := r.WentTo; m != nil && m.MeanS != nil {
		share := ""
		if m.Share != nil {
			share = fmt.Sprintf("%.0f %% of the runs' time, ", 100**m.Share)
		}
		say("%s%s, went to %s: in %s runs %s each on average", share, unit.FormatSeconds(m.TotalS), m.Name, text.Thousands(m.Count), unit.FormatSeconds(*m.MeanS))
	}
	if x := r.Server; x != nil {
		for _, l := range logs.NotWhole(x.Logs, nil) {
			say("%s", l)
		}
		say("%s", ofServer(x))
	}
	if r.Runs == 0 {
		say("no runs")
	} else {
		say("%s runs of %s nodes from %sZ to %sZ: %d failed, %d changed something", text.Thousands(uint64(r.Runs)), text.Thousands(uint64(r.Nodes)),
			r.First.UTC().Format(time.DateTime), r.Last.UTC().Format(time.DateTime), r.Failed, r.Changed)
	}
	head := []string{"runs", "total", "share", "mean", "p50", "p90", "p99", "max", "slowest on"}
	table := func(name string, more []string, list []Measured, further func(m *Measured) []string) {
		if len(list) == 0 {
			return
		}
		fmt.Fprintln(s.Out)
		g := ui.Grid{Columns: ui.Columns(append(append([]string{name}, head...), more...)...)}
		for i := range list {
			g.Rows = append(g.Rows, append(measuredRow(&list[i]), further(&list[i])...))
		}
		g.Write(s)
	}
	nothing := func(*Measured) []string { return nil }
	if r.Total != nil {
		table("stage", nil, append([]Measured{*r.Total}, r.Stages...), nothing)
	} else {
		table("stage", nil, r.Stages, nothing)
	}
	table("type", nil, r.Types, nothing)
	table("resource", []string{"failed", "changed"}, r.Resources, func(m *Measured) []string {
		return []string{fmt.Sprint(m.Failed), fmt.Sprint(m.Changed)}
	})
	if n := r.ResourceNames - len(r.Resources); n > 0 {
		say("(%d more)", n)
	}
	if len(r.ByNode) > 0 {
		fmt.Fprintln(s.Out)
		g := ui.Grid{Columns: ui.Columns("node", "runs", "failed", "changed", "mean", "config_retrieval")}
		if r.Server != nil {
			g.Columns = append(g.Columns, ui.Columns("of it the server")...)
		}
		for _, n := range r.ByNode {
			row := []string{n.Name, fmt.Sprint(n.Runs), fmt.Sprint(n.Failed), fmt.Sprint(n.Changed), text.SecondsOrDash(n.MeanS), text.SecondsOrDash(n.MeanRetrievalS)}
			if r.Server != nil {
				row = append(row, text.SecondsOrDash(n.MeanCatalogS))
			}
			g.Rows = append(g.Rows, row)
		}
		if n := r.Nodes - len(r.ByNode); n > 0 {
			row := make([]string, len(g.Columns))
			row[0] = fmt.Sprintf("(%d more)", n)
			g.Rows = append(g.Rows, row)
		}
		g.Write(s)
	}
	if r.Server != nil {
		fmt.Fprintln(s.Out)
		g := ui.Grid{Columns: ui.Columns("log", "format", "why")}
		for _, l := range r.Server.Logs {
			g.Rows = append(g.Rows, []string{l.Path, l.Format + "; " + l.Duration + " in " + l.DurationUnit, l.Why})
		}
		g.Write(s)
	}
	puppetNotes(s, r)
}

// ofServer describes the server's part of the time that nodes waited.
func ofServer(x *Server) string {
	if x.Retrieval == nil {
		return "the log contains the catalog of no run"
	}
	out := fmt.Sprintf("of the %s that nodes waited for a catalog on average the server took %s", unit.FormatSeconds(*x.Retrieval.MeanS), unit.FormatSeconds(*x.Catalog.MeanS))
	if x.Share != nil {
		out += fmt.Sprintf(", %.0f %%", 100**x.Share)
	}
	rest := unit.FormatSeconds(*x.RestMeanS)
	return fmt.Sprintf("%s; the other %s are the network, TLS, queueing before the log's measurement begins, and the node (%s joined)", out, rest, text.CountPlural(uint64(x.Joined), "run", "runs"))
}

func puppetNotes(s *ui.Screen, r *Runs) {
	if n := r.Unread.Files; n > 0 {
		s.Say("%s could not be read", text.CountPlural(uint64(n), "file", "files"))
		for _, e := range r.Unread.Examples {
			s.Say("  %s: %s", e.Path, e.Why)
		}
	}
	if r.LeftOut > 0 {
		s.Say("%s left out by options", text.CountPlural(uint64(r.LeftOut), "report was", "reports were"))
	}
	if r.Cached > 0 {
		s.Say("%s a catalog that the node had cached", text.CountPlural(uint64(r.Cached), "run applied", "runs applied"))
	}
	if r.Folded > 0 {
		s.Say("%s not shown: above the limit of a million names", text.CountPlural(r.Folded, "resource is", "resources are"))
	}
	x := r.Server
	if x == nil {
		return
	}
	if x.Unread > 0 {
		s.Say("%s of the log could not be read", text.CountPlural(x.Unread, "line", "lines"))
	}
	if x.Repeated > 0 {
		s.Say("%s more than one catalog: a request failed, or the server assigns the node another environment than its puppet.conf", text.CountPlural(uint64(x.Repeated), "run requested", "runs requested"))
	}
	if x.Unjoined > 0 {
		s.Say("%s could not be joined: the log has no report of the node in the minute of the file name, or no catalog before it", text.CountPlural(uint64(x.Unjoined), "run", "runs"))
		for _, l := range x.Logs {
			if l.NoZone {
				s.Say("  the times of %s have no zone and are taken as UTC", l.Path)
			}
		}
	}
}

func measuredRow(m *Measured) []string {
	share := "-"
	if m.Share != nil {
		share = fmt.Sprintf("%.1f %%", 100**m.Share)
	}
	return []string{text.EscapeControls(m.Name), fmt.Sprint(m.Count), unit.FormatSeconds(m.TotalS), share, text.SecondsOrDash(m.MeanS), text.SecondsOrDash(m.P50S), text.SecondsOrDash(m.P90S), text.SecondsOrDash(m.P99S), text.SecondsOrDash(m.MaxS), m.SlowestOn}
}

// CSV writes the stages, types, resources and nodes as one table.
func CSV(w io.Writer, r *Runs) error {
	c := csv.NewWriter(w)
	_ = c.Write([]string{"of", "name", "count", "total_s", "share", "mean_s", "p50_s", "p90_s", "p99_s", "max_s", "slowest_on", "failed", "changed", "mean_config_retrieval_s", "mean_catalog_s"})
	write := func(of string, list []Measured) {
		for i := range list {
			m := &list[i]
			_ = c.Write([]string{of, text.CSVCell(m.Name), fmt.Sprint(m.Count), text.Decimal(&m.TotalS), text.Decimal(m.Share), text.Decimal(m.MeanS), text.Decimal(m.P50S), text.Decimal(m.P90S), text.Decimal(m.P99S), text.Decimal(m.MaxS),
				text.CSVCell(m.SlowestOn), fmt.Sprint(m.Failed), fmt.Sprint(m.Changed), "", ""})
		}
	}
	if r.Total != nil {
		write("run", []Measured{*r.Total})
	}
	write("stage", r.Stages)
	write("type", r.Types)
	write("resource", r.Resources)
	for _, n := range r.ByNode {
		_ = c.Write([]string{"node", text.CSVCell(n.Name), fmt.Sprint(n.Runs), "", "", text.Decimal(n.MeanS), "", "", "", "", "", fmt.Sprint(n.Failed), fmt.Sprint(n.Changed), text.Decimal(n.MeanRetrievalS), text.Decimal(n.MeanCatalogS)})
	}
	c.Flush()
	return c.Error()
}
