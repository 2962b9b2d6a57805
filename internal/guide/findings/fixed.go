package findings

import (
	"fmt"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/guide/sizing"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
)

// ByHand is a fix that fettle does not make itself: entries for another program's file with the
// command that applies them, or words.
type ByHand struct {
	ID       string       `json:"id"`
	Instance string       `json:"instance,omitempty"`
	Title    string       `json:"title,omitempty"` // of the finding
	Artefact string       `json:"artefact,omitempty"`
	Entries  []rule.Entry `json:"entries,omitempty"`
	Command  string       `json:"command,omitempty"`
	Text     string       `json:"text,omitempty"`
	// After marks a command that activates files written by fettle.
	After bool `json:"after,omitempty"`
}

// manualStep is a step to do by hand, once for all rules that need it.
type manualStep struct {
	ByHand
	ids       []string
	instances []string
}

// ManualSteps returns the number of steps that PrintFixed prints.
func ManualSteps(all []ByHand) int { return len(manualSteps(all)) }

// manualSteps merges equal steps, and merges all options of the installer into one call.
func manualSteps(all []ByHand) []*manualStep {
	var out []*manualStep
	find := func(same func(*manualStep) bool) *manualStep {
		if i := slices.IndexFunc(out, same); i >= 0 {
			return out[i]
		}
		return nil
	}
	for _, b := range all {
		e := find(func(e *manualStep) bool {
			switch {
			case b.After:
				return e.After && e.Command == b.Command
			case b.Artefact == rule.Installer:
				return e.Artefact == rule.Installer
			}
			return e.ID == b.ID && e.Artefact == b.Artefact && slices.Equal(e.Entries, b.Entries) && e.Command == b.Command && e.Text == b.Text
		})
		if e == nil {
			e = &manualStep{ByHand: b}
			out = append(out, e)
		} else if b.Artefact == rule.Installer {
			for _, o := range b.Entries { // the later value wins, as in the file
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

// after returns the part of a command from its first "&&" on.
func after(command string) string {
	if _, then, ok := strings.Cut(command, " && "); ok {
		return " && " + then
	}
	return ""
}

// head returns the heading of a step.
func (e *manualStep) head() string {
	head := strings.Join(e.ids, ", ")
	if n := len(e.instances); n > 0 && len(e.ids) == 1 {
		more := ""
		if n > shown {
			more = text.Sprintf(" and %d more", n-shown)
		}
		head += " (" + strings.Join(e.instances[:min(shown, n)], ", ") + more + ")"
	}
	if e.After {
		return head + ": to activate these changes:"
	}
	head += " by hand:"
	if e.Title != "" && len(e.ids) == 1 {
		head += " " + e.Title
	}
	return head
}

// PrintFixed prints the remaining manual steps, and the findings after the fix.
func PrintFixed(s *ui.Screen, byHand []ByHand, findings []rule.Finding) {
	w := &writer{s, width(s), &Audit{}}
	for _, e := range manualSteps(byHand) {
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
		if e.Command != "" {
			ui.PrintCommand(s, ui.Printable(e.Command))
		}
	}
	for _, f := range findings {
		sign, color := findingSign(f.State)
		fmt.Fprintf(s.Out, "%s %s %s\n", s.Paint(color, sign+" "+string(f.State)), ui.Printable(f.ID), ui.Printable(f.Heading()))
	}
}

// Health is the result of a platform's own check after a change.
type Health struct {
	Platform string `json:"platform"`
	Command  string `json:"command"`
	Passed   bool   `json:"passed"`
	Output   string `json:"output"`
}

// PrintHealth prints the results of the platforms' checks, with the output of failed ones.
func PrintHealth(s *ui.Screen, all []Health) {
	for _, h := range all {
		if h.Passed {
			fmt.Fprintf(s.Out, "%s %s\n", s.Paint(ui.Green, "✓ passed"), ui.Printable(h.Command))
			continue
		}
		fmt.Fprintf(s.Out, "%s %s\n", s.Paint(ui.Red, "✗ failed"), ui.Printable(h.Command))
		for line := range strings.Lines(h.Output) {
			fmt.Fprintf(s.Out, "    %s\n", ui.Printable(strings.TrimRight(line, "\n")))
		}
	}
}

// PrintWritten lists the files written below a directory; w is nil if none were requested.
func PrintWritten(s *ui.Screen, w *sizing.Written) {
	if w == nil {
		return
	}
	ui.Heading(s, "files below "+w.Dir)
	if len(w.Files) == 0 {
		fmt.Fprintln(s.Out, "no files: none of the findings can be fixed by a file")
	}
	for _, f := range w.Files {
		fmt.Fprintf(s.Out, "%-11s %s\n", f.State, ui.Printable(f.Name))
	}
}
