package findings

import (
	"fmt"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/guide/sizing"
	"fettle.dev/fettle/internal/ui"
)

// ByHand is a fix that is not fettle's to make: entries of a file that another
// tool owns, with the command that applies it, or words.
type ByHand struct {
	ID       string       `json:"id"`
	Instance string       `json:"instance,omitempty"`
	Artefact string       `json:"artefact,omitempty"`
	Entries  []rule.Entry `json:"entries,omitempty"`
	Command  string       `json:"command,omitempty"`
	Text     string       `json:"text,omitempty"`
	// After is true of a command that puts in force what fettle has written.
	After bool `json:"after,omitempty"`
}

// errand is what is to be done by hand once, for the rules that want it.
type errand struct {
	ByHand
	ids       []string
	instances []string
}

// errands puts what is the same together, and all options of the installer into one
// call of it.
func errands(all []ByHand) []*errand {
	var out []*errand
	find := func(same func(*errand) bool) *errand {
		if i := slices.IndexFunc(out, same); i >= 0 {
			return out[i]
		}
		return nil
	}
	for _, b := range all {
		e := find(func(e *errand) bool {
			switch {
			case b.After:
				return e.After && e.Command == b.Command
			case b.Artefact == rule.Installer:
				return e.Artefact == rule.Installer
			}
			return e.ID == b.ID && e.Artefact == b.Artefact && slices.Equal(e.Entries, b.Entries) && e.Command == b.Command && e.Text == b.Text
		})
		if e == nil {
			e = &errand{ByHand: b}
			out = append(out, e)
		} else if b.Artefact == rule.Installer {
			for _, o := range b.Entries { // of two wishes the later one, as in the file
				e.Entries = append(slices.DeleteFunc(slices.Clone(e.Entries), func(x rule.Entry) bool { return x.Name == o.Name }), o)
			}
			_, then, more := strings.Cut(b.Command, " && ")
			if e.Command = rule.InstallerCall(e.Entries) + after(e.Command); more && after(e.Command) == "" {
				e.Command += " && " + then
			}
		}
		if !slices.Contains(e.ids, b.ID) {
			e.ids = append(e.ids, b.ID)
		}
		if b.Instance != "" {
			e.instances = append(e.instances, b.Instance)
		}
	}
	return out
}

// after is what follows the first of a command's parts.
func after(command string) string {
	if _, then, ok := strings.Cut(command, " && "); ok {
		return " && " + then
	}
	return ""
}

// head says what it is about.
func (e *errand) head() string {
	head := strings.Join(e.ids, ", ")
	if n := len(e.instances); n > 0 && len(e.ids) == 1 {
		more := ""
		if n > shown {
			more = fmt.Sprintf(" and %d more", n-shown)
		}
		head += " (" + strings.Join(e.instances[:min(shown, n)], ", ") + more + ")"
	}
	if e.After {
		return head + ": to put these changes in force:"
	}
	return head + " by hand:"
}

// PrintFixed prints what is left to do by hand, and what the rules say now.
func PrintFixed(s *ui.Screen, byHand []ByHand, findings []rule.Finding) {
	w := &writer{s, width(s), &Audit{}}
	for _, e := range errands(byHand) {
		fmt.Fprintln(s.Out)
		w.lines("", e.head())
		if e.Text != "" {
			w.lines("  ", e.Text)
		}
		if e.Artefact != "" && e.Artefact != rule.Installer && len(e.Entries) > 0 {
			fmt.Fprintf(s.Out, "  %s:\n", ui.Printable(e.Artefact))
			for _, x := range e.Entries {
				fmt.Fprintf(s.Out, "    %s: %s\n", ui.Printable(x.Name), ui.Printable(x.Value))
			}
		}
		if e.Command == "" {
			continue
		}
		then := ""
		if e.Text != "" || e.Artefact != "" && e.Artefact != rule.Installer {
			then = "then: "
		}
		fmt.Fprintf(s.Out, "  %s%s\n", then, ui.Printable(e.Command)) // in one line, to be copied
	}
	for _, f := range findings {
		sign, color := findingSign(f.State)
		fmt.Fprintf(s.Out, "%s %s %s\n", s.Paint(color, sign+" "+string(f.State)), ui.Printable(f.ID), ui.Printable(f.Title))
	}
}

// Health is what a platform's own check said after a change.
type Health struct {
	Platform string `json:"platform"`
	Command  string `json:"command"`
	Passed   bool   `json:"passed"`
	Output   string `json:"output"`
}

// PrintHealth prints what the checks of platforms said: of one that has found
// something, its own words.
func PrintHealth(s *ui.Screen, all []Health) {
	for _, h := range all {
		if h.Passed {
			fmt.Fprintf(s.Out, "%s %s\n", s.Paint(ui.Green, "✓ well"), ui.Printable(h.Command))
			continue
		}
		fmt.Fprintf(s.Out, "%s %s\n", s.Paint(ui.Red, "✗ not well"), ui.Printable(h.Command))
		for line := range strings.Lines(h.Output) {
			fmt.Fprintf(s.Out, "    %s\n", ui.Printable(strings.TrimRight(line, "\n")))
		}
	}
}

// PrintWritten lists the files that were written below a directory, and what became of
// each; nothing where none was asked for.
func PrintWritten(s *ui.Screen, w *sizing.Written) {
	if w == nil {
		return
	}
	ui.Heading(s, "files below "+w.Dir)
	if len(w.Files) == 0 {
		fmt.Fprintln(s.Out, "none: nothing of what was found is mended by a file")
	}
	for _, f := range w.Files {
		fmt.Fprintf(s.Out, "%-11s %s\n", f.State, ui.Printable(f.Name))
	}
}
