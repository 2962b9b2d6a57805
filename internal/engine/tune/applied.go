package tune

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/ui"
)

// PrintApplied prints the headline of a transaction and the steps that need attention. Settings
// that do not apply to this machine are only counted; diff lists them.
func PrintApplied(s *ui.Screen, a *Applied, h *ui.Headline) {
	ui.PrintHeadline(s, h)
	bad := a.attention()
	head := "not written"
	if slices.ContainsFunc(bad, func(st Step) bool {
		return st.Action != None && (st.Verdict != plugin.Rejected || st.Changed)
	}) {
		head = "to review" // for a started script, or a value that waits for a reboot
	}
	writeOthers(s, head, bad, Listing{})
	if a.Result == journal.ResultRolledBack {
		return
	}
	for _, st := range a.Plan.Steps { // the program of a setting may not be running
		if st.Action == Write && st.Verdict == plugin.OK && st.Why != "" {
			ui.PrintLine(s, "· %s: %s", name(st), st.Why)
		}
	}
}

// attention returns the steps of a transaction that need a person's attention.
func (a *Applied) attention() []Step {
	var bad []Step
	for _, st := range a.Plan.Steps {
		held := st.Lifetime == setting.Held && st.Verdict == plugin.OK
		if st.Verdict != plugin.Unsupported && st.Verdict != plugin.Dynamic && !held && (st.Action == None || st.Verdict != plugin.OK) {
			bad = append(bad, st)
		}
	}
	return bad
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
		return "· nothing changed"
	}
	return "✗ roll-back incomplete"
}

// PrintVerification prints the headline and the verdicts that need attention.
func PrintVerification(s *ui.Screen, v *Verification, l Listing) {
	ui.PrintHeadline(s, &v.Headline)
	var rows []Step
	for _, c := range v.Values {
		if l.All || c.Verdict != plugin.OK && (c.Verdict != plugin.Unsupported || l.Details) {
			rows = append(rows, Step{Setting: c.Setting, Before: c.Now, Want: c.Want, Verdict: c.Verdict, Why: c.Why, Reason: c.Reason, Device: c.Device})
		}
	}
	if len(rows) == 0 {
		return
	}
	slices.SortStableFunc(rows, func(a, b Step) int { return rank(a.Verdict) - rank(b.Verdict) })
	g := ui.Grid{Columns: []ui.Column{{Head: "setting"}, {Head: "wanted"}, {Head: "now"}, {Head: "verdict"}, {Head: "from"}, {Head: "why", Below: true}}}
	groups := families(rows, l.All)
	for _, f := range groups {
		st := f[0]
		g.Rows = append(g.Rows, []string{familyName(f), value(st.Want), value(st.Before), sign(st.Verdict) + " " + string(st.Verdict), from(s, st.Reason), st.Why})
	}
	g.Color = func(r, c int) string {
		if c == 3 {
			return verdictColor(groups[r][0].Verdict)
		}
		return ""
	}
	fmt.Fprintln(s.Out)
	g.Write(s)
}

// rank returns the sort key of a verdict: those that need attention first, then those in force.
func rank(v plugin.Verdict) int {
	switch v {
	case plugin.OK:
		return 1
	case plugin.Dynamic, plugin.Unsupported, plugin.Overridden, plugin.Kept, plugin.Refused:
		return 2
	}
	return 0
}

// TransactionWords names transactions by number: "transaction 10", "transactions 5, 6 and 3".
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

// PrintUndone prints the headline of an undo, and the values that it kept, could not restore, or
// that stay in force for a while. With details it also lists the restored ones.
func PrintUndone(s *ui.Screen, u *Undone, h *ui.Headline, details bool) {
	ui.PrintHeadline(s, h)
	restored := ui.Grid{Columns: []ui.Column{{Head: "setting"}, {Head: "was"}, {Head: "restored to"}}}
	gone := ui.Grid{Columns: []ui.Column{{Head: "setting"}, {Head: "old value"}, {Head: "why not restored", Below: true}}}
	g := ui.Grid{Columns: []ui.Column{{Head: "setting"}, {Head: "stays at"}, {Head: "instead of"}, {Head: "why", Below: true}}}
	planned := ui.Grid{Columns: []ui.Column{{Head: "setting"}, {Head: "now"}, {Head: "would be restored to"}}}
	for _, v := range u.Values {
		switch {
		case u.Result == ResultPlanned && v.restores():
			planned.Rows = append(planned.Rows, []string{SettingWords(v.Setting), value(v.Found), value(v.To)})
		case v.unchanged():
		case details && v.State == journal.Restored && v.Found.String() != v.To.String():
			found, to := unlike(v.Found, v.To)
			restored.Rows = append(restored.Rows, []string{SettingWords(v.Setting), found, to})
		case v.gone():
			gone.Rows = append(gone.Rows, []string{SettingWords(v.Setting), value(v.To), v.Why})
		case v.State == journal.KeptNow || v.State == journal.Failed:
			found, to := unlike(v.Found, v.To)
			g.Rows = append(g.Rows, []string{SettingWords(v.Setting), found, to, v.Why})
		}
	}
	remains := ui.Grid{Columns: []ui.Column{{Head: "setting"}, {Head: "what remains", Below: true}}}
	for _, r := range u.Remains {
		remains.Rows = append(remains.Rows, []string{SettingWords(r.Setting), r.Why})
	}
	refused := ui.Grid{Columns: []ui.Column{{Head: "never written"}, {Head: "value"}, {Head: "why", Below: true}}}
	for _, r := range u.Refused {
		if details || u.Result == ResultPlanned {
			refused.Rows = append(refused.Rows, []string{SettingWords(r.Setting), value(r.Want), r.Why})
		}
	}
	for _, g := range []ui.Grid{planned, restored, g, gone, remains, refused} {
		if len(g.Rows) > 0 {
			fmt.Fprintln(s.Out)
			g.Write(s)
		}
	}
}

// restores reports whether a value differs from the one that it gets back.
func (v *UndoneValue) restores() bool {
	return !v.SideEffect && v.State == journal.Restored && v.Found.String() != v.To.String()
}

// unchanged reports whether a value has its old value and was kept because the setting that it
// depends on was kept.
func (v *UndoneValue) unchanged() bool { return v.State == journal.KeptNow && v.Found == v.To }

// ended reports whether the setting was transient, such as a task's, and has ended.
func (v *UndoneValue) ended() bool {
	return v.State == journal.Closed && !v.OtherBoot && v.Why == EndedItself
}

// gone reports whether a setting of this boot no longer exists.
func (v *UndoneValue) gone() bool {
	return v.State == journal.Closed && !v.OtherBoot && v.Why != EndedItself
}
