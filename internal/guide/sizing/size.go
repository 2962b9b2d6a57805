package sizing

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

// Print prints a result.
func Print(s *ui.Screen, r *Result) {
	title := r.Platform
	switch {
	case r.NewerVersion != "":
		title += fmt.Sprintf(" %s (newer than all known versions: figures of %s)", ui.Printable(r.NewerVersion), r.Version)
	case r.Version != "":
		title += " " + r.Version
	}
	asked, assumed := []string{}, []string{}
	for _, in := range r.Inputs {
		of := &asked
		if in.From == "default" {
			of = &assumed
		}
		switch in.Value { // in the form of the command line
		case "true":
			*of = append(*of, "--"+in.Name)
		case "false":
			*of = append(*of, "--"+in.Name+"=false")
		default:
			*of = append(*of, strings.TrimSpace("--"+in.Name+" "+in.Value))
		}
	}
	words := strings.Join(asked, " ")
	if len(asked) == 0 {
		words = strings.Join(assumed, " ") + ", all by default"
	}
	fmt.Fprintf(s.Out, "%s for %s\n", title, ui.Printable(words))
	ui.Heading(s, "values")
	g := ui.Grid{Columns: ui.Columns("of", "what", "value", "why", "source")}
	group := ""
	for _, v := range r.Values {
		of := v.Group
		if of == group {
			of = ""
		}
		group = v.Group
		why := v.Why
		for _, also := range v.Also {
			why += "; " + amount(also.Value, also.Unit) + ": " + also.What
		}
		g.Rows = append(g.Rows, []string{of, v.Name, amount(v.Value, v.Unit), why, rule.SourceWords(v.Sources)})
	}
	g.Write(s)
	if len(r.Limits) > 0 {
		ui.Heading(s, "limits, tightest first")
		g := ui.Grid{Columns: ui.Columns("limit", "needed", "of", "used", "fits")}
		for _, l := range r.Limits {
			used, fits := fmt.Sprintf("%.1f %%", l.UsedPercent), l.Fits
			if l.Over { // just over is not 100.0 % and 1.0 times
				used = fmt.Sprintf("%.1f %% over", math.Ceil(10*l.UsedPercent-1e-9)/10)
				fits = math.Floor(10*min(l.Fits, 0.99)+1e-9) / 10
			}
			g.Rows = append(g.Rows, []string{l.Name, number(l.Wanted), number(l.Maximum), used, fmt.Sprintf("%.1f times", fits)})
		}
		g.Color = func(row, col int) string {
			if r.Limits[row].Over && col == 3 {
				return ui.Yellow
			}
			return ""
		}
		g.Write(s)
	}
	for _, b := range r.Budgets {
		ui.Heading(s, b.Name)
		g := ui.Grid{Columns: ui.Columns("part", b.Unit)}
		for _, p := range b.Parts {
			g.Rows = append(g.Rows, []string{p.Name, number(p.Amount)})
		}
		g.Rows = append(g.Rows, []string{"left", number(b.Left)}, []string{"all", number(b.Total)})
		g.Write(s)
	}
	if len(r.Choices) > 0 {
		ui.Heading(s, "storage")
		g := ui.Grid{Columns: ui.Columns("for", "take", "why", "not")}
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
		g.Write(s)
	}
	steps(s, r)
	reportArtefacts(s, r)
	if len(r.Notes) > 0 {
		ui.Heading(s, "notes")
		for _, n := range r.Notes {
			fmt.Fprintf(s.Out, "- %s\n", ui.Printable(n))
		}
	}
}

func steps(s *ui.Screen, r *Result) {
	if len(r.Steps) == 0 {
		return
	}
	ui.Heading(s, "steps")
	for i, st := range r.Steps {
		fmt.Fprintf(s.Out, "%2d. %s\n", i+1, ui.Printable(st.Do))
		for _, l := range []struct{ label, text string }{{"$", st.Command}, {"restarts", st.Restarts}, {"then", st.Check}} {
			if l.text != "" {
				fmt.Fprintf(s.Out, "    %s %s\n", l.label, ui.Printable(l.text))
			}
		}
	}
}

func reportArtefacts(s *ui.Screen, r *Result) {
	if len(r.Files) == 0 && (r.Written == nil || len(r.Written.Files) == 0) {
		return
	}
	state := map[string]string{}
	if r.Written != nil {
		ui.Heading(s, "files below "+r.Written.Dir)
		for _, f := range r.Written.Files {
			state[f.Name] = f.State
		}
	} else {
		ui.Heading(s, "files (--write DIR writes them, --output json prints them)")
	}
	g := ui.Grid{Columns: ui.Columns("file", "what", "checked against")}
	if r.Written != nil {
		g.Columns = append(g.Columns, ui.Columns("")...)
	}
	for _, f := range r.Files {
		row := []string{f.Name, f.What, f.Checked}
		if r.Written != nil {
			row = append(row, state[f.Name])
		}
		g.Rows = append(g.Rows, row)
	}
	if r.Written != nil {
		g.Rows = append(g.Rows, leftOver(r.Written)...)
	}
	g.Write(s)
	if s.Format == ui.Markdown {
		for _, f := range r.Files {
			fmt.Fprintf(s.Out, "\n`%s`\n\n```\n%s```\n", f.Name, f.Content)
		}
	}
}

// leftOver returns the files of an earlier plan that this one does not have.
func leftOver(w *Written) (rows [][]string) {
	for _, f := range w.Files {
		switch f.State {
		case "removed":
			rows = append(rows, []string{f.Name, "of an earlier plan", "", f.State})
		case "kept":
			rows = append(rows, []string{f.Name, "of an earlier plan, and changed since: check it, and remove it by hand", "", f.State})
		}
	}
	return rows
}

// amount prints a value with its unit.
func amount(v any, of string) string {
	text := fmt.Sprint(v)
	switch n := v.(type) {
	case float64:
		text = number(n)
	case bool:
		text = map[bool]string{true: "yes", false: "no"}[n]
	case uint64:
		if of == "bytes" {
			return unit.Size(n).String()
		}
	}
	return strings.TrimSpace(text + " " + of)
}

func number(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
