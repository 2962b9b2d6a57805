package report

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"fettle.dev/fettle/internal/journal"
	"fettle.dev/fettle/internal/plugin"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/tune"
	"fettle.dev/fettle/internal/ui"
)

// sign goes before a verdict, so that it can be read without colour.
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

// value is a value in a cell.
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
			return fmt.Sprintf("%s … (%d bytes)", first, len(v.Text))
		}
		return fmt.Sprintf("(%d bytes)", len(v.Text))
	}
	return strings.Join(strings.Fields(v.Text), " ")
}

// unlike are two values in cells of one row; where they differ but would print
// alike, the first says so.
func unlike(a, b setting.Value) (string, string) {
	x, y := value(a), value(b)
	if x == y && a != b {
		x += ", not the same"
	}
	return x, y
}

// Place is a setting as a person calls it: sysctls and paths need no kind.
func Place(s setting.Setting) string {
	switch s.Kind {
	case "sysctl", "sysfs", "file":
		return s.Name
	case plugin.OptionKind:
		return plugin.ShowOption(s)
	}
	return s.String()
}

// name prefers the profile's own word for a place.
func name(st tune.Step) string {
	if st.Named != "" {
		if n, err := setting.Parse(st.Named); err == nil {
			return Place(n)
		}
	}
	return Place(st.Setting)
}

// family is what the steps of one option on several devices have in common: one
// row stands for all of them.
func family(st tune.Step) string {
	why := st.Why
	if st.Device != "" {
		why = strings.ReplaceAll(why, st.Device, "")
	}
	if st.Device == "" {
		return name(st)
	}
	return strings.Join([]string{string(st.Action), string(st.Verdict), why, st.Reason.String(), value(st.Before), value(st.Want)}, "\x00")
}

// families groups steps, in order of first appearance. all keeps each apart.
func families(steps []tune.Step, all bool) [][]tune.Step {
	var out [][]tune.Step
	index := map[string]int{}
	for _, st := range steps {
		key := family(st)
		if i, ok := index[key]; ok && !all {
			out[i] = append(out[i], st)
			continue
		}
		index[key] = len(out)
		out = append(out, []tune.Step{st})
	}
	return out
}

func familyName(f []tune.Step) string {
	if len(f) == 1 {
		return name(f[0])
	}
	return fmt.Sprintf("%s and %d more", name(f[0]), len(f)-1)
}

// Plan prints what a plan would write, and what it would not and why. all also
// prints what has its value already, and every device by itself.
func Plan(s *ui.Screen, p *tune.Plan, all bool) {
	g := Grid{Head: []string{"setting", "now", "", "wanted", "from"}}
	var changes, others []tune.Step
	same := 0
	for _, st := range p.Steps {
		switch st.Action {
		case tune.None:
			others = append(others, st)
			continue
		case tune.Same:
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
		case st.Action == tune.Same:
			arrow = "="
		case st.Action == tune.Release && st.Override != nil:
			note += " (an administrator's file)"
		case st.Action == tune.Release:
			note = "goes back: not in the new selection"
		case st.Why != "":
			note += " (" + st.Why + ")"
		}
		now, wanted := value(st.Before), value(st.Want)
		if st.Action != tune.Same {
			now, wanted = unlike(st.Before, st.Want)
		}
		g.Rows = append(g.Rows, []string{familyName(f), now, arrow, wanted, note})
	}
	if len(g.Rows) > 0 {
		g.Write(s)
	}
	writeOthers(s, "not written", others, all)
	fmt.Fprintf(s.Out, "\n%s would be written, %d already as wanted, %d not written\n", plural(p.Writes(), "value"), same, len(others))
	for _, a := range p.Activations() {
		fmt.Fprintf(s.Out, "· then: %s\n", a)
	}
	for _, sk := range p.Skipped {
		fmt.Fprintf(s.Out, "· %s\n", sk.Why)
	}
}

// writeOthers prints what is not simply in place, and why; head says what all of
// it has in common.
func writeOthers(s *ui.Screen, head string, steps []tune.Step, all bool) {
	if len(steps) == 0 {
		return
	}
	grid := Grid{Head: []string{head, "verdict", "why", "from"}}
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

// from is a reason in a cell: of a file its last two names and the line, which
// are the profile's; anything else as it is.
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

func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}

// Applied prints what a transaction did. What the machine does not have was
// shown by diff, and is only counted here.
func Applied(s *ui.Screen, a *tune.Applied, took time.Duration) {
	wrote, same, unsupported, follows, held := 0, 0, 0, 0, 0
	var bad []tune.Step
	for _, st := range a.Plan.Steps {
		switch {
		case st.Verdict == plugin.Unsupported:
			unsupported++
		case st.Verdict == plugin.Dynamic:
			follows++
		case st.Lifetime == setting.Held && st.Verdict == plugin.OK:
			held++
		case st.Action == tune.None || st.Verdict != plugin.OK:
			bad = append(bad, st)
			if st.Action == tune.Write && (st.Verdict != plugin.Rejected || st.Changed) {
				wrote++
			}
		case st.Action == tune.Same:
			same++
		default:
			wrote++
		}
	}
	head := "not written"
	if slices.ContainsFunc(bad, func(st tune.Step) bool {
		return st.Action != tune.None && (st.Verdict != plugin.Rejected || st.Changed)
	}) {
		head = "to look at" // a script that was started, a value that waits for a reboot
	}
	writeOthers(s, head, bad, false)
	if len(bad) > 0 {
		fmt.Fprintln(s.Out)
	}
	if a.Result == journal.ResultRolledBack {
		wrote = 0
	}
	word := resultWord(a.Result)
	line := fmt.Sprintf("%s: transaction %d, %s written, %d already as wanted", word, a.Tx, plural(wrote, "value"), same)
	if a.Tx == 0 {
		line = resultWord(a.Result)
	}
	if unsupported > 0 {
		line += fmt.Sprintf(", %d unsupported here", unsupported)
	}
	if follows > 0 {
		line += fmt.Sprintf(", %d by the load", follows)
	}
	if held > 0 {
		line += fmt.Sprintf(", %d held by fettle's daemon", held)
	}
	if len(bad) > 0 {
		line += fmt.Sprintf(", %d to look at", len(bad))
	}
	fmt.Fprintf(s.Out, "%s, in %s\n", line, took.Round(100*time.Microsecond))
	if a.Result == journal.ResultRolledBack {
		return
	}
	for _, st := range a.Plan.Steps { // the program of a setting may not run
		if st.Action == tune.Write && st.Verdict == plugin.OK && st.Why != "" {
			fmt.Fprintf(s.Out, "· %s: %s\n", name(st), ui.Printable(st.Why))
		}
	}
}

func resultWord(r string) string {
	switch r {
	case journal.ResultDone:
		return "✓ tuned"
	case journal.ResultPartial:
		return "! applied in part"
	case journal.ResultRolledBack:
		return "✗ rolled back"
	case tune.ResultNothing:
		return "· nothing done"
	}
	return "✗ roll-back incomplete"
}

// Verification prints the verdicts: what a person should look at, and counts;
// all prints every value.
func Verification(s *ui.Screen, v *tune.Verification, all bool) {
	var rows []tune.Step
	for _, c := range v.Values {
		if all || c.Verdict != plugin.OK && c.Verdict != plugin.Unsupported {
			rows = append(rows, tune.Step{Setting: c.Setting, Before: c.Now, Want: c.Want, Verdict: c.Verdict, Why: c.Why, Reason: c.Reason, Device: c.Device})
		}
	}
	if len(rows) > 0 {
		g := Grid{Head: []string{"setting", "wanted", "now", "verdict", "why", "from"}}
		groups := families(rows, all)
		for _, f := range groups {
			st := f[0]
			g.Rows = append(g.Rows, []string{familyName(f), value(st.Want), value(st.Before), sign(st.Verdict) + " " + string(st.Verdict), st.Why, from(st.Reason)})
		}
		g.Color = func(r, c int) string {
			if c == 3 {
				return verdictColor(groups[r][0].Verdict)
			}
			return ""
		}
		g.Write(s)
		fmt.Fprintln(s.Out)
	}
	fmt.Fprintf(s.Out, "%s %s: %s\n", map[bool]string{true: "✓", false: "✗"}[v.Met], cmp.Or(strings.Join(v.Profiles, " "), "set one by one"), counts(v.Counts))
}

// rank puts what needs a look first, then what is in force.
func rank(v plugin.Verdict) int {
	switch v {
	case plugin.OK:
		return 1
	case plugin.Dynamic, plugin.Unsupported, plugin.Overridden, plugin.Kept, plugin.Refused:
		return 2
	}
	return 0
}

func counts(m map[plugin.Verdict]int) string {
	var words []string
	for v := range m {
		words = append(words, string(v))
	}
	sort.Slice(words, func(i, j int) bool {
		v, w := plugin.Verdict(words[i]), plugin.Verdict(words[j])
		if a, b := rank(v), rank(w); a != b {
			return a < b
		}
		if m[v] != m[w] {
			return m[v] > m[w]
		}
		return words[i] < words[j]
	})
	for i, w := range words {
		words[i] = fmt.Sprintf("%d %s", m[plugin.Verdict(w)], w)
	}
	if len(words) == 0 {
		return "nothing to verify"
	}
	return strings.Join(words, ", ")
}

// Transactions names transactions by their numbers, "transaction 10",
// "transactions 5, 6 and 3", so that no number reads as a count.
func Transactions(ids []int) string {
	words := make([]string, len(ids))
	for i, id := range ids {
		words[i] = strconv.Itoa(id)
	}
	last := len(words) - 1
	if last < 1 {
		return "transaction " + strings.Join(words, "")
	}
	return "transactions " + strings.Join(words[:last], ", ") + " and " + words[last]
}

// Undone prints what an undo did: what was kept or failed, and counts.
func Undone(s *ui.Screen, u *tune.Undone) {
	n, ended := map[journal.EntryState]int{}, 0
	away := Grid{Head: []string{"setting", "was to be", "why not"}}
	g := Grid{Head: []string{"setting", "stays at", "instead of", "why"}}
	for _, v := range u.Values {
		if v.State == journal.KeptNow && v.Found == v.To {
			continue // kept with what it belongs to, and has what it had before
		}
		n[v.State]++
		if v.State == journal.Closed && !v.OtherBoot {
			n[journal.Closed]--
			if v.Why == tune.EndedItself {
				ended++
			} else {
				away.Rows = append(away.Rows, []string{Place(v.Setting), value(v.To), v.Why})
			}
		}
		if v.State == journal.KeptNow || v.State == journal.Failed {
			found, to := unlike(v.Found, v.To)
			g.Rows = append(g.Rows, []string{Place(v.Setting), found, to, v.Why})
		}
	}
	for _, g := range []Grid{g, away} {
		if len(g.Rows) > 0 {
			g.Write(s)
			fmt.Fprintln(s.Out)
		}
	}
	line := fmt.Sprintf("%s undone: %s, %s given back", map[bool]string{true: "✓", false: "✗"}[u.Result == journal.ResultDone], Transactions(u.Undoes), plural(u.Given(), "value"))
	for _, st := range []struct {
		state journal.EntryState
		text  string
	}{{journal.KeptNow, "kept (changed by somebody else)"}, {journal.Relinked, "set later by another transaction"}, {journal.Closed, "ended with an earlier boot"}, {journal.Failed, "could not be given back"}} {
		if n[st.state] > 0 {
			line += fmt.Sprintf(", %d %s", n[st.state], st.text)
		}
	}
	if len(away.Rows) > 0 {
		line += fmt.Sprintf(", %d not there any more", len(away.Rows))
	}
	if ended > 0 {
		line += fmt.Sprintf(", %d ended by themselves", ended)
	}
	fmt.Fprintln(s.Out, line)
}

// SetAlone prints the values that were set one by one, at most so many.
func SetAlone(s *ui.Screen, all []tune.Checked, most int) {
	for i, c := range all {
		if i == most {
			fmt.Fprintf(s.Out, "%d more were set one by one: fettle verify --all shows them\n", len(all)-i)
			return
		}
		mark, rest := "", ""
		if c.Verdict != plugin.OK {
			mark, rest = "! ", fmt.Sprintf(": %s, %s", c.Verdict, ui.Printable(c.Why))
		}
		fmt.Fprintf(s.Out, "%sset by itself: %s = %s%s\n", mark, ui.Printable(Place(c.Setting)), ui.Printable(value(c.Want)), rest)
	}
}
