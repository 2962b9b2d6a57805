package tune

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/ui"
)

// sign returns the mark before a verdict, which makes it readable without color.
func sign(v plugin.Verdict) string {
	switch v {
	case plugin.OK:
		return "✓"
	case plugin.Drifted, plugin.Differs, plugin.Rejected:
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
	case !utf8.ValidString(v.Text):
		return fmt.Sprintf("(%d bytes)", len(v.Text))
	case strings.Contains(v.Text, "\n"): // a file
		if first, _, _ := strings.Cut(v.Text, "\n"); len(first) <= 40 && first != "" {
			return fmt.Sprintf("%s … (%d lines)", first, strings.Count(strings.TrimSuffix(v.Text, "\n"), "\n")+1)
		}
		return fmt.Sprintf("(%d bytes)", len(v.Text))
	}
	return strings.Join(strings.Fields(v.Text), " ")
}

// unlike formats two values for the cells of one row. If they differ but print alike, it marks the
// first.
func unlike(a, b setting.Value) (string, string) {
	x, y := value(a), value(b)
	if x == y && a != b {
		x += ", not the same"
	}
	return x, y
}

// SettingWords formats a setting for messages, without the kind for sysctls and paths.
func SettingWords(s setting.Setting) string {
	switch s.Kind {
	case "sysctl", "sysfs", "file":
		return s.Name
	case plugin.OptionKind:
		return plugin.ShowOption(s)
	}
	return s.String()
}

// name formats a step's setting, preferably by its name in the profile.
func name(st Step) string { return SettingWords(st.named()) }

// family returns the key of steps that share a row: one option on several devices.
func family(st Step) string {
	if st.Device == "" {
		return name(st)
	}
	why := strings.ReplaceAll(st.Why, st.Device, "")
	return strings.Join([]string{string(st.Action), string(st.Verdict), why, st.Reason.String(), value(st.Before), value(st.Want)}, "\x00")
}

// families groups steps by family, in order of first appearance. With all, each step is its own
// group.
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

// Listing selects the rows printed in addition to those that need attention.
type Listing struct {
	All     bool // values as wanted, and one row per device
	Details bool // settings that do not apply to this machine or could not be determined, with the reason
}

// PrintPlan prints the values that a plan would write, and those it would not, with the reason.
// Settings that do not apply to this machine or could not be determined are only counted in the
// headline.
func PrintPlan(s *ui.Screen, p *Plan, l Listing) {
	var changes, others []Step
	for _, st := range p.Steps {
		switch {
		case st.Action == None && st.With == nil:
			if st.Verdict != plugin.Unknown || l.Details {
				others = append(others, st)
			}
		case st.Action != Same || l.All:
			changes = append(changes, st)
		}
	}
	ui.PrintHeadline(s, &p.Headline)
	if groups := families(changes, l.All); len(groups) > 0 {
		fmt.Fprintln(s.Out)
		changeGrid(s, groups).Write(s)
	}
	writeOthers(s, "not written", others, l)
	if len(p.Activations())+len(p.Skipped) > 0 || p.Tested != nil {
		fmt.Fprintln(s.Out)
	}
	if p.Tested != nil {
		ui.PrintLine(s, "· %s", p.Tested)
	}
	for _, a := range p.Activations() {
		ui.PrintLine(s, "· then: %s", a)
	}
	for _, sk := range p.Skipped {
		ui.PrintLine(s, "· %s", sk.Why)
	}
}

// changeGrid returns a grid with a row for each group of steps: current and wanted value.
func changeGrid(s *ui.Screen, groups [][]Step) *ui.Grid {
	const most = 12 // maximum width, in columns, of the aligned values before the arrows
	g := &ui.Grid{Columns: ui.Columns("setting", "now → wanted", "from")}
	wide := 0
	for _, f := range groups {
		if n := utf8.RuneCountInString(value(f[0].Before)); n <= most {
			wide = max(wide, n)
		}
	}
	for _, f := range groups {
		st := f[0]
		arrow, note := "→", from(s, st.Reason)
		switch {
		case st.Action == Same:
			arrow = "="
		case st.Action == Release && st.Override != nil:
			note += " (an administrator's file)"
		case st.Action == Release:
			note = "restored, because the new profile does not set it"
		case st.Why != "":
			note += " (" + st.Why + ")"
		}
		now, wanted := value(st.Before), value(st.Want)
		if st.Action != Same {
			now, wanted = unlike(st.Before, st.Want)
		}
		g.Rows = append(g.Rows, []string{familyName(f), fmt.Sprintf("%*s %s %s", wide, now, arrow, wanted), note})
	}
	return g
}

// writeOthers prints the steps that were not written or need attention, with the reason. head is
// the title of their column. Steps that do not apply to this machine come last, and only with
// details.
func writeOthers(s *ui.Screen, head string, steps []Step, l Listing) {
	steps = slices.Clone(steps)
	if !l.Details {
		steps = slices.DeleteFunc(steps, func(st Step) bool { return st.Verdict == plugin.Unsupported })
	}
	if len(steps) == 0 {
		return
	}
	slices.SortStableFunc(steps, func(a, b Step) int {
		if rank(a.Verdict) != rank(b.Verdict) || a.Verdict != plugin.Unsupported {
			return rank(a.Verdict) - rank(b.Verdict)
		}
		return strings.Compare(a.Why, b.Why)
	})
	grid := ui.Grid{Columns: []ui.Column{{Head: head}, {Head: "verdict"}, {Head: "from"}, {Head: "why", Below: true}}}
	groups := families(steps, l.All)
	for _, f := range groups {
		st := f[0]
		grid.Rows = append(grid.Rows, []string{familyName(f), sign(st.Verdict) + " " + string(st.Verdict), from(s, st.Reason), st.Why})
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

// from formats a reason for a cell: for a file the last two parts of its path and the line, on a
// terminal without tuned.conf. With --wide it shortens nothing.
func from(s *ui.Screen, r setting.Reason) string {
	f := r.String()
	if r.File == "" || s.Wide {
		return f
	}
	if parts := strings.Split(f, "/"); len(parts) > 2 {
		f = strings.Join(parts[len(parts)-2:], "/")
	}
	if s.Width > 0 {
		f = strings.Replace(f, "/tuned.conf:", ":", 1)
	}
	return f
}

// PrintSetAlone prints at most `most` of the values that were set individually.
func PrintSetAlone(s *ui.Screen, all []Checked, most int) {
	for i, c := range all {
		if i == most {
			ui.PrintLine(s, "%d more values were set individually; see fettle verify --all", len(all)-i)
			return
		}
		mark, rest := "", ""
		if c.Verdict != plugin.OK {
			mark, rest = "! ", fmt.Sprintf(": %s, %s", c.Verdict, c.Why)
		}
		ui.PrintLine(s, "%sset individually: %s = %s%s", mark, SettingWords(c.Setting), value(c.Want), rest)
	}
}
