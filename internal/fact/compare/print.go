package compare

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
)

// View selects what Print lists.
type View struct {
	All     bool // also the differences that are to be expected
	Details bool // every row, and every machine in it
}

const (
	maxLines    = 38 // of the default output, without the commands after it
	factsShown  = 5  // rows of facts kept if the output is too long
	namesShown  = 3  // machines named in a row
	valuesShown = 3  // values of a row without a majority
)

// Print prints a comparison. Without View.Details the output is at most 40 lines.
func Print(s *ui.Screen, r *Result, v View) {
	settings, facts := len(r.Settings), len(r.Facts)
	if !v.Details && !v.All && s.Page == nil && s.Format != ui.Markdown {
		for settings+facts > 0 {
			var out bytes.Buffer
			trial := *s
			trial.Out = &out
			r.print(&trial, v, settings, facts)
			over := bytes.Count(out.Bytes(), []byte("\n")) - maxLines
			if over <= 0 {
				break
			}
			// A row has at most a few lines: cut in proportion, then row by row.
			cut := max(over/4, 1)
			if facts > factsShown {
				facts = max(facts-cut, factsShown)
			} else if settings > 0 {
				settings = max(settings-cut, 0)
			} else {
				facts--
			}
		}
	}
	r.print(s, v, settings, facts)
}

func (r *Result) print(s *ui.Screen, v View, settings, facts int) {
	ui.PrintHeadline(s, &r.Headline)
	r.table(s, v, "setting", r.Settings, settings)
	r.table(s, v, "fact", r.Facts, facts)
	if v.All {
		r.table(s, v, "expected difference", r.Folded, len(r.Folded))
	} else if lines := r.foldCounts(); len(lines) > 0 {
		fmt.Fprintln(s.Out)
		ui.PrintLine(s, "not listed: %s", strings.Join(lines, ", "))
	}
}

// table prints the first rows of a list.
func (r *Result) table(s *ui.Screen, v View, head string, list []Difference, shown int) {
	if len(list) == 0 {
		return
	}
	fmt.Fprintln(s.Out)
	grid := r.many
	if len(r.Machines) == 2 {
		grid = r.two
	}
	g := grid(head, list[:shown], v)
	if shown > 0 {
		g.Write(s)
	}
	if left := len(list) - shown; left > 0 {
		ui.PrintLine(s, "%s more (--details)", text.Count(left, head))
	}
}

// two returns the differences of two machines side by side.
func (r *Result) two(head string, list []Difference, v View) ui.Grid {
	g := ui.Grid{Columns: []ui.Column{{Head: head}, {Head: r.Machines[0].Name, Cut: !v.Details}, {Head: r.Machines[1].Name, Cut: !v.Details}, {Head: "set by", Below: true}}}
	for _, d := range list {
		row := []string{d.Name, d.of(r.Machines[0].Name), d.of(r.Machines[1].Name), ""}
		by := d.setBy()
		if d.Folded != "" {
			by = append(by, d.Folded)
		}
		row[3] = strings.Join(by, "; ")
		g.Rows = append(g.Rows, row)
	}
	return g
}

// setBy says what sets the values of two machines.
func (d Difference) setBy() (by []string) {
	var all []Source
	for _, h := range d.Values {
		all = append(all, h.SetBy...)
	}
	if len(all) == 2 && all[0].Place() == all[1].Place() {
		s := all[0]
		if s.Value == nil {
			s.Value = all[1].Value
		}
		return []string{"both: " + s.what()}
	}
	for _, s := range all {
		by = append(by, s.Machine+": "+s.what())
	}
	return by
}

// of returns the value on a machine.
func (d Difference) of(machine string) string {
	for _, h := range d.Values {
		if slices.Contains(h.Machines, machine) {
			return h.text()
		}
	}
	return "?"
}

func (h Held) text() string {
	switch {
	case h.Value == nil:
		return "-"
	case *h.Value == "":
		return `""`
	}
	return *h.Value
}

// what describes a source.
func (s Source) what() string {
	line := s.Place()
	switch s.By {
	case "TuneD":
		line = "TuneD, " + line
	case "kernel command line":
		line = s.By
	}
	if s.Value != nil {
		line += " (sets " + *s.Value + ")"
	}
	return line
}

// many returns the majority of each setting, the other values, and where they are.
func (r *Result) many(head string, list []Difference, v View) ui.Grid {
	g := ui.Grid{Columns: []ui.Column{{Head: head}, {Head: "most have", Cut: !v.Details}, {Head: "others", Cut: !v.Details}, {Head: "where", Below: true}}}
	for _, d := range list {
		most, others := "no majority", d.Values
		if d.Values[0].Majority {
			most, others = counted(d.Values[0]), d.Values[1:]
		}
		for i, h := range others {
			if i == valuesShown && !v.Details && len(others) > valuesShown+1 {
				g.Rows = append(g.Rows, []string{"", "", text.Count(len(others)-i, "other value"), ""})
				break
			}
			row := []string{d.Name, most, counted(h), h.where(v)}
			if i > 0 {
				row[0], row[1] = "", ""
			}
			g.Rows = append(g.Rows, row)
		}
		if d.OtherValues > 0 {
			g.Rows = append(g.Rows, []string{"", "", text.Count(d.OtherValues, "other value"), ""})
		}
	}
	return g
}

func counted(h Held) string { return text.Sprintf("%s (%d)", h.text(), h.Count) }

// where names the machines with a value, and what sets it there.
func (h Held) where(v View) string {
	shown := len(h.Machines)
	if !v.Details && shown > namesShown+1 {
		shown = namesShown
	}
	var parts []string
	for _, name := range h.Machines[:shown] {
		for _, s := range h.SetBy {
			if s.Machine == name {
				name += ": " + s.what()
			}
		}
		parts = append(parts, name)
	}
	line := strings.Join(parts, ", ")
	if left := len(h.Machines) - shown; left > 0 {
		line += text.Sprintf(" and %d more", left)
	}
	return line
}
