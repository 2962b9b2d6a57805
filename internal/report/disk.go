package report

import (
	"fmt"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/bench/disk"
	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

// DiskPlan prints what bench disk would do.
func DiskPlan(s *ui.Screen, plan disk.Plan, places []*disk.Place) {
	for _, p := range places {
		role := ""
		if p.Role != "" {
			role = ", judged as one of " + string(p.Role)
		}
		fmt.Fprintf(s.Out, "%s: a file of %d MiB%s\n", ui.Printable(p.Directory), p.SizeBytes>>20, role)
	}
	fmt.Fprintln(s.Out)
	g := Grid{Head: []string{"cell", "I/O", "block", "in flight", "cache", "unit", "repeats"}}
	for _, c := range plan.Cells {
		g.Rows = append(g.Rows, []string{c.Name, ioOf(c), bytesOf(c.BlockBytes), fmt.Sprint(c.Depth), string(c.Cache), c.Unit, fmt.Sprint(plan.Repeats)})
	}
	g.Write(s)
}

func ioOf(c disk.Cell) string {
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
	return fmt.Sprintf("%d B", n)
}

// Disk prints what bench disk found: the verdicts first.
func Disk(s *ui.Screen, r *evidence.Run, e *disk.Evidence) {
	if e.Cut != nil {
		fmt.Fprintf(s.Out, "%s\n\n", ui.Printable(e.Cut.String()))
	}
	for i, p := range e.Places {
		if i > 0 {
			fmt.Fprintln(s.Out)
		}
		fmt.Fprintf(s.Out, "%s: %s\n\n", ui.Printable(p.Directory), ui.Printable(storage(p)))
		diskVerdicts(s, p)
		diskCells(s, p)
	}
	if chart := diskChart(e); len(chart.Rows) > 0 {
		fmt.Fprintln(s.Out, "\nBeside the devices of Red Hat's solution, 4 KiB at a time through the page cache:")
		chart.Write(s)
		for _, d := range disk.References {
			if d.Note != "" {
				fmt.Fprintf(s.Out, "  %s: %s\n", d.Device, d.Note)
			}
		}
	}
	if r.ID != "" {
		fmt.Fprintf(s.Out, "\nrun %s, %s\n", r.ID, e.FIO)
	}
	for _, w := range e.Warnings {
		s.Say("%s", w)
	}
}

// storage says what holds a directory.
func storage(p disk.Measured) string {
	parts := []string{p.Storage.Type + " on " + p.Storage.Source}
	for _, l := range p.Storage.Layers {
		name := strings.TrimSpace(l.Device + " " + l.Kind)
		if !l.Lower {
			name = strings.Join(strings.Fields(l.Device+" "+l.Transport+" "+l.Model), " ")
		}
		parts = append(parts, name)
	}
	return strings.Join(parts, " < ") + ", class " + string(p.Storage.Class)
}

func diskVerdicts(s *ui.Screen, p disk.Measured) {
	g := Grid{Head: []string{"verdict", "what", "value", "why"}}
	for _, j := range p.Verdict {
		value := figure(j.Value) + " " + j.Unit
		if j.Unit == "MiB/s" {
			value += " (" + figure(j.Value*(1<<20)/1e6) + " MB/s)"
		}
		g.Rows = append(g.Rows, []string{string(j.Verdict), j.Name, value, j.Text})
	}
	if f := p.Foreman; f != nil {
		g.Rows = append(g.Rows, []string{"(" + f.Says + ")", "what foreman-maintain would say", figure(f.MiBPS) + " MiB/s", "4 KiB, one request at a time: the answer to another question"})
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

func diskCells(s *ui.Screen, p disk.Measured) {
	g := Grid{Head: []string{"cell", "median", "spread", "in flight", "mean", "p99", "from disk", "steady", "doubts"}}
	var notes []string
	for _, c := range p.Results {
		from := ""
		if c.FromStorage != nil {
			from = fmt.Sprintf("%.0f %%", 100**c.FromStorage)
		}
		value := figure(c.Value) + " " + c.Unit
		if c.Unit == "ms" {
			value += ", " + figure(c.SyncsPS) + " 1/s"
		}
		var doubts []string
		for _, d := range c.Doubts {
			doubts = append(doubts, string(d.Kind))
			if d.Kind != disk.Noisy { // the column of the spread says it
				notes = append(notes, c.Name+": "+d.Text)
			}
		}
		g.Rows = append(g.Rows, []string{c.Name, value, fmt.Sprintf("%.0f %%", 100*c.Spread), fmt.Sprintf("%.1f", c.InFlight), latency(c.MeanS), latency(c.P99S), from, c.Steady.Text(), strings.Join(doubts, ", ")})
	}
	g.Write(s)
	for _, n := range notes {
		fmt.Fprintf(s.Out, "  %s\n", ui.Printable(n))
	}
	left := strings.Join(p.Unfitted, ", ")
	switch f := p.Fit; {
	case f != nil:
		fmt.Fprintf(s.Out, "\nBlock sizes: each request costs %s, and then its bytes at %.4g MB/s; no rung is further than %.0f %% from that.", latency(f.FixedS), f.BytesPS/1e6, 100*f.Worst)
		if left != "" {
			fmt.Fprintf(s.Out, " Without %s: doubtful.", left)
		}
		fmt.Fprintln(s.Out)
	case left != "":
		fmt.Fprintf(s.Out, "\nBlock sizes: too few figures for a fit: %s are doubtful.\n", left)
	}
}

// figure is a number with as many digits as matter.
func figure(v float64) string {
	if v >= 1000 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}

// latency is a time; nothing for one that was not measured.
func latency(s float64) string {
	if s == 0 {
		return ""
	}
	return unit.FormatSeconds(s)
}

// diskChart puts the directories among the reference devices, fastest first.
func diskChart(e *disk.Evidence) Grid {
	type row struct {
		name        string
		read, write float64
		doubtful    bool // the reads
	}
	var rows []row
	for _, p := range e.Places {
		at := row{name: "this: " + p.Directory}
		var doubts []string
		for i := range p.Results {
			r, to := &p.Results[i], &at.read
			switch r.Name {
			case "buffered-read", "classic-read":
			case "buffered-write", "classic-write":
				to = &at.write
			default:
				continue
			}
			*to = r.Value * 1e6 / (1 << 20)
			if d := r.Doubtful(); d != nil {
				doubts = append(doubts, r.Name+" "+string(d.Kind))
				at.doubtful = at.doubtful || to == &at.read
			}
		}
		if len(doubts) > 0 {
			at.name += " (doubtful: " + strings.Join(doubts, ", ") + ")"
		}
		if at.read > 0 && at.write > 0 {
			rows = append(rows, at)
		}
	}
	if len(rows) == 0 {
		return Grid{}
	}
	for _, d := range disk.References {
		rows = append(rows, row{name: d.Device, read: d.Read, write: d.Write})
	}
	slices.SortStableFunc(rows, func(a, b row) int { return int(b.read - a.read) })
	const widest = 30
	g := Grid{Head: []string{"device", "read MiB/s", "write MiB/s", "read"}}
	for _, r := range rows {
		sign := "#"
		if r.doubtful {
			sign = "-"
		}
		g.Rows = append(g.Rows, []string{r.name, figure(r.read), figure(r.write), strings.Repeat(sign, max(1, int(widest*r.read/rows[0].read+0.5)))})
	}
	return g
}
