package findings

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/ui"
)

// PrintExplained prints a rule's findings on a machine: measured and wanted values, reason, fix
// and sources. With more it also prints the call that prints the rule itself.
func PrintExplained(s *ui.Screen, a *Audit, more bool) {
	w := &writer{s, width(s), a}
	all := a.groups()
	for i, g := range all {
		if i > 0 {
			fmt.Fprintln(s.Out)
		}
		for _, line := range w.finding(group{Finding: g.Finding}) {
			fmt.Fprintln(s.Out, line)
		}
		bad := g.State == rule.Warned || g.State == rule.Failed
		several := bad && slices.ContainsFunc(g.Items, func(i item) bool { return i.bound() != g.Items[0].bound() })
		w.here(g, several)
		if bad && !several {
			w.part("wanted", g.Items[0].bound())
		}
		if i+1 < len(all) && all[i+1].Why == g.Why && slices.Equal(all[i+1].Sources, g.Sources) {
			if len(all[i+1].fixLines()) == 0 {
				w.remedies(g) // the next one has passed
			}
			continue // the next finding has the same reason
		}
		w.part("why", g.Why)
		w.remedies(g)
		for _, src := range g.Sources {
			w.part("source", src.String())
			if src.URL != "" {
				fmt.Fprintln(s.Out, strings.Repeat(" ", labeled)+ui.Printable(src.URL))
			}
		}
	}
	if len(all) > 0 && a.Program == "" && more { // only fettle has --rule
		fmt.Fprintln(s.Out, "\nfor the rule, its evidence and tables:")
		ui.PrintCommand(s, a.explained(all[0].ID)+" --rule")
	}
}

// here writes the measured values and their sources; with bounds, also the wanted values.
func (w *writer) here(g group, bounds bool) {
	var at []string // printed sources
	for _, i := range g.Items {
		says := i.Measured
		switch {
		case g.Reason != "":
			says = g.Reason
		case g.State == rule.Reminded:
			says = "no program can check this"
		case says == "":
			says = "none"
		}
		if i.Instance != "" {
			says = i.Instance + ": " + says
		}
		if bounds {
			says += ", wanted " + i.bound()
		}
		if places := i.places(); len(places) > 0 && g.Reason == "" {
			says += " (" + places[0] + ")"
			at = append(at, places[0])
		}
		w.part("here", says)
	}
	for _, in := range g.Inputs {
		where := in.Name + ": " + in.From
		if in.At != "" && !slices.Contains(at, in.At) {
			where += ", " + in.At
		}
		w.part("", where)
	}
}

// remedies writes the fixes of a group: words, and each command unbroken on its own line.
func (w *writer) remedies(g group) {
	label := "fix"
	for _, l := range g.fixLines() {
		words := strings.TrimSpace(l.before + l.after)
		if l.command != "" {
			words = strings.TrimSuffix(strings.TrimPrefix(words, "("), ")") // the values to write
		}
		before, id, fixes := strings.Cut(words, ": fettle fix ") // the fix of another rule
		if fixes {
			words, l.command = before+":", "fettle fix "+id
		}
		if words != "" && words != "then" {
			w.part(label, words)
			label = ""
		}
		if l.command != "" {
			if (label != "" || l.where != "") && !fixes {
				w.part(label, cmp.Or(strings.TrimSpace(l.where), "run:"))
				label = ""
			}
			fmt.Fprintln(w.Out, strings.Repeat(" ", labeled)+ui.Printable(l.command))
		}
	}
}

// labeled is the column at which text after a label begins.
const labeled = 10

// part writes text after a label.
func (w *writer) part(label, text string) { w.labeled(labeled, label, text) }

// labeled writes text after a label, starting at a column. A word that does not fit there, such as
// a path, gets a line of its own.
func (w *writer) labeled(column int, label, text string) {
	if text == "" {
		return
	}
	text = w.wrapped(text, w.width-column)
	indent := "\n" + strings.Repeat(" ", column)
	if first, _, _ := strings.Cut(text, "\n"); label != "" && w.Width > 0 && !w.Wide && column+utf8.RuneCountInString(first) > w.width {
		label += indent
	}
	fmt.Fprintf(w.Out, "  %-*s%s\n", column-2, label, strings.ReplaceAll(text, "\n", indent))
}

// wrapped returns printable text; on a terminal its lines are at most width wide.
func (w *writer) wrapped(text string, width int) string {
	if w.Width == 0 || w.Wide {
		return ui.Printable(text)
	}
	return ui.Wrap(ui.Printable(text), width)
}
