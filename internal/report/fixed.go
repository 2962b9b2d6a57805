package report

import (
	"fmt"

	"fettle.dev/fettle/internal/rule"
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
		if b.Artefact != "" {
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
