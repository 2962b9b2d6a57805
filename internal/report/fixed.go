package report

import (
	"fmt"
	"strings"

	"fettle.dev/fettle/internal/rule"
	"fettle.dev/fettle/internal/sizing"
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
}

// Fixed prints what is left to do by hand, and what the rules say now.
func Fixed(s *ui.Screen, byHand []ByHand, findings []rule.Finding) {
	for _, b := range byHand {
		head := b.ID
		if b.Instance != "" {
			head += " (" + b.Instance + ")"
		}
		fmt.Fprintf(s.Out, "\n%s by hand:\n", ui.Printable(head))
		if b.Text != "" {
			fmt.Fprintf(s.Out, "  %s\n", ui.Printable(b.Text))
		}
		if b.Artefact != "" && len(b.Entries) > 0 {
			fmt.Fprintf(s.Out, "  %s:\n", ui.Printable(b.Artefact))
		}
		for _, e := range b.Entries {
			fmt.Fprintf(s.Out, "    %s: %s\n", ui.Printable(e.Name), ui.Printable(e.Value))
		}
		if b.Command != "" {
			fmt.Fprintf(s.Out, "  then: %s\n", ui.Printable(b.Command))
		}
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

// Healthy prints what the checks of platforms said: of one that has found
// something, its own words.
func Healthy(s *ui.Screen, all []Health) {
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

// Written lists the files that were written below a directory, and what became of
// each; nothing where none was asked for.
func Written(s *ui.Screen, w *sizing.Written) {
	if w == nil {
		return
	}
	heading(s, "files below "+w.Dir)
	if len(w.Files) == 0 {
		fmt.Fprintln(s.Out, "none: nothing of what was found is mended by a file")
	}
	for _, f := range w.Files {
		fmt.Fprintf(s.Out, "%-11s %s\n", f.State, ui.Printable(f.Name))
	}
}
