package findings

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/ui"
)

// PrintRules prints a catalog: one line per rule, table and measurement.
func PrintRules(s *ui.Screen, rules []*rule.Rule, tables []*rule.Table, evidence []*rule.Evidence) {
	g := ui.Grid{Columns: []ui.Column{{Head: "id"}, {Head: "if not met"}, {Head: "platforms", Optional: true}, {Head: "what"}, {Head: "source", Wide: true}}}
	for _, r := range rules {
		kind := string(r.Severity)
		if r.Reminder {
			kind = "reminder"
		}
		g.Rows = append(g.Rows, []string{r.ID, kind, strings.Join(r.Platforms, " "), r.Title, rule.SourceWords(r.Sources)})
	}
	for _, t := range tables {
		g.Rows = append(g.Rows, []string{strings.Join(t.IDs, " "), "table", "", t.Name + ": " + t.Title, rule.SourceWords(t.Editions[0].Sources)})
	}
	for _, e := range evidence {
		g.Rows = append(g.Rows, []string{e.ID, "evidence", "", e.Title, rule.SourceWords(e.Sources)})
	}
	g.Write(s)
}

// PrintRule prints one rule.
func PrintRule(s *ui.Screen, r *rule.Rule) {
	fmt.Fprintf(s.Out, "%s  %s\n", ui.Printable(r.ID), ui.Printable(r.Title))
	w := &writer{s, width(s), &Audit{}}
	line := func(label, text string) { w.labeled(13, label, text) }
	line("if not", r.Failed)
	kind := string(r.Severity)
	if r.Reminder {
		kind = "reminder: no program can check it"
	}
	line("severity", kind)
	line("platforms", strings.Join(r.Platforms, ", "))
	for _, v := range r.Versions {
		line("versions", v.Product+" "+v.Words())
	}
	line("each", r.Each)
	for _, b := range r.Inputs {
		line("input", b.Name+" = "+b.Input)
	}
	for _, e := range []struct {
		label string
		expr  *rule.Expr
	}{{"applies", r.Applies}, {"measured", r.Measured}, {"want", r.Want}, {"pass", r.Pass}, {"nearly", r.Nearly}} {
		if e.expr != nil {
			line(e.label, e.expr.Text)
		}
	}
	line("for", r.For)
	for _, v := range r.Variants {
		text := "when " + v.When.Text
		if v.Want != nil {
			text += ": want " + v.Want.Text
		}
		if v.Pass != nil {
			text += ": pass " + v.Pass.Text
		}
		line("variant", text)
		line("", v.Why)
		line("", rule.SourceWords(v.Sources))
	}
	line("missing", r.Missing)
	line("why", r.Why)
	line("source", rule.SourceWords(r.Sources))
	if r.Fix != nil {
		from := ""
		if r.Copied {
			line("fix", "from a rule in the copy ("+r.At.String()+"), for the copied machine; fettle never runs fixes from a copy")
			from = "according to the copy: "
		}
		fix := func(text string) {
			if text != "" {
				line("fix", from+text)
			}
		}
		for _, w := range r.Fix.Changes {
			fix(w.Name)
		}
		for _, w := range r.Fix.Entries {
			fix(r.Fix.Artefact + ": " + w.Name)
		}
		fix(r.Fix.Command)
		fix(r.Fix.Text)
	}
	line("depends on", strings.Join(r.DependsOn, ", "))
	line("at", r.At.String())
}

// PrintTable prints a table of the catalog, newest edition first.
func PrintTable(s *ui.Screen, t *rule.Table) {
	ui.PrintLine(s, "%s  %s", strings.Join(t.IDs, " "), t.Title)
	for _, e := range t.Editions {
		fmt.Fprintln(s.Out)
		ui.PrintLine(s, "%s %s (%s)", t.Name, e.Words(), rule.SourceWords(e.Sources))
		if e.Why != "" {
			ui.PrintLine(s, "%s", e.Why)
		}
		g := ui.Grid{Columns: ui.Columns("")}
		for _, c := range t.Columns {
			g.Columns = append(g.Columns, ui.Columns(c.Name)...)
		}
		for _, r := range e.Rows {
			row := []string{r.Key}
			for _, c := range t.Columns {
				row = append(row, printed(r.Cells[c.Name], c.Unit))
			}
			g.Rows = append(g.Rows, row)
		}
		if s.Page == nil && !s.Wide && s.Width > 0 && tableWidth(&g) > s.Width {
			printRecords(s, &g)
			continue
		}
		g.Write(s)
	}
}

// tableWidth returns the width of a table that is printed uncut, in columns of the terminal.
func tableWidth(g *ui.Grid) (all int) {
	for i, c := range g.Columns {
		widest := utf8.RuneCountInString(c.Head)
		for _, row := range g.Rows {
			widest = max(widest, utf8.RuneCountInString(row[i]))
		}
		all += widest + 2
	}
	return all - 2
}

// printRecords prints each row below its first cell, one line a column. Empty cells are omitted.
func printRecords(s *ui.Screen, g *ui.Grid) {
	for _, row := range g.Rows {
		ui.PrintLine(s, "%s", row[0])
		record := ui.Grid{Columns: ui.Columns("", "")}
		for i, cell := range row {
			if i > 0 && cell != "" {
				record.Rows = append(record.Rows, []string{"  " + g.Columns[i].Head, cell})
			}
		}
		record.Write(s)
	}
}

// PrintEvidence prints a measurement of a source.
func PrintEvidence(s *ui.Screen, e *rule.Evidence) {
	for _, line := range []string{e.ID + "  " + e.Title, "  " + e.Says, "  explains " + strings.Join(e.Explains, ", "), "  source " + rule.SourceWords(e.Sources)} {
		ui.PrintLine(s, "%s", line)
	}
}
