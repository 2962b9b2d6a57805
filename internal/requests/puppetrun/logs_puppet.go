package puppetrun

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"fettle.dev/fettle/internal/requests/logs"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

// mostLines limits the printed lines of an analysis that shows only some of its rows.
const mostLines = 40

// Print prints the analysis of reports: the headline, the next step, and the figures. By
// default it shows as many rows as fit on a page. With all or Screen.Wide it shows all rows.
func Print(s *ui.Screen, r *Runs, all bool) {
	head := *s
	var begin bytes.Buffer
	head.Out = &begin
	if r.Server != nil {
		incomplete := ui.Headline{Lines: logs.NotWhole(r.Server.Logs, nil)}
		ui.PrintHeadline(&head, &incomplete)
	}
	ui.PrintHeadline(&head, &r.Headline)
	if next, command := next(s, r); command != "" {
		text := ui.Headline{Lines: []string{next + ":"}}
		ui.PrintHeadline(&head, &text)
		ui.PrintCommand(&head, command)
	}
	tables := tables(r)
	rows := make([]int, len(tables))
	for i, t := range tables {
		rows[i] = len(t.Rows)
	}
	notes := puppetNotes(r)
	if !all && !s.Wide {
		rows = logs.Fold(rows, mostLines-bytes.Count(begin.Bytes(), []byte("\n"))-len(notes)-4)
	}
	_, _ = begin.WriteTo(s.Out)
	var left []string
	for i, t := range tables {
		fmt.Fprintln(s.Out)
		t.Rows = t.Rows[:rows[i]]
		logs.WriteKeyed(s, t.Grid)
		if n := t.all - rows[i]; n > 0 {
			left = append(left, fmt.Sprintf("%s of %s by %s", unit.Thousands(uint64(n)), unit.Thousands(uint64(t.all)), t.Columns[0].Head))
		}
	}
	if len(left) > 0 {
		fmt.Fprintln(s.Out)
		rest := ui.Headline{Lines: []string{"not shown: " + strings.Join(left, "; ") + "; --top 0 shows all rows, --wide all columns"}}
		ui.PrintHeadline(s, &rest)
	}
	if r.Server != nil {
		fmt.Fprintln(s.Out)
		g := ui.Grid{Columns: []ui.Column{{Head: "log"}, {Head: "format", Cut: true}, {Head: "why", Cut: true}}}
		for _, l := range r.Server.Logs {
			g.Rows = append(g.Rows, []string{l.Path, l.Format + "; " + l.Duration + " in " + l.DurationUnit, l.Why})
		}
		g.Write(s)
	}
	for _, n := range notes {
		s.Say("%s", n)
	}
}

// puppetTable is a table of an analysis. all is the number of rows, shown or not.
type puppetTable struct {
	ui.Grid
	all int
}

// tables returns the tables with rows: stages, types, resources, nodes.
func tables(r *Runs) (out []puppetTable) {
	right := func(head string) ui.Column { return ui.Column{Head: head, Right: true} }
	head := []ui.Column{right("runs"), {Head: "total", Right: true, Wide: true}, right("share"), right("mean"), {Head: "p50", Right: true, Optional: true}, {Head: "p90", Right: true, Wide: true},
		right("p99"), {Head: "max", Right: true, Optional: true}, {Head: "slowest on", Optional: true}}
	add := func(name string, list []Measured, all int, more []ui.Column, further func(m *Measured) []string) {
		if len(list) == 0 {
			return
		}
		g := ui.Grid{Columns: slices.Concat([]ui.Column{{Head: name}}, more, head)}
		for i := range list {
			row := measuredRow(&list[i])
			g.Rows = append(g.Rows, slices.Concat(row[:1], further(&list[i]), row[1:]))
		}
		out = append(out, puppetTable{g, max(all, len(list))})
	}
	nothing := func(*Measured) []string { return nil }
	stages := r.Stages
	if r.Total != nil {
		stages = append([]Measured{*r.Total}, stages...)
	}
	add("stage", stages, 0, nil, nothing)
	add("type", r.Types, 0, nil, nothing)
	add("resource", r.Resources, r.ResourceNames, []ui.Column{right("failed"), right("changed")}, func(m *Measured) []string {
		return []string{unit.Thousands(m.Failed), unit.Thousands(m.Changed)}
	})
	if len(r.ByNode) > 0 {
		out = append(out, puppetTable{nodes(r), r.Nodes})
	}
	return out
}

// nodes returns the grid of nodes.
func nodes(r *Runs) ui.Grid {
	g := ui.Grid{Columns: []ui.Column{{Head: "node"}, {Head: "runs", Right: true}, {Head: "failed", Right: true}, {Head: "changed", Right: true}, {Head: "mean", Right: true}, {Head: "config_retrieval", Right: true}}}
	if r.Server != nil {
		g.Columns = append(g.Columns, ui.Column{Head: "server's part", Right: true})
	}
	for _, n := range r.ByNode {
		row := []string{text.EscapeControls(n.Name), fmt.Sprint(n.Runs), fmt.Sprint(n.Failed), fmt.Sprint(n.Changed), text.SecondsOrDash(n.MeanS), text.SecondsOrDash(n.MeanRetrievalS)}
		if r.Server != nil {
			row = append(row, text.SecondsOrDash(n.MeanCatalogS))
		}
		g.Rows = append(g.Rows, row)
	}
	return g
}

// headline returns the headline: where the runs' time went, and the server's share.
func headline(r *Runs) (h ui.Headline) {
	if m := r.WentTo; m != nil && m.MeanS != nil {
		share := ""
		if m.Share != nil {
			share = h.Value("went_to_share_percent", 100**m.Share, unit.Decimals(100**m.Share, 1)+" %") + " of the runs' time, "
		}
		h.Line("%s%s, went to %s: in %s %s each on average", share, h.Value("went_to_total_s", m.TotalS, unit.FormatSeconds(m.TotalS)), m.Name,
			h.Count("went_to_runs", int(m.Count), "run"), h.Value("went_to_mean_s", *m.MeanS, unit.FormatSeconds(*m.MeanS)))
	}
	if r.Server != nil {
		h.Line("%s", ofServer(&h, r.Server))
	}
	if r.Runs == 0 {
		h.Value("runs", 0, "")
		h.Line("no runs")
		return h
	}
	h.Line("%s of %s from %sZ to %sZ: %s failed, %s changed something", h.Count("runs", r.Runs, "run"), h.Count("nodes", r.Nodes, "node"),
		r.First.UTC().Format(time.DateTime), r.Last.UTC().Format(time.DateTime), h.Count("failed", r.Failed, ""), h.Count("changed", r.Changed, ""))
	return h
}

// serverLog is the default path of Puppet Server's request log.
const serverLog = "/var/log/puppetlabs/puppetserver/puppetserver-access.log"

// next returns the next step and its command, or "".
func next(s *ui.Screen, r *Runs) (what, command string) {
	switch {
	case r.Runs == 0:
		return "", ""
	case r.Server != nil:
		return "next, server settings for these requests", text.CommandLine([]string{"fettle", "size", "puppet", "--log", r.Server.Logs[0].Path})
	case s.Call != nil:
		return "next, the server's share of the time, from its log", s.Call(ui.Remedy{Options: []string{"--access-log", serverLog}})
	}
	return "", ""
}

// ofServer describes the server's share of the time that nodes waited.
func ofServer(h *ui.Headline, x *Server) string {
	if x.Retrieval == nil {
		return "the log contains no request for a catalog of these runs"
	}
	seconds := func(name string, s float64) string { return h.Value(name, s, unit.FormatSeconds(s)) }
	out := fmt.Sprintf("nodes waited %s for a catalog on average; the server took %s of this time", seconds("config_retrieval_mean_s", *x.Retrieval.MeanS), seconds("catalog_mean_s", *x.Catalog.MeanS))
	if x.Share != nil {
		out += ", " + h.Value("server_share_percent", 100**x.Share, unit.Decimals(100**x.Share, 1)+" %")
	}
	return fmt.Sprintf("%s; the network, TLS, queueing and the node took the other %s (%s joined)", out, seconds("rest_mean_s", *x.RestMeanS), h.Count("joined", x.Joined, "run"))
}

// puppetNotes lists unread data and what limits the figures.
func puppetNotes(r *Runs) (out []string) {
	say := func(format string, args ...any) { out = append(out, text.Sprintf(format, args...)) }
	if n := r.Unread.Files; n > 0 {
		say("%s could not be read", text.CountPlural(uint64(n), "file", "files"))
		for _, e := range r.Unread.Examples {
			say("  %s: %s", e.Path, e.Why)
		}
	}
	if r.LeftOut > 0 {
		say("%s left out by options", text.CountPlural(uint64(r.LeftOut), "report was", "reports were"))
	}
	if r.Cached > 0 {
		say("%s a catalog that the node had cached", text.CountPlural(uint64(r.Cached), "run applied", "runs applied"))
	}
	if r.Folded > 0 {
		say("%s not shown: above the limit of a million names", text.CountPlural(r.Folded, "resource is", "resources are"))
	}
	x := r.Server
	if x == nil {
		return out
	}
	if x.Unread > 0 {
		say("%s of the log could not be read", text.CountPlural(x.Unread, "line", "lines"))
	}
	if x.Repeated > 0 {
		say("%s more than one catalog: a request failed, or the server assigns the node another environment than its puppet.conf", text.CountPlural(uint64(x.Repeated), "run requested", "runs requested"))
	}
	if x.Unjoined > 0 {
		say("%s could not be joined: the log has no report of the node in the minute of the file name, or no catalog before it", text.CountPlural(uint64(x.Unjoined), "run", "runs"))
		for _, l := range x.Logs {
			if l.NoZone {
				say("  the times of %s have no zone and are taken as UTC", l.Path)
			}
		}
	}
	return out
}

func measuredRow(m *Measured) []string {
	share := "-"
	if m.Share != nil {
		share = unit.Digits(math.Round(1000**m.Share)/10) + " %"
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
