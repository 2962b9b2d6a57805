package disk

import (
	"fmt"
	"strings"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

// DryRun describes the planned measurements.
type DryRun struct {
	Schema   string      `json:"schema"` // fettle/bench-disk-plan/v1
	Headline ui.Headline `json:"headline"`
	Plan     Plan        `json:"plan"`
	// TakesS is an estimate in seconds, 0 if it is unknown.
	TakesS float64  `json:"takes_s"`
	Places []*Place `json:"directories"`
}

// NewDryRun describes a plan for some directories.
func NewDryRun(plan Plan, places []*Place) *DryRun {
	d := &DryRun{Schema: "fettle/bench-disk-plan/v1", Plan: plan, Places: places, TakesS: plan.Takes().Seconds()}
	takes := ""
	if d.TakesS > 0 {
		takes = ", about " + ui.Roughly(d.TakesS)
	}
	h := &d.Headline
	h.Line("%s in %s, %s each%s; --dry-run: nothing is measured", h.Count("cells", len(plan.Cells), "measurement"), h.Count("directories", len(places), "directory"), text.Count(plan.Repeats, "time"), takes)
	return d
}

// Print prints the plan, and the call that measures.
func (d *DryRun) Print(s *ui.Screen) {
	ui.PrintHeadline(s, &d.Headline)
	for _, p := range d.Places {
		role := ""
		if p.Role != "" {
			role = ", judged as a directory of " + string(p.Role)
		}
		ui.PrintLine(s, "%s: a file of %s, removed afterwards%s", ui.Printable(p.Directory), unit.Size(p.SizeBytes).Human(), role)
	}
	fmt.Fprintln(s.Out)
	g := ui.Grid{Columns: []ui.Column{{Head: "cell"}, {Head: "I/O"}, {Head: "block", Right: true}, {Head: "in flight", Right: true}, {Head: "cache"}, {Head: "unit"}}}
	for _, c := range d.Plan.Cells {
		g.Rows = append(g.Rows, []string{c.Name, ioOf(c), bytesOf(c.BlockBytes), fmt.Sprint(c.Depth), string(c.Cache), c.Unit})
	}
	g.Write(s)
	if s.Call != nil {
		fmt.Fprintln(s.Out, "\nto measure:")
		ui.PrintCommand(s, s.Call(ui.Remedy{Drop: []string{"--dry-run"}}))
	}
}

func ioOf(c Cell) string {
	if c.ReadPercent > 0 {
		return fmt.Sprintf("%s %d/%d", c.RW, c.ReadPercent, 100-c.ReadPercent)
	}
	return c.RW
}

func bytesOf(n int64) string {
	switch {
	case n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return text.Sprintf("%d B", n)
}

// Print prints the result of bench disk, the verdicts first. On a terminal without --wide it omits
// the reference devices and all but a few reasons for doubt.
func (e *Evidence) Print(s *ui.Screen, r *evidence.Run) {
	h := e.Headline()
	ui.PrintHeadline(s, &h)
	for _, p := range e.Places {
		fmt.Fprintln(s.Out)
		ui.PrintLine(s, "%s: %s", p.Directory, p.HeldBy())
		diskVerdicts(s, p)
		diskCells(s, p)
	}
	if chart := diskChart(e); (s.Wide || s.Width == 0) && len(chart.Rows) > 0 {
		fmt.Fprintln(s.Out, "\nCompared with the devices in Red Hat's solution, which were measured with 4 KiB requests through the page cache:")
		chart.Write(s)
		for _, d := range references {
			if d.Note != "" {
				fmt.Fprintf(s.Out, "  %s: %s\n", d.Device, d.Note)
			}
		}
	}
	if r.ID != "" {
		fmt.Fprintf(s.Out, "run %s, %s\n", r.ID, e.FIO)
	}
	for _, w := range e.Warnings {
		s.Say("%s", w)
	}
}

func diskVerdicts(s *ui.Screen, p Measured) {
	g := ui.Grid{Columns: []ui.Column{{Head: "verdict"}, {Head: "what"}, {Head: "value"}, {Head: "why", Cut: true}}}
	for _, j := range p.Verdict {
		g.Rows = append(g.Rows, []string{string(j.Verdict), j.Name, j.Figure(), j.Text})
	}
	if f := p.Foreman; f != nil {
		g.Rows = append(g.Rows, []string{"(" + f.Says + ")", "verdict of foreman-maintain", f.Figure(), foremanQuestion})
	}
	if len(g.Rows) == 0 {
		return
	}
	g.Color = func(row, col int) string {
		if col != 0 {
			return ""
		}
		return map[string]string{"pass": ui.Green, "warn": ui.Yellow, "fail": ui.Red}[g.Rows[row][0]]
	}
	g.Write(s)
	fmt.Fprintln(s.Out)
}

func diskCells(s *ui.Screen, p Measured) {
	g := ui.Grid{Columns: []ui.Column{{Head: "cell"}, {Head: "median", Right: true}, {Head: "spread", Right: true}, {Head: "in flight", Wide: true}, {Head: "mean", Right: true},
		{Head: "p99", Right: true}, {Head: "from disk", Wide: true}, {Head: "steady", Wide: true}, {Head: "doubts"}}}
	var notes []string
	for _, c := range p.Results {
		if c.Steady.State != NotTested {
			g.Columns[7].Wide, g.Columns[7].Cut = false, true
		}
		from := ""
		if c.FromStorage != nil {
			from = fmt.Sprintf("%.0f %%", 100**c.FromStorage)
		}
		var doubts []string
		for _, d := range c.Doubts {
			doubts = append(doubts, string(d.Kind))
			if d.Kind != Noisy { // the spread's column shows these
				notes = append(notes, c.Name+": "+d.Text)
			}
		}
		g.Rows = append(g.Rows, []string{c.Name, c.Text(), c.SpreadText(), fmt.Sprintf("%.1f", c.InFlight), latency(c.MeanS), latency(c.P99S), from, c.Steady.Text(), strings.Join(doubts, ", ")})
	}
	g.Write(s)
	if most := 4; s.Width > 0 && !s.Wide && len(notes) > most {
		notes = append(notes[:most], text.Count(len(notes)-most, "more reason")+" for doubt (--wide)")
	}
	for _, n := range notes {
		ui.PrintLine(s, "%s", n)
	}
	if fit := p.FitText(); fit != "" && (p.Fit != nil || s.Wide || s.Width == 0) {
		ui.PrintLine(s, "%s", fit)
	}
}

// latency formats a time, or returns "" if it was not measured.
func latency(s float64) string {
	if s == 0 {
		return ""
	}
	return unit.FormatSeconds(s)
}

// diskChart returns the chart of the directories and the reference devices, fastest first.
func diskChart(e *Evidence) ui.Grid {
	const widest = 30
	g := ui.Grid{Columns: ui.Columns("device", "read MiB/s", "write MiB/s", "read")}
	rows := e.Chart()
	for _, r := range rows {
		name, sign := r.Name, "#"
		if r.Here {
			name = "this: " + name
		}
		if len(r.Doubts) > 0 {
			name += " (doubtful: " + strings.Join(r.Doubts, ", ") + ")"
		}
		if r.Doubtful {
			sign = "-"
		}
		g.Rows = append(g.Rows, []string{name, unit.Digits(r.Read), unit.Digits(r.Write), strings.Repeat(sign, max(1, int(widest*r.Read/rows[0].Read+0.5)))})
	}
	return g
}
