package findings

import (
	"fmt"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/guide/rule"
	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
)

// View selects what an audit prints in addition to the headline and one line per bad finding.
type View struct {
	// All also lists rules that passed or do not apply, and reminders.
	All bool
	// Details adds the reason, the fix and the sources of each bad finding.
	Details bool
}

// shown is the maximum number of listed items of a group; the others are counted. screenful is the
// maximum number of lines for findings; beyond it the least harmful are counted.
const (
	shown     = 6
	screenful = 30
)

// Print prints an audit: the headline, a line and a command per bad finding, and counts of all else.
func Print(s *ui.Screen, a *Audit, v View) {
	ui.PrintHeadline(s, &a.Headline)
	w := &writer{s, width(s), a}
	above := a.Slow.PrintBelow(s)
	var bad, unknown, rest []group
	for _, g := range a.fewer(a.groups()) {
		switch {
		case g.State == rule.Unknown && !v.Details && g.Change != Same && v.All:
			rest = append(rest, g)
		case g.State == rule.Unknown && !v.Details && g.Change != Same:
			unknown = append(unknown, g)
		case Bad(g.State) && g.Change != Same:
			bad = append(bad, g)
		case v.All || Bad(g.State) && a.Baseline == nil:
			rest = append(rest, g)
		}
	}
	if len(bad)+len(unknown)+len(rest) > 0 {
		fmt.Fprintln(s.Out)
	}
	if v.Details {
		for _, g := range bad {
			w.group(g)
		}
	} else {
		w.short(bad, unknown, v.All, above)
	}
	for _, g := range rest {
		w.brief(g)
	}
	w.lines("", a.mended()...)
	if next := a.next(v.Details); next != "" {
		if !v.Details || len(bad) == 0 || len(rest) > 0 {
			fmt.Fprintln(s.Out)
		}
		w.lines("", "next: "+next)
	}
}

// short writes each finding on one line, with its command on the next. Unless all is set, findings
// that do not fit on a screen are counted. above is the number of lines printed before.
func (w *writer) short(bad, unknown []group, all bool, above int) {
	lines := make([][]string, len(bad))
	total := above
	for i, g := range bad {
		lines[i] = w.finding(g)
		if command, there := w.audit.command(g); command != "" {
			if there != "" && len([]rune("    "+there+command)) > w.width { // a long command has a line of its own
				lines[i] = append(lines[i], "    "+strings.TrimSpace(there))
			} else {
				command = there + command
			}
			lines[i] = append(lines[i], "    "+ui.Printable(command))
		}
		total += len(lines[i])
	}
	var folded []group
	for _, less := range []func(group) bool{
		func(g group) bool { return g.State == rule.Warned && !g.Harm },
		func(g group) bool { return g.State == rule.Warned },
		func(g group) bool { return true },
	} {
		for i := len(bad) - 1; i >= 0 && total > screenful && !all; i-- {
			if lines[i] != nil && less(bad[i]) {
				total -= len(lines[i])
				lines[i], folded = nil, append(folded, bad[i])
			}
		}
	}
	for _, of := range lines {
		for _, line := range of {
			fmt.Fprintln(w.Out, line)
		}
	}
	slices.Reverse(folded)
	counted := map[string]bool{} // each rule counts once, in its worst state
	for i, g := range bad {
		counted[g.ID] = counted[g.ID] || lines[i] != nil
	}
	w.fold("%d more (--details)", folded, counted)
	w.fold("%d not determined (--details)", unknown, map[string]bool{})
}

// fold counts the rules per state, except those in counted. If they are few, it lists their ids.
func (w *writer) fold(what string, all []group, counted map[string]bool) {
	const named = 10
	for _, state := range rule.States {
		var ids []string
		for _, g := range all {
			if g.State == state && !counted[g.ID] {
				ids = append(ids, g.ID)
				counted[g.ID] = true
			}
		}
		if len(ids) == 0 {
			continue
		}
		sign, color := findingSign(state)
		text := fmt.Sprintf(what, len(ids))
		if len(ids) <= named {
			text += ": " + strings.Join(ids, ", ")
		}
		label := sign + " " + string(state)
		text = strings.ReplaceAll(w.wrapped(text, w.width-len([]rune(label))-2), "\n", "\n    ")
		fmt.Fprintln(w.Out, w.Paint(color, label)+"  "+text)
	}
}

// finding returns the lines of a finding; on a narrow terminal there are several.
func (w *writer) finding(g group) []string {
	sign, color := findingSign(g.State)
	label := sign + " " + string(g.State)
	if g.Change == New || g.Change == Worse {
		label += ", " + string(g.Change)
	}
	text := g.ID + "  " + g.line()
	if g.Because != "" {
		text += " (due to " + g.Because + ")"
	}
	lines := strings.Split(w.wrapped(text, w.width-len([]rune(label))-2), "\n")
	lines[0] = w.Paint(color, label) + "  " + lines[0]
	for i := 1; i < len(lines); i++ {
		lines[i] = "    " + lines[i]
	}
	return lines
}

// width returns the line length: the terminal's, within readable limits.
func width(s *ui.Screen) int {
	if s.Width == 0 {
		return 80
	}
	return max(40, min(s.Width, 100))
}

// writer wraps text for a terminal.
type writer struct {
	*ui.Screen
	width int
	audit *Audit
}

// lines writes lines, wrapped on a terminal. Continuation lines are indented by two more blanks.
func (w *writer) lines(indent string, lines ...string) {
	for _, line := range lines {
		text := w.wrapped(line, w.width-len(indent)-2)
		fmt.Fprintln(w.Out, indent+strings.ReplaceAll(text, "\n", "\n"+indent+"  "))
	}
}

// group writes a finding in full.
func (w *writer) group(g group) {
	for _, line := range w.finding(group{Finding: g.Finding}) {
		fmt.Fprintln(w.Out, line)
	}
	switch {
	case g.Reason != "":
		w.part("here", g.Reasons())
	default:
		items := g.Told()
		for _, i := range items[:min(shown, len(items))] {
			w.part("here", i.full())
		}
		if more := len(items) - shown; more > 0 {
			w.part("", internaltext.Sprintf("and %d more (%s)", more, w.audit.explained(g.ID)))
		}
	}
	if g.State != rule.Unknown {
		w.part("why", g.Why)
		w.remedies(g)
		w.part("source", rule.SourceWords(g.Sources))
	}
	fmt.Fprintln(w.Out)
}

// brief writes a finding on one line.
func (w *writer) brief(g group) {
	for _, i := range g.Items {
		one := g
		one.Items = []item{i}
		one.Instance = i.Instance
		for _, line := range w.finding(one) {
			fmt.Fprintln(w.Out, line)
		}
	}
}

func findingSign(s rule.State) (sign, color string) {
	switch s {
	case rule.Passed:
		return "✓", ui.Green
	case rule.Failed:
		return "✗", ui.Red
	case rule.Warned:
		return "!", ui.Yellow
	case rule.Unknown:
		return "?", ui.Yellow
	}
	return "·", ui.Dim
}
