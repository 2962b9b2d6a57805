package mqtt

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/requests/load/engine"
	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

// closedEarly explains why a broker closes new connections without a message.
const closedEarly = "a broker at its limit closes new connections without a message: mosquitto does so at a listener's max_connections and at its limit of open files (LimitNOFILE of its unit)"

// Headline reports whether the thresholds were met, how many hosts were connected and
// notified, and what limited them.
func (x *Result) Headline() (h ui.Headline) {
	engine.Thresholds(&h, x.Gates, Gate.parts)
	h.Line("%s", x.Text)
	if x.Connect.Connected > 0 && strings.Contains(x.Text, unit.Digits(float64(x.Connect.Connected))+" ") {
		h.Count("hosts_connected", x.Connect.Connected, "")
	}
	switch {
	case x.Generator.Limited && len(x.Generator.Texts) > 0:
		h.Line("%s", x.Generator.Texts[0])
	case x.Connect.Failures["closed-early"].N > 0:
		h.Line("%s", closedEarly)
	}
	return h
}

// Next returns how to check the broker's limits if the broker closed connections.
func (x *Result) Next() (string, []string) {
	if x.Connect.Failures["closed-early"].N > 0 {
		return "to check the limits, on the broker's machine:", []string{"check", "--explain", "S31"}
	}
	return "", nil
}

// Print prints the result of a load, the verdict first.
func (x *Result) Print(s *ui.Screen, r *evidence.Run) {
	h := x.Headline()
	ui.PrintHeadline(s, &h)
	fmt.Fprintln(s.Out)
	if len(x.Rounds) > 0 {
		mqttRounds(s, x)
		fmt.Fprintln(s.Out)
	}
	if len(x.Gates) > 0 {
		engine.WriteGates(s, x.Gates, " with ", Gate.parts)
		fmt.Fprintln(s.Out)
	}
	mqttFacts(r, x).Write(s)
}

// mqttRounds prints a table of the rounds.
func mqttRounds(s *ui.Screen, x *Result) {
	pull := x.Pull != nil
	g := ui.Grid{Columns: ui.Columns("settings of the proxy", "jobs", "notified", "undelivered", "p50", "p99", "max", "sent again")}
	if pull {
		g.Columns = append(g.Columns, ui.Columns("fetched", "failed", "started twice", "all took")...)
	}
	for _, o := range x.Rounds {
		l := o.Latency
		row := []string{o.Settings, fmt.Sprint(o.Jobs), fmt.Sprint(o.Notified), fmt.Sprint(o.Undelivered), unit.FormatSecondsOf(l.N, l.P50S), unit.FormatSecondsOf(l.N, l.P99S), unit.FormatSecondsOf(l.N, l.MaxS), fmt.Sprint(o.SentAgain)}
		if q := o.Pull; pull && q != nil {
			row = append(row, fmt.Sprint(q.Fetched), fmt.Sprint(q.Failed), fmt.Sprint(q.StartedTwice), unit.FormatSeconds(o.DurationS))
		}
		g.Rows = append(g.Rows, row)
	}
	g.Write(s)
}

// mqttFacts returns the facts that no other table has.
func mqttFacts(r *evidence.Run, x *Result) *ui.Grid {
	g := &ui.Grid{Columns: []ui.Column{{}, {Below: true}}}
	row := g.Row
	failed := func(name string, all map[string]engine.FailureCount) {
		for _, kind := range slices.Sorted(maps.Keys(all)) {
			text := internaltext.Sprintf("%s: %d", kind, all[kind].N)
			if example := all[kind].Example; example != "" {
				text += ", as " + example
			}
			row(name, "%s", text)
		}
	}
	if x.Cut != nil {
		row("not whole", "%s", x.Cut)
	}
	row("broker", "%s at %s", x.Broker.URL, x.Broker.Probe)
	c := &x.Connect
	row("connected", "%d of %s, at %s/s (requested %s/s); p50 %s, p99 %s, max %s", c.Connected, internaltext.Count(x.Hosts, "host"), unit.Digits(c.Rate), unit.Digits(c.AskedRate), unit.FormatSecondsOf(c.Latency.N, c.Latency.P50S), unit.FormatSecondsOf(c.Latency.N, c.Latency.P99S), unit.FormatSecondsOf(c.Latency.N, c.Latency.MaxS))
	if c.FirstRefused != nil {
		row("refused", "%s; the first refusal came with %s connected", internaltext.Count(c.Refused, "host"), internaltext.Count(*c.FirstRefused, "host"))
	}
	failed("not connected", c.Failures)
	failed("lost", c.LostFailures)
	for i, o := range x.Rounds {
		at := ""
		if len(x.Rounds) > 1 {
			at = fmt.Sprintf(" (round %d)", i+1)
		}
		if o.Notified > 0 {
			row("notified"+at, "%s at %s/s (requested %s/s), one after the other, as the proxy sends them", internaltext.Count(o.Notified, "job"), unit.Digits(o.NotifiedRate), unit.Digits(x.JobRate))
		}
		failed("not published"+at, o.PublishFailures)
		if q := o.Pull; q != nil {
			failed("not fetched"+at, q.FetchFailures)
			failed("report not taken"+at, q.ReportFailures)
			row("jobs"+at, "time until pick-up: p50 %s, p99 %s; time per report: p50 %s, p99 %s; at most %d jobs in progress", unit.FormatSecondsOf(q.PickUp.N, q.PickUp.P50S), unit.FormatSecondsOf(q.PickUp.N, q.PickUp.P99S), unit.FormatSecondsOf(q.Report.N, q.Report.P50S), unit.FormatSecondsOf(q.Report.N, q.Report.P99S), q.MostUnderWay)
		}
	}
	row("generator", "%.0f %% of %s, %s of memory a host", 100*x.Generator.CPUShare, internaltext.Count(x.Generator.Processors, "processor"), unit.Size(x.Generator.MemoryPerHostBytes).Human())
	for _, text := range x.Generator.Texts {
		row("note", "%s", text)
	}
	if r.ID != "" {
		row("evidence", "run %s", r.ID)
	}
	return g
}
