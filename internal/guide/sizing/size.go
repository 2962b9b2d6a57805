package sizing

import (
	"fmt"
	"strings"

	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
)

// Show selects what Print prints of a result.
type Show struct {
	Details bool // all values, limits, budgets and notes, and how to check each step
	Sources bool // the sources of the values
}

const (
	mostLines  = 40 // of the default output
	leastRows  = 3  // of the values in it
	mostRows   = 12
	mostLimits = 3 // in it, unless more are exceeded
	narrow     = 80
)

// Print prints a result: the headline, the steps, the values, the limits and the files. A page
// of Markdown has the details.
func Print(s *ui.Screen, r *Result, show Show) {
	ui.PrintHeadline(s, &r.Headline)
	if s.Format == ui.Markdown {
		fmt.Fprintln(s.Out)
	}
	paragraph(s, title(r))
	if show.Details || s.Paged() {
		printDetails(s, r, show)
		return
	}
	printSteps(s, r)
	limits, values := r.bounds(), r.firstValues()
	rows, shown := fit(r, values, limits)
	if rows > 0 {
		fmt.Fprintln(s.Out)
		printValues(s, values[:rows], show)
	}
	if shown > 0 {
		fmt.Fprintln(s.Out)
		limitGrid(limits[:shown]).Write(s)
	}
	printFiles(s, r)
	printMore(s, more{len(r.Values) - rows, len(limits) - shown, len(r.Choices), len(r.Notes)}, show)
}

// fit returns how many values and limits fit into the default output. Steps are never omitted;
// exceeded limits are omitted last.
func fit(r *Result, values []*Value, limits []Limit) (rows, shown int) {
	over := 0
	for over < len(limits) && limits[over].Over {
		over++
	}
	over = min(over, 2*mostLimits)
	rows, shown = min(len(values), mostRows), min(len(limits), max(mostLimits, over))
	others := otherLines(r)
	for {
		n := others
		if rows > 0 {
			n += 1 + gridLines(valueGrid(values[:rows], false))
		}
		if shown > 0 {
			n += 1 + gridLines(limitGrid(limits[:shown]))
		}
		switch {
		case n <= mostLines:
			return rows, shown
		case rows > leastRows:
			rows--
		case shown > max(over, 1):
			shown--
		case rows > 0:
			rows--
		case shown > 0:
			shown--
		default:
			return 0, 0
		}
	}
}

// gridLines returns the number of lines of a table on a terminal of 80 columns.
func gridLines(g *ui.Grid) int {
	var b strings.Builder
	g.Write(&ui.Screen{Out: &b, Format: ui.Table, Width: narrow})
	return strings.Count(b.String(), "\n")
}

// otherLines returns the number of lines of the default output without values and limits, on a
// terminal of 80 columns.
func otherLines(r *Result) int {
	lines := func(text string) int { return 1 + strings.Count(ui.Wrap(text, narrow), "\n") }
	n := lines(title(r)) + 2 // printMore
	for _, l := range r.Headline.Lines {
		n += lines(l)
	}
	if len(r.Steps) > 0 {
		n += 2
	}
	for _, st := range r.Steps {
		n++
		if st.Command != "" {
			n++
		}
	}
	switch {
	case r.Written != nil:
		n += 2 + len(r.Written.Files)
	case len(r.Files) > 0:
		n += 1 + lines(fileWords(r))
	}
	return n
}

// printSteps prints the steps with their commands.
func printSteps(s *ui.Screen, r *Result) {
	if len(r.Steps) == 0 {
		return
	}
	ui.Heading(s, "steps")
	for i, st := range r.Steps {
		row := []string{fmt.Sprintf("%2d. %s", i+1, st.Do)}
		if st.Restarts != "" {
			brief, _, _ := strings.Cut(st.Restarts, ",")
			row = append(row, restartWords(brief))
		}
		g := ui.Grid{Columns: []ui.Column{{Cut: true}, {}}, Rows: [][]string{row}}
		g.Write(s)
		if st.Command != "" {
			ui.PrintCommand(s, ui.Printable(st.Command))
		}
	}
}

// restartWords returns the services that a step restarts, in parentheses.
func restartWords(what string) string {
	if what == "the machine" {
		return "(needs a reboot)"
	}
	return "(restarts " + what + ")"
}

// printValues prints values: as a table, or with explanations and sources in full.
func printValues(s *ui.Screen, values []*Value, show Show) {
	if explains(s, show) {
		explainValues(s, values, show)
		return
	}
	valueGrid(values, show.Sources).Write(s)
}

// valueGrid returns the table of values, each with the reason.
func valueGrid(values []*Value, sources bool) *ui.Grid {
	g := &ui.Grid{Columns: []ui.Column{{Head: "group", Once: true}, {Head: "name"}, {Head: "value"}, {Head: "source", Wide: !sources}, {Head: "why", Cut: true}}}
	for _, v := range values {
		g.Rows = append(g.Rows, []string{v.Group, v.Name, Amount(v.Value, v.Unit), rule.SourceWords(v.Sources), v.explanation()})
	}
	return g
}

// explanation returns the value's reason, and alternative figures.
func (v *Value) explanation() string {
	why := v.Why
	for _, also := range v.Also {
		if other := Amount(also.Value, also.Unit); other != Amount(v.Value, v.Unit) {
			why += "; " + other + ": " + also.What
		}
	}
	return why
}

// limitGrid returns the table of limits.
func limitGrid(limits []Limit) *ui.Grid {
	g := &ui.Grid{Columns: []ui.Column{{Head: "limits, tightest first"}, {Head: "needed", Right: true}, {Head: "limit", Right: true}, {Head: "used", Right: true}, {Head: "headroom", Right: true}}}
	for _, l := range limits {
		headroom := formatLimit(l.Maximum-l.Wanted, l.Unit)
		if l.Over {
			headroom = "exceeded"
		}
		g.Rows = append(g.Rows, []string{l.Name, formatLimit(l.Wanted, l.Unit), formatLimit(l.Maximum, l.Unit), percent(l), headroom})
	}
	g.Color = func(row, col int) string {
		if limits[row].Over && col >= 3 {
			return ui.Yellow
		}
		return ""
	}
	return g
}

// fileWords names the files in one line.
func fileWords(r *Result) string {
	names := make([]string, len(r.Files))
	for i, f := range r.Files {
		names[i] = f.Name
	}
	return "files (--write DIR writes them): " + strings.Join(names, ", ")
}

// printFiles prints the names of the files, or the written files with their states.
func printFiles(s *ui.Screen, r *Result) {
	if r.Written == nil {
		if len(r.Files) > 0 {
			fmt.Fprintln(s.Out)
			paragraph(s, fileWords(r))
		}
		return
	}
	if len(r.Written.Files) == 0 {
		return
	}
	ui.Heading(s, "files below "+ui.Printable(r.Written.Dir))
	g := ui.Grid{Columns: []ui.Column{{}, {Cut: true}, {}}}
	for _, f := range r.Written.Files {
		g.Rows = append(g.Rows, []string{f.Name, r.about(f), f.State})
	}
	g.Write(s)
}

// about returns the purpose of a written file.
func (r *Result) about(f WrittenFile) string {
	switch f.State {
	case "removed":
		return "from an earlier plan"
	case "kept":
		return "from an earlier plan, edited since; remove the file by hand"
	}
	if a := r.Artefact(f.Name); a != nil {
		return a.What
	}
	return ""
}

// more counts the rows that the default output omits.
type more struct{ values, limits, choices, notes int }

func printMore(s *ui.Screen, m more, show Show) {
	var parts []string
	for _, part := range []struct {
		n    int
		noun string
	}{{m.values, "more value"}, {m.limits, "limit"}, {m.choices, "storage choice"}, {m.notes, "note"}} {
		if part.n > 0 {
			parts = append(parts, text.Count(part.n, part.noun))
		}
	}
	words := "checks of the steps (--details)"
	if len(parts) > 0 {
		words = strings.Join(parts, ", ") + " (--details)"
	}
	if !show.Sources {
		words += "; --sources"
	}
	paragraph(s, words)
}

// paragraph prints text; on a terminal it is wrapped.
func paragraph(s *ui.Screen, text string) {
	ui.PrintHeadline(s, &ui.Headline{Lines: []string{ui.Line(text)}})
}
