package scenario

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/requests/load/engine"
	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

// Headline reports missed thresholds, how many hosts did all steps, and what limited them.
func (x *Result) Headline() (h ui.Headline) {
	engine.Thresholds(&h, x.Gates, Judged.parts)
	h.Value("hosts_done", float64(x.Whole.Runs-x.Whole.Errors-x.Whole.Interrupted), "")
	if l := x.Whole.Latency; l.N > 0 {
		h.Value("p50_s", l.P50S, "")
		h.Value("p99_s", l.P99S, "")
	}
	text := x.Text
	if x.StandIn != "" {
		text = "stand-in " + x.StandIn + ": " + text
	}
	h.Line("%s", text)
	if x.Generator.Limited && len(x.Generator.Texts) > 0 {
		h.Line("%s", x.Generator.Texts[0])
	}
	return h
}

// Next returns how to remove the objects that the run created. Those of a ladder are removed after
// each of its runs.
func (x *Result) Next() (string, []string) {
	if x.Ladder == nil && x.Created != nil && x.Created.Intended > 0 {
		return "to remove the objects that this run created:", []string{"load", "scenario", "undo", x.RunID}
	}
	return "", nil
}

// Print prints the result of a run, the verdict first.
func (x *Result) Print(s *ui.Screen, r *evidence.Run) {
	h := x.Headline()
	ui.PrintHeadline(s, &h)
	fmt.Fprintln(s.Out)
	if x.Ladder != nil {
		x.Ladder.rungs().Write(s)
		x.Ladder.limits(s)
		ui.PrintLine(s, "· the figures below are those of a run with %s", internaltext.Count(x.Hosts, "host"))
		fmt.Fprintln(s.Out)
	}
	x.table().Write(s)
	if len(x.Gates) > 0 {
		fmt.Fprintln(s.Out)
		engine.WriteGates(s, x.Gates, "", Judged.parts)
	}
	fmt.Fprintln(s.Out)
	x.facts(r).Write(s)
}

// table returns the figures of the steps, and of whole hosts.
func (x *Result) table() *ui.Grid {
	g := &ui.Grid{Columns: ui.Columns("step", "runs", "errors", "per s", "p50", "p90", "p99", "max")}
	for i := range g.Columns[1:] {
		g.Columns[i+1].Right = true
	}
	row := func(name string, f *Figures) {
		l := f.Latency
		g.Rows = append(g.Rows, []string{name, fmt.Sprint(f.Runs), fmt.Sprint(f.Errors), unit.Digits(f.Rate), unit.FormatSecondsOf(l.N, l.P50S), unit.FormatSecondsOf(l.N, l.P90S), unit.FormatSecondsOf(l.N, l.P99S), unit.FormatSecondsOf(l.N, l.MaxS)})
	}
	for i := range x.Steps {
		name := x.Steps[i].Name
		if x.Steps[i].Setup {
			name += " (setup)"
		}
		row(name, &x.Steps[i].Figures)
	}
	row("whole host", &x.Whole)
	return g
}

// facts returns the facts that no other table has.
func (x *Result) facts(r *evidence.Run) *ui.Grid {
	g := &ui.Grid{Columns: []ui.Column{{}, {Below: true}}}
	row := g.Row
	title := x.Scenario
	if x.Title != "" {
		title += ": " + x.Title
	}
	if x.StandIn != "" {
		title += " (stand-in: " + x.StandIn + ")"
	}
	row("scenario", "%s", title)
	if x.Cut != nil {
		row("not whole", "%s", x.Cut)
	}
	for _, t := range x.Servers {
		if t.Refused {
			row("refused", "%s: not allowed or not found", t.Origin)
		} else {
			row("server", "%s at %s", t.Origin, t.Address)
		}
	}
	if x.Model == "open" {
		row("measured", "open model: %s for %s s; latency is from the intended start", x.asked(), unit.Digits(x.ForS))
	} else {
		row("measured", "closed model: %s at a time, %s each; a stall delays few requests", internaltext.Count(x.Hosts, "host"), internaltext.CountPlural(uint64(x.Repeat), "pass", "passes"))
	}
	for i := range x.Steps {
		s := &x.Steps[i]
		for _, cause := range slices.Sorted(maps.Keys(s.Causes)) {
			text := fmt.Sprintf("%s %s", cause, internaltext.Count(s.Causes[cause].N, "time"))
			if example := s.Causes[cause].Example; example != "" {
				text += ", as " + example
			}
			row(s.Name, "%s", text)
		}
	}
	if statuses := x.statuses(); statuses != "" {
		row("statuses", "%s", statuses)
	}
	if c := x.Created; c != nil {
		row("created", "%s known by id, of %d that were intended; run %s", internaltext.Count(c.Known, "object"), c.Intended, x.RunID)
	}
	row("received", "%s in %s", unit.Size(x.Whole.BytesIn).Human(), internaltext.Count(x.answers(), "answer"))
	row("generator", "%.0f %% of %s, %s of processor time a request; p99 of its start delay %s", 100*x.Generator.CPUShare, internaltext.Count(x.Generator.Processors, "processor"), unit.FormatSecondsMeasured(x.Generator.CPUPerRequestS), unit.FormatSecondsOf(x.Generator.StartDelay.N, x.Generator.StartDelay.P99S))
	for _, one := range x.Generator.Clients {
		if one.Lost != "" {
			row("client", "%s: %s", one.Name, one.Lost)
		} else {
			row("client", "%s: %d of %s, %.0f %% of %s, began %s late, clock within %s", one.Name, one.Ended, internaltext.CountPlural(uint64(one.Passes), "pass", "passes"), 100*one.CPUShare, internaltext.Count(one.Processors, "processor"), unit.FormatSeconds(one.LateBeginS), unit.FormatSeconds(one.ClockErrorS))
		}
	}
	for _, text := range x.Generator.Texts {
		row("note", "%s", text)
	}
	if r.ID != "" {
		row("evidence", "run %s, seed %s", r.ID, strconv.FormatUint(x.Seed, 10))
	}
	return g
}

// answers counts the requests that were answered.
func (x *Result) answers() (n int64) {
	for _, count := range x.Whole.Statuses {
		n += count
	}
	return n
}

// statuses formats counts by status: "200: 5, 404: 1".
func (x *Result) statuses() string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(x.Whole.Statuses)) {
		out = append(out, internaltext.Sprintf("%s: %d", name, x.Whole.Statuses[name]))
	}
	return strings.Join(out, ", ")
}
