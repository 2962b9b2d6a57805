package slow

import (
	"fmt"
	"strings"

	"fettle.dev/fettle/internal/ui"
)

// maxAlso is the maximum number of other causes that get a line each.
const maxAlso = 3

// Lines returns the lines below the headline, at most nine: who used and waited the most, three
// other causes, the names of the rest, and the next command. It is empty without causes.
func (d *Diagnosis) Lines() []string {
	if len(d.Causes) == 0 {
		return nil
	}
	var out []string
	for _, r := range d.Who {
		out = append(out, r.Text)
	}
	for _, c := range d.Causes[1:min(1+maxAlso, len(d.Causes))] {
		label := "also: "
		switch {
		case c.Because != "":
			label = "as a consequence: "
		case !c.Reason && d.Reason != "":
			label = "also above a limit, without measured waiting: "
		}
		out = append(out, label+c.evidence("", &ui.Headline{}))
	}
	var rest []string
	for _, c := range d.Causes[min(1+maxAlso, len(d.Causes)):] {
		rest = append(rest, c.Text)
	}
	if len(rest) > 0 {
		out = append(out, "above their limits too: "+strings.Join(rest, "; "))
	}
	if d.Sample.DurationS == 0 {
		return out // the command would examine this machine
	}
	return append(out, "next: "+d.Causes[0].Next)
}

// Valid reports whether a diagnosis that was read can be printed.
func (d *Diagnosis) Valid() bool {
	return d.Sample != nil && (d.Reason == "" || len(d.Causes) > 0 && d.Causes[0].ID == d.Reason)
}

// Answers reports whether there is a result to print: a sample was taken, or an average since boot
// is above a limit. It returns false for nil.
func (d *Diagnosis) Answers() bool {
	return d != nil && (d.Sample.DurationS > 0 || len(d.Causes) > 0)
}

// PrintBelow prints the lines below the headline, and returns their number.
func (d *Diagnosis) PrintBelow(s *ui.Screen) (n int) {
	if !d.Answers() {
		return 0
	}
	for _, line := range d.Lines() {
		text := ui.Printable(line)
		if s.Width > 0 && !s.Wide {
			text = strings.ReplaceAll(ui.Wrap(text, s.Width-4), "\n", "\n    ")
		}
		fmt.Fprintln(s.Out, "  "+text)
		n += 1 + strings.Count(text, "\n")
	}
	return n
}
