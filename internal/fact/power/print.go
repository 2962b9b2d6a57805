package power

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

// rowsShown is the number of CPUs shown without --all.
const rowsShown = 16

// requestedShown and enteredShown are the numbers of idle states with a column without --wide.
const requestedShown, enteredShown = 3, 2

// row is a line of the table.
type row struct {
	pkg, core, cpu string
	*Values
}

// rows returns the lines of a sample: the machine, its packages if there are several, and CPUs in
// ascending order. most is the maximum number of CPUs; if there are more, the busiest are returned.
func rows(s *Sample, most int) (out []row) {
	out = append(out, row{"all", "", "", &s.Machine})
	for i := range s.Packages {
		if len(s.Packages) > 1 {
			out = append(out, row{strconv.Itoa(s.Packages[i].Package), "all", "", &s.Packages[i].Values})
		}
	}
	id := func(n int) string {
		if n < 0 {
			return "?"
		}
		return strconv.Itoa(n)
	}
	cpus := s.CPUs
	if len(cpus) > most {
		cpus = slices.Clone(cpus)
		slices.SortStableFunc(cpus, func(a, b CPU) int { return cmp.Compare(value(b.BusyPercent), value(a.BusyPercent)) })
		cpus = cpus[:most]
	}
	for i := range cpus {
		c := &cpus[i]
		out = append(out, row{id(c.Package), id(c.Core), strconv.Itoa(c.CPU), &c.Values})
	}
	return out
}

// column is a column of the table.
type column struct {
	head string
	quantity
	state string
	show  visibility
}

// value returns the value of a column, or nil if it is unknown.
func (c *column) value(v *Values) *float64 {
	def := &quantities[c.quantity]
	if def.states == nil {
		return *def.at(v)
	}
	if percent, ok := (*def.states(v))[c.state]; ok {
		return &percent
	}
	return nil
}

// columns returns the columns of a report's last sample. The idle states with the most time have a
// column; --wide adds the others. Requested states need --wide if the entered states are known.
// C0 has no column, because the busy time shows the same, and the frequency at the end of
// the interval needs --wide if the busy frequency is known.
func columns(r *Report) (out []column) {
	s := r.Last()
	longest := map[string]float64{} // of the packages, by entered state
	for _, p := range s.Packages {
		for name, percent := range p.EnteredPercent {
			longest[name] = max(longest[name], percent)
		}
	}
	ofRequested := requestedShown
	if _, works := longest[notIdle]; len(longest) > 1 || len(longest) == 1 && !works {
		ofRequested = 0
	}
	for q := range quantities {
		def := &quantities[q]
		switch {
		case def.head == "" && def.states == nil:
		case quantity(q) == entered:
			out = append(out, stateColumns(entered, slices.Sorted(maps.Keys(longest)), longest, enteredShown)...)
		case quantity(q) == requested:
			out = append(out, stateColumns(requested, r.Settings.IdleStates, s.Machine.RequestedPercent, ofRequested)...)
		case quantity(q) == frequency && s.Machine.BusyFrequencyHz != nil:
			out = append(out, column{def.head, frequency, "", wide})
		default:
			out = append(out, column{def.head, quantity(q), "", def.show})
		}
	}
	return out
}

// stateColumns returns a column for each state with a known share. Without --wide, shown states with
// most time are shown.
func stateColumns(q quantity, names []string, share map[string]float64, shown int) (out []column) {
	most := slices.SortedStableFunc(slices.Values(names), func(a, b string) int { return cmp.Compare(share[b], share[a]) })
	most = slices.DeleteFunc(most, func(name string) bool { return name == notIdle })
	for _, name := range names {
		c := column{name + " %", q, name, always}
		if q == entered && !strings.HasPrefix(name, ofPackage) {
			c.head = "hw " + c.head
		}
		if at := slices.Index(most, name); share[name] < 0.05 || at < 0 || at >= shown {
			c.show = wide
		}
		if _, known := share[name]; known {
			out = append(out, c)
		}
	}
	return out
}

// idColumns is the number of columns that say what a row is.
const idColumns = 3

// grid returns the table of a report's last sample, with at most most CPUs, and the number of CPUs
// left out. Columns without a value are omitted.
func grid(r *Report, most int) (g ui.Grid, left int) {
	lines := rows(r.Last(), most)
	g.Columns = []ui.Column{{Head: "pkg", Right: true}, {Head: "core", Right: true}, {Head: "CPU", Right: true}}
	for _, l := range lines {
		g.Rows = append(g.Rows, []string{l.pkg, l.core, l.cpu})
	}
	for _, c := range columns(r) {
		def := &quantities[c.quantity]
		known, some := false, false
		cells := make([]string, len(lines))
		for i, l := range lines {
			if v := c.value(l.Values); v != nil {
				cells[i] = unit.Decimals(*v*def.scale, def.places)
				known, some = true, some || cells[i] != "0"
			}
		}
		if !known {
			continue
		}
		g.Columns = append(g.Columns, ui.Column{Head: c.head, Right: true, Optional: c.show == optional, Wide: c.show == wide || c.show == notable && !some})
		for i := range lines {
			g.Rows[i] = append(g.Rows[i], cells[i])
		}
	}
	return g, max(0, len(r.Last().CPUs)-most)
}

// Print prints a report: the headline, a table for each sample, and the missing values. With all,
// it prints every CPU.
func Print(s *ui.Screen, r *Report, all bool) {
	ui.PrintHeadline(s, &r.Headline)
	most := rowsShown
	if all {
		most = len(r.Last().CPUs)
	}
	for i := range r.Samples {
		part := *r
		part.Samples = r.Samples[i : i+1]
		g, left := grid(&part, most)
		if len(g.Columns) == idColumns {
			continue // nothing is known of any CPU
		}
		fmt.Fprintln(s.Out)
		if len(r.Samples) > 1 {
			ui.PrintLine(s, "%s:", part.Last().Time.Format(time.TimeOnly+"Z"))
		}
		g.Write(s)
		if left > 0 {
			ui.PrintLine(s, "%s less busy not shown (--all)", text.Count(left, "CPU"))
		}
	}
	if line := missingLine(r.Missing, s.Wide); line != "" {
		fmt.Fprintln(s.Out)
		ui.PrintLine(s, "%s", line)
	}
}

// LiveScreen renders a report in width columns and height lines.
func LiveScreen(r *Report, watched time.Duration, width, height int) string {
	render := func(print func(*ui.Screen)) []string {
		var b bytes.Buffer
		print(&ui.Screen{Out: &b, Format: ui.Table, Width: width})
		return slices.Collect(strings.Lines(b.String()))
	}
	above := render(func(s *ui.Screen) {
		ui.PrintLine(s, "watching for %s, every %s; stop with Ctrl-C", unit.FormatSeconds(watched.Round(time.Second).Seconds()), unit.FormatSeconds(r.Last().IntervalS))
		ui.PrintHeadline(s, &r.Headline)
		fmt.Fprintln(s.Out)
	})
	below := render(func(s *ui.Screen) {
		if line := missingLine(r.Missing, false); line != "" {
			ui.PrintLine(s, "%s", line)
		}
	})
	room := height - len(above) - len(below)
	cpus := len(r.Last().CPUs)
	if fit := room - 1 - len(rows(r.Last(), 0)); cpus > fit { // below the heads, the machine and its packages
		cpus = max(0, fit-1) // and the number of the others
	}
	table := render(func(s *ui.Screen) {
		g, left := grid(r, cpus)
		if g.Write(s); left > 0 {
			ui.PrintLine(s, "%s less busy not shown", text.Count(left, "CPU"))
		}
	})
	lines := slices.Concat(above, table[:max(0, min(room, len(table)))], below)
	return strings.Join(lines[:min(height, len(lines))], "")
}
