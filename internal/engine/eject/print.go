package eject

import (
	"fmt"
	"strings"

	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
)

// mostLines is the number of lines of files that fit on a screen next to the rest.
const mostLines = 24

// Summarize sets the headline. written is the directory with the files, or "".
func (r *Result) Summarize(written string) {
	h := &ui.Headline{}
	kept := h.Count("values_kept", len(r.Values), "")
	all := h.Count("values", len(r.Values)+len(r.Refused), "value")
	of := "in force"
	if !r.InForce {
		of = "of " + strings.Join(r.Profiles, " ")
	}
	as := h.Count("files", len(r.Files), "file")
	if n := len(r.Commands); n > 0 {
		as += " and " + h.Count("commands", n, "command")
	}
	where := "nothing was written"
	if written != "" {
		where = "written below " + written
	}
	mark := "✓"
	if len(r.Refused) > 0 {
		mark = "!"
	}
	h.Line("%s %s of %s %s as %s; %s", mark, kept, all, of, as, where)
	if n := len(r.Refused); n > 0 {
		verb := "are"
		if n == 1 {
			verb = "is"
		}
		h.Line("! %s %s not kept, for the reasons below", h.Count("refused", n, "value"), verb)
	}
	r.Headline = *h
}

// Print prints the headline, the files and what is not kept. Contents are printed if they fit on a
// screen, or with all.
func (r *Result) Print(s *ui.Screen, all bool) {
	ui.PrintHeadline(s, &r.Headline)
	lines := 0
	for _, f := range r.Files {
		lines += 2 + strings.Count(f.Content, "\n")
	}
	if all || lines <= mostLines || s.Width == 0 {
		for _, f := range r.Files {
			fmt.Fprintf(s.Out, "\n%s:\n", f.Path)
			for line := range strings.Lines(f.Content) {
				fmt.Fprintln(s.Out, "    "+ui.Printable(strings.TrimSuffix(line, "\n")))
			}
		}
	} else {
		g := ui.Grid{Columns: []ui.Column{{Head: "file"}, {Head: "values", Right: true}, {Head: "what", Below: true}}}
		for _, f := range r.Files {
			g.Rows = append(g.Rows, []string{f.Path, fmt.Sprint(f.Settings), f.What})
		}
		fmt.Fprintln(s.Out)
		g.Write(s)
	}
	r.printRefused(s, all)
	for _, n := range r.Notes {
		ui.PrintLine(s, "· %s", n)
	}
	if len(r.Commands) > 0 {
		fmt.Fprintln(s.Out, "\nafter the files are copied:")
		for _, c := range r.Commands {
			ui.PrintCommand(s, text.CommandLine(c.Argv))
		}
	}
}

// printRefused prints the values that are not kept, one row for each reason.
func (r *Result) printRefused(s *ui.Screen, all bool) {
	if len(r.Refused) == 0 {
		return
	}
	g := ui.Grid{Columns: []ui.Column{{Head: "not kept"}, {Head: "value"}, {Head: "why", Below: true}}}
	row := map[string]int{}
	more := map[int]int{}
	for _, v := range r.Refused {
		key := v.Setting.Kind + v.Why
		if i, ok := row[key]; ok && !all {
			more[i]++
			continue
		}
		row[key] = len(g.Rows)
		g.Rows = append(g.Rows, []string{tune.SettingWords(v.Setting), showValue(v.Want), v.Why})
	}
	for i, n := range more {
		g.Rows[i][0] += fmt.Sprintf(" and %d more", n)
	}
	fmt.Fprintln(s.Out)
	g.Write(s)
}
