package tune

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
)

// PrintApplied prints what a transaction did. Unsupported settings are only counted: diff
// shows them.
func PrintApplied(s *ui.Screen, a *Applied, took time.Duration) {
	wrote, same, unsupported, follows, held := 0, 0, 0, 0, 0
	var bad []Step
	for _, st := range a.Plan.Steps {
		switch {
		case st.Verdict == plugin.Unsupported:
			unsupported++
		case st.Verdict == plugin.Dynamic:
			follows++
		case st.Lifetime == setting.Held && st.Verdict == plugin.OK:
			held++
		case st.Action == None || st.Verdict != plugin.OK:
			bad = append(bad, st)
			if st.Action == Write && (st.Verdict != plugin.Rejected || st.Changed) {
				wrote++
			}
		case st.Action == Same:
			same++
		default:
			wrote++
		}
	}
	head := "not written"
	if slices.ContainsFunc(bad, func(st Step) bool {
		return st.Action != None && (st.Verdict != plugin.Rejected || st.Changed)
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
	line := fmt.Sprintf("%s: transaction %d, %s written, %d already as wanted", word, a.Tx, text.Count(wrote, "value"), same)
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
		if st.Action == Write && st.Verdict == plugin.OK && st.Why != "" {
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
	case ResultNothing:
		return "· nothing done"
	}
	return "✗ roll-back incomplete"
}

// PrintVerification prints the verdicts that need attention, and counts; all prints every
// value.
func PrintVerification(s *ui.Screen, v *Verification, all bool) {
	var rows []Step
	for _, c := range v.Values {
		if all || c.Verdict != plugin.OK && c.Verdict != plugin.Unsupported {
			rows = append(rows, Step{Setting: c.Setting, Before: c.Now, Want: c.Want, Verdict: c.Verdict, Why: c.Why, Reason: c.Reason, Device: c.Device})
		}
	}
	if len(rows) > 0 {
		g := ui.Grid{Columns: ui.Columns("setting", "wanted", "now", "verdict", "why", "from")}
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

// rank orders verdicts: those that need attention first, then those in force.
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
	slices.SortFunc(words, func(a, b string) int {
		v, w := plugin.Verdict(a), plugin.Verdict(b)
		return cmp.Or(rank(v)-rank(w), m[w]-m[v], strings.Compare(a, b))
	})
	for i, w := range words {
		words[i] = fmt.Sprintf("%d %s", m[plugin.Verdict(w)], w)
	}
	if len(words) == 0 {
		return "nothing to verify"
	}
	return strings.Join(words, ", ")
}

// TransactionWords names transactions by their numbers: "transaction 10", "transactions 5,
// 6 and 3".
func TransactionWords(ids []int) string {
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

// PrintUndone prints what an undo kept or could not restore, and counts.
func PrintUndone(s *ui.Screen, u *Undone) {
	n, ended := map[journal.EntryState]int{}, 0
	away := ui.Grid{Columns: ui.Columns("setting", "was to be", "why not")}
	g := ui.Grid{Columns: ui.Columns("setting", "stays at", "instead of", "why")}
	for _, v := range u.Values {
		if v.State == journal.KeptNow && v.Found == v.To {
			continue // kept with the setting it depends on, and has its old value
		}
		n[v.State]++
		if v.State == journal.Closed && !v.OtherBoot {
			n[journal.Closed]--
			if v.Why == EndedItself {
				ended++
			} else {
				away.Rows = append(away.Rows, []string{SettingWords(v.Setting), value(v.To), v.Why})
			}
		}
		if v.State == journal.KeptNow || v.State == journal.Failed {
			found, to := unlike(v.Found, v.To)
			g.Rows = append(g.Rows, []string{SettingWords(v.Setting), found, to, v.Why})
		}
	}
	for _, g := range []ui.Grid{g, away} {
		if len(g.Rows) > 0 {
			g.Write(s)
			fmt.Fprintln(s.Out)
		}
	}
	line := fmt.Sprintf("%s undone: %s, %s given back", map[bool]string{true: "✓", false: "✗"}[u.Result == journal.ResultDone], TransactionWords(u.Undoes), text.Count(u.Given(), "value"))
	for _, st := range []struct {
		state journal.EntryState
		text  string
	}{{journal.KeptNow, "kept (changed by another program)"}, {journal.Relinked, "set later by another transaction"}, {journal.Closed, "ended with an earlier boot"}, {journal.Failed, "could not be given back"}} {
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
