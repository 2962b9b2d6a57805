package sizing

import (
	"cmp"
	"fmt"
	"strings"

	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/ui/page"
)

// printDetails prints all of a result after its headline.
func printDetails(s *ui.Screen, r *Result, show Show) {
	stepDetails(s, r)
	ui.Heading(s, "values")
	printValues(s, r.byGroup(), show)
	if limits := r.bounds(); len(limits) > 0 {
		fmt.Fprintln(s.Out)
		limitGrid(limits).Write(s)
	}
	for _, b := range r.Budgets {
		ui.Heading(s, b.Name)
		g := ui.Grid{Columns: []ui.Column{{Head: "part"}, {Head: budgetUnit(b.Unit), Right: true}}}
		for _, p := range b.Parts {
			g.Rows = append(g.Rows, []string{p.Name, formatLimit(p.Amount, b.Unit)})
		}
		g.Rows = append(g.Rows, []string{"left", formatLimit(b.Left, b.Unit)}, []string{"all", formatLimit(b.Total, b.Unit)})
		g.Write(s)
	}
	printChoices(s, r, show)
	fileDetails(s, r, show)
	if len(r.Notes) == 0 {
		return
	}
	ui.Heading(s, "notes")
	for _, n := range r.Notes {
		paragraph(s, "- "+n)
	}
}

// budgetUnit returns the heading of a budget's column. It is empty for sizes, which have their
// unit in each cell.
func budgetUnit(unit string) string {
	if _, size := bytesOf[unit]; size {
		return "size"
	}
	return unit
}

// byGroup returns all values, those of a group together.
func (r *Result) byGroup() []*Value {
	var groups []string
	of := map[string][]*Value{}
	for i := range r.Values {
		v := &r.Values[i]
		if of[v.Group] == nil {
			groups = append(groups, v.Group)
		}
		of[v.Group] = append(of[v.Group], v)
	}
	var out []*Value
	for _, g := range groups {
		out = append(out, of[g]...)
	}
	return out
}

// stepDetails prints the steps, with what they restart and how to check them.
func stepDetails(s *ui.Screen, r *Result) {
	if len(r.Steps) == 0 {
		return
	}
	ui.Heading(s, "steps")
	if s.Page != nil {
		s.Page.Steps(checklist(r.Steps))
		return
	}
	for i, st := range r.Steps {
		paragraph(s, fmt.Sprintf("%2d. %s", i+1, st.Do))
		if st.Command != "" {
			ui.PrintCommand(s, ui.Printable(st.Command))
		}
		for _, l := range []struct{ label, text string }{{"restarts ", st.Restarts}, {"then ", st.Check}} {
			if l.text != "" {
				indented(s, l.label+l.text)
			}
		}
	}
}

// checklist returns the steps as items to tick off.
func checklist(steps []Step) (out []page.Step) {
	for _, st := range steps {
		item := page.Step{Do: st.Do, Command: st.Command}
		for _, l := range []struct{ label, text string }{{"restarts ", st.Restarts}, {"then ", st.Check}} {
			if l.text != "" {
				item.Notes = append(item.Notes, l.label+l.text)
			}
		}
		out = append(out, item)
	}
	return out
}

// explains reports whether explanations are printed in full below their values. That is so on a
// terminal, whose width would cut them.
func explains(s *ui.Screen, show Show) bool {
	return s.Width > 0 && !s.Wide && s.Format != ui.Markdown && (show.Details || show.Sources)
}

// explainValues prints each value with the reason below it.
func explainValues(s *ui.Screen, values []*Value, show Show) {
	group := ""
	for _, v := range values {
		if v.Group != group {
			paragraph(s, v.Group)
		}
		group = v.Group
		paragraph(s, "  "+v.Name+"  "+Amount(v.Value, v.Unit))
		indented(s, v.explanation())
		if show.Sources && len(v.Sources) > 0 {
			indented(s, "source: "+rule.SourceWords(v.Sources))
		}
	}
}

// indented prints text below a line; on a terminal it is wrapped.
func indented(s *ui.Screen, text string) {
	const margin = "    "
	text = ui.Line(text)
	if s.Width > 0 && !s.Wide {
		text = strings.ReplaceAll(ui.Wrap(text, max(s.Width-len(margin), 1)), "\n", "\n"+margin)
	}
	fmt.Fprintln(s.Out, margin+text)
}

func printChoices(s *ui.Screen, r *Result, show Show) {
	if len(r.Choices) == 0 {
		return
	}
	ui.Heading(s, "storage")
	g := ui.Grid{Columns: []ui.Column{{Head: "for"}, {Head: "take"}, {Head: "why", Cut: true}, {Head: "not", Cut: true}}}
	for _, c := range r.Choices {
		var not []string
		for _, o := range c.Options {
			if o.Name == c.Take {
				continue
			}
			words := o.Name + " (" + o.Verdict + ")"
			if o.Why != "" {
				words += ": " + o.Why
			}
			not = append(not, words)
		}
		g.Rows = append(g.Rows, []string{c.For, c.Take, c.Why, strings.Join(not, ". ")})
	}
	if !explains(s, show) {
		g.Write(s)
		return
	}
	for _, row := range g.Rows {
		paragraph(s, "  "+row[0]+"  "+cmp.Or(row[1], "none"))
		indented(s, row[2])
		indented(s, "not "+row[3])
	}
}

// fileDetails prints the files, and against what their format was checked. A page of Markdown also
// has their contents.
func fileDetails(s *ui.Screen, r *Result, show Show) {
	if r.Written != nil || len(r.Files) == 0 {
		printFiles(s, r)
	}
	if len(r.Files) == 0 {
		return
	}
	if r.Written == nil {
		ui.Heading(s, "files (--write DIR writes them, --output json prints them)")
	} else {
		fmt.Fprintln(s.Out)
	}
	g := ui.Grid{Columns: []ui.Column{{Head: "file"}, {Head: "what", Cut: true}, {Head: "checked against", Cut: true}}}
	for _, f := range r.Files {
		g.Rows = append(g.Rows, []string{f.Name, f.What, f.Checked})
	}
	if explains(s, show) {
		for _, row := range g.Rows {
			paragraph(s, row[0])
			indented(s, row[1]+"; checked against "+row[2])
		}
		return
	}
	g.Write(s)
	if s.Page != nil {
		for _, f := range r.Files {
			s.Page.File(f.Name, f.Content)
		}
	}
	if s.Format == ui.Markdown {
		for _, f := range r.Files {
			fmt.Fprintf(s.Out, "\n`%s`\n\n```\n%s```\n", f.Name, f.Content)
		}
	}
}
