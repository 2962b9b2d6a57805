package tune

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
)

// sign returns the mark before a verdict, so that it is readable without color.
func sign(v plugin.Verdict) string {
	switch v {
	case plugin.OK:
		return "✓"
	case plugin.Drifted, plugin.Rejected:
		return "✗"
	case plugin.Overridden, plugin.Kept, plugin.NeedsReboot, plugin.NeedsRestart, plugin.NeedsDaemon, plugin.Refused:
		return "!"
	}
	return "·"
}

func verdictColor(v plugin.Verdict) string {
	switch sign(v) {
	case "✓":
		return ui.Green
	case "✗":
		return ui.Red
	case "!":
		return ui.Yellow
	}
	return ui.Dim
}

// value formats a value for a table cell.
func value(v setting.Value) string {
	switch {
	case v.Unknown:
		return "?"
	case v.Absent:
		return "-"
	case v.Text == "":
		return `""`
	case strings.Contains(v.Text, "\n") || len(v.Text) > 48:
		if first, _, _ := strings.Cut(v.Text, "\n"); len(first) <= 40 && first != "" {
			return fmt.Sprintf("%s … (%d lines)", first, strings.Count(strings.TrimSuffix(v.Text, "\n"), "\n")+1)
		}
		if !strings.Contains(v.Text, "\n") && utf8.ValidString(v.Text) {
			return string([]rune(v.Text)[:min(45, utf8.RuneCountInString(v.Text))]) + "…"
		}
		return fmt.Sprintf("(%d bytes)", len(v.Text))
	}
	return strings.Join(strings.Fields(v.Text), " ")
}

// unlike formats two values for cells of one row. If they differ but print alike, it marks the
// first.
func unlike(a, b setting.Value) (string, string) {
	x, y := value(a), value(b)
	if x == y && a != b {
		x += ", not the same"
	}
	return x, y
}

// SettingWords formats a setting for messages: sysctls and paths without their kind.
func SettingWords(s setting.Setting) string {
	switch s.Kind {
	case "sysctl", "sysfs", "file":
		return s.Name
	case plugin.OptionKind:
		return plugin.ShowOption(s)
	}
	return s.String()
}

// name formats the setting of a step, preferably with its name in the profile.
func name(st Step) string { return SettingWords(st.named()) }

// family returns the key of steps that share a row: those of one option on several devices.
func family(st Step) string {
	if st.Device == "" {
		return name(st)
	}
	why := strings.ReplaceAll(st.Why, st.Device, "")
	return strings.Join([]string{string(st.Action), string(st.Verdict), why, st.Reason.String(), value(st.Before), value(st.Want)}, "\x00")
}

// families groups steps by family, in order of first appearance; with all, each is separate.
func families(steps []Step, all bool) [][]Step {
	var out [][]Step
	index := map[string]int{}
	for _, st := range steps {
		key := family(st)
		if i, ok := index[key]; ok && !all {
			out[i] = append(out[i], st)
			continue
		}
		index[key] = len(out)
		out = append(out, []Step{st})
	}
	return out
}

func familyName(f []Step) string {
	if len(f) == 1 {
		return name(f[0])
	}
	return fmt.Sprintf("%s and %d more", name(f[0]), len(f)-1)
}

// PrintPlan prints what a plan would write, and what it would not write and why. all also
// prints the settings that have their value already, and each device separately.
func PrintPlan(s *ui.Screen, p *Plan, all bool) {
	g := ui.Grid{Columns: ui.Columns("setting", "now", "", "wanted", "from")}
	var changes, others []Step
	same := 0
	for _, st := range p.Steps {
		switch st.Action {
		case None:
			if st.With != nil {
				break
			}
			others = append(others, st)
			continue
		case Same:
			if same++; !all {
				continue
			}
		}
		changes = append(changes, st)
	}
	for _, f := range families(changes, all) {
		st := f[0]
		arrow, note := "→", from(st.Reason)
		switch {
		case st.Action == Same:
			arrow = "="
		case st.Action == Release && st.Override != nil:
			note += " (an administrator's file)"
		case st.Action == Release:
			note = "goes back: not in the new selection"
		case st.Why != "":
			note += " (" + st.Why + ")"
		}
		now, wanted := value(st.Before), value(st.Want)
		if st.Action != Same {
			now, wanted = unlike(st.Before, st.Want)
		}
		g.Rows = append(g.Rows, []string{familyName(f), now, arrow, wanted, note})
	}
	if len(g.Rows) > 0 {
		g.Write(s)
	}
	writeOthers(s, "not written", others, all)
	least := ""
	if p.Partial() {
		least = "at least "
	}
	fmt.Fprintf(s.Out, "\n%s%s would be written, %d already as wanted, %d not written\n", least, text.Count(p.Writes(), "value"), same, len(others))
	for _, a := range p.Activations() {
		fmt.Fprintf(s.Out, "· then: %s\n", a)
	}
	for _, sk := range p.Skipped {
		fmt.Fprintf(s.Out, "· %s\n", sk.Why)
	}
}

// writeOthers prints the steps that were not written, or need attention, and why; head is
// the title of their column.
func writeOthers(s *ui.Screen, head string, steps []Step, all bool) {
	if len(steps) == 0 {
		return
	}
	grid := ui.Grid{Columns: ui.Columns(head, "verdict", "why", "from")}
	groups := families(steps, all)
	for _, f := range groups {
		st := f[0]
		grid.Rows = append(grid.Rows, []string{familyName(f), sign(st.Verdict) + " " + string(st.Verdict), st.Why, from(st.Reason)})
	}
	grid.Color = func(r, c int) string {
		if c == 1 {
			return verdictColor(groups[r][0].Verdict)
		}
		return ""
	}
	fmt.Fprintln(s.Out)
	grid.Write(s)
}

// from formats a reason for a cell: for a file the last two parts of its path and the line.
func from(r setting.Reason) string {
	f := r.String()
	if r.File == "" {
		return f
	}
	if parts := strings.Split(f, "/"); len(parts) > 2 {
		f = strings.Join(parts[len(parts)-2:], "/")
	}
	return f
}

// PrintSetAlone prints at most `most` of the values that were set one by one.
func PrintSetAlone(s *ui.Screen, all []Checked, most int) {
	for i, c := range all {
		if i == most {
			fmt.Fprintf(s.Out, "%d more were set one by one: fettle verify --all shows them\n", len(all)-i)
			return
		}
		mark, rest := "", ""
		if c.Verdict != plugin.OK {
			mark, rest = "! ", fmt.Sprintf(": %s, %s", c.Verdict, ui.Printable(c.Why))
		}
		fmt.Fprintf(s.Out, "%sset by itself: %s = %s%s\n", mark, ui.Printable(SettingWords(c.Setting)), ui.Printable(value(c.Want)), rest)
	}
}
