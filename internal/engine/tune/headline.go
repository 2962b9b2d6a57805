package tune

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

// Summarize returns the headline of a plan: how many values it would write, and how many not.
// leftOut names guidance that its profiles do not follow. l selects the rows that are listed.
func (p *Plan) Summarize(leftOut []string, l Listing) ui.Headline {
	var h ui.Headline
	same, verdicts := 0, map[plugin.Verdict]int{}
	for _, st := range p.Steps {
		switch {
		case st.Action == Same:
			same++
		case st.Action == None && st.With == nil:
			verdicts[st.Verdict]++
		}
	}
	least := ""
	if p.Partial() && p.Writes() > 0 {
		least = "at least "
	}
	parts := []string{least + h.Count("values_to_write", p.Writes(), "value") + " would be written"}
	unsupported, unknown, more := verdicts[plugin.Unsupported], verdicts[plugin.Unknown], " (--details)"
	delete(verdicts, plugin.Unsupported)
	delete(verdicts, plugin.Unknown)
	if l.Details {
		more = ""
	}
	parts = append(parts, countVerdicts(&h, verdicts)...)
	parts = append(parts, h.Count("already_fine", same, "")+" already fine")
	if unsupported > 0 {
		parts = append(parts, notApplicable(&h, unsupported, p.onlyForHosts()))
	}
	if unknown > 0 {
		parts = append(parts, h.Count("unknown", unknown, "")+" could not be determined")
	}
	line := strings.Join(parts, ", ")
	if unsupported+unknown > 0 {
		line += more
	}
	h.Line("%s", line)
	if len(leftOut) > 0 {
		h.Line("%s left out: %s%s", h.Count("left_out", len(leftOut), ""), strings.Join(leftOut, ", "), more)
	}
	return h
}

// onlyForHosts reports whether all values that do not apply to this machine are for bare metal.
func (p *Plan) onlyForHosts() bool {
	return !slices.ContainsFunc(p.Steps, func(st Step) bool {
		return st.Verdict == plugin.Unsupported && st.Action == None && !strings.HasPrefix(st.Why, "this machine is a guest")
	})
}

func notApplicable(h *ui.Headline, n int, guest bool) string {
	words := " not applicable"
	if guest {
		words += " to a guest"
	}
	return h.Count("not_applicable", n, "") + words
}

// countVerdicts adds the number of values per verdict to h, those that need attention first.
func countVerdicts(h *ui.Headline, counts map[plugin.Verdict]int) []string {
	verdicts := slices.SortedFunc(maps.Keys(counts), func(v, w plugin.Verdict) int {
		return cmp.Or(rank(v)-rank(w), counts[w]-counts[v], strings.Compare(string(v), string(w)))
	})
	var parts []string
	for _, v := range verdicts {
		if v == plugin.Unsupported {
			parts = append(parts, notApplicable(h, counts[v], false))
			continue
		}
		name, word := strings.ReplaceAll(string(v), "-", "_"), string(v)
		if v == plugin.Differs && counts[v] > 1 {
			word = "differ"
		}
		parts = append(parts, h.Count(name, counts[v], "")+" "+word)
	}
	return parts
}

// Summarize returns the headline of a verification.
func (v *Verification) Summarize() ui.Headline {
	var h ui.Headline
	parts := countVerdicts(&h, v.Counts)
	if len(parts) == 0 {
		parts = []string{"nothing to verify"}
	}
	mark := "✓"
	if !v.Met {
		mark = "✗"
	}
	h.Line("%s %s: %s", mark, cmp.Or(strings.Join(v.Profiles, " "), "set individually"), strings.Join(parts, ", "))
	if v.NotInForce {
		h.Line("%s", map[string]string{
			AppliedNever:   "never applied on this machine; verify only compares",
			AppliedBefore:  "not in force; verify only compares",
			AppliedUnknown: "unknown whether it was ever applied (no journal); verify only compares",
		}[v.Applied])
	}
	return h
}

// Summarize returns the headline of a transaction; took is its duration.
func (a *Applied) Summarize(took time.Duration) ui.Headline {
	var h ui.Headline
	wrote, same, unsupported, dynamic, held := 0, 0, 0, 0, 0
	for _, st := range a.Plan.Steps {
		switch {
		case st.Verdict == plugin.Unsupported:
			unsupported++
		case st.Verdict == plugin.Dynamic:
			dynamic++
		case st.Lifetime == setting.Held && st.Verdict == plugin.OK:
			held++
		case st.Action == Same && st.Verdict == plugin.OK:
			same++
		case st.Action != None && st.Verdict == plugin.OK || st.Action == Write && (st.Verdict != plugin.Rejected || st.Changed):
			wrote++
		}
	}
	if a.Result == journal.ResultRolledBack {
		wrote = 0
	}
	line := resultWord(a.Result)
	if a.Tx != 0 {
		line += fmt.Sprintf(": transaction %s, %s written, %s already fine", h.Value("transaction", float64(a.Tx), fmt.Sprint(a.Tx)), h.Count("values_written", wrote, "value"), h.Count("already_fine", same, ""))
	}
	if unsupported > 0 {
		line += ", " + notApplicable(&h, unsupported, false)
	}
	for _, part := range []struct {
		name, text string
		n          int
	}{{"dynamic", "load-dependent", dynamic}, {"held", "held by fettle's daemon", held}, {"attention", "to review", len(a.attention())}} {
		if part.n > 0 {
			line += ", " + h.Count(part.name, part.n, "") + " " + part.text
		}
	}
	h.Line("%s, in %s", line, h.Value("duration_s", took.Seconds(), unit.FormatSeconds(took.Seconds())))
	return h
}

// Summarize returns the headline of an undo.
func (u *Undone) Summarize() ui.Headline {
	var h ui.Headline
	n, gone, ended := map[journal.EntryState]int{}, 0, 0
	for _, v := range u.Values {
		switch {
		case v.unchanged():
		case v.ended():
			ended++
		case v.gone():
			gone++
		case v.idle && (v.State == journal.Relinked || v.State == journal.Closed): // tune does not count it either
		default:
			n[v.State]++
		}
	}
	mark := "✗"
	if u.Result == journal.ResultDone {
		mark = "✓"
	}
	line := fmt.Sprintf("%s undone: %s, %s restored", mark, TransactionWords(u.Undoes), h.Count("values_given_back", u.Given(), "value"))
	switch {
	case u.Result == ResultPlanned && len(u.Undoes) == 0:
		line = ErrNothing.Error()
	case u.Result == ResultPlanned:
		line = fmt.Sprintf("would be undone: %s, %s restored", TransactionWords(u.Undoes), h.Count("values_to_give_back", u.Given(), "value"))
	}
	for _, part := range []struct {
		name, text string
		n          int
	}{
		{"kept", "kept (changed by another program)", n[journal.KeptNow]},
		{"set_later", "set later by another transaction", n[journal.Relinked]},
		{"earlier_boot", "ended with an earlier boot", n[journal.Closed]},
		{"failed", "could not be restored", n[journal.Failed]},
		{"gone", "no longer exists", gone},
		{"ended", "ended by themselves", ended},
		{"refused", "never written (refused or kept)", len(u.Refused)},
	} {
		if part.n > 0 {
			line += ", " + h.Count(part.name, part.n, "") + " " + part.text
		}
	}
	h.Line("%s", line)
	return h
}

// Summarize returns the headline of a status: the selection in force, since when, and the values
// that differ from it.
func (st *Status) Summarize() ui.Headline {
	var h ui.Headline
	if len(st.Profiles) == 0 {
		others := st.othersInCharge()
		for _, line := range others {
			h.Line("%s", line)
		}
		switch {
		case st.Copy:
			h.Line("fettle: unknown (the copy does not contain fettle's journal)")
		case len(others) > 0:
			h.Line("no profile of fettle active")
		default:
			h.Line("no profile of fettle active; fettle recommend shows a suitable one")
		}
	} else {
		post := ""
		if st.PostLoaded != "" {
			post = " with the post-loaded profile " + st.PostLoaded
		}
		names, tx := strings.Join(st.Profiles, " "), h.Value("transaction", float64(st.Tx), strconv.Itoa(st.Tx))
		if st.ThisBoot {
			h.Line("in force: %s (%s)%s, since %s, transaction %s", names, st.Mode, post, st.Since.Local().Format("2006-01-02 15:04:05"), tx)
		} else {
			h.Line("selected: %s (%s)%s, transaction %s, not applied since boot", names, st.Mode, post, tx)
		}
	}
	var parts []string
	if len(st.Profiles) > 0 && (st.ThisBoot || len(st.Drifted)+len(st.Rejected) > 0) {
		parts = append(parts, h.Count("drifted", len(st.Drifted), "value")+" drifted", h.Count("rejected", len(st.Rejected), "")+" rejected")
	}
	if n := len(st.Asked); n > 0 {
		parts = append(parts, h.Count("set_alone", n, "")+" set individually")
	}
	if len(parts) > 0 {
		h.Line("%s", strings.Join(parts, ", "))
	}
	return h
}

// othersInCharge returns one line for each other tuner in force. For a copy it adds a line about
// unknown data.
func (st *Status) othersInCharge() []string {
	var lines []string
	recorded := ""
	if st.Recorded != nil {
		recorded = fmt.Sprintf("%s (%s, %s)", st.Recorded.Profile, st.Recorded.Mode, st.Recorded.File)
	}
	for _, t := range st.Tuners {
		if t.Operator != nil {
			continue
		}
		line := "in charge: " + t.Name
		if t.Unit == TuneDUnit && recorded != "" {
			line += ", profile " + recorded
			recorded = ""
		} else if t.Profile != "" {
			line += ", profile " + t.Profile
		}
		lines = append(lines, line+"; it "+t.Phase(st.TunersUnknown == ""))
	}
	if st.Operator != nil {
		lines = append(lines, fmt.Sprintf("in charge: %s (%s)", st.Operator.Name, st.Operator.Evidence))
	}
	switch {
	case recorded != "" && st.TunersUnknown != "":
		lines = append(lines, "in charge: TuneD according to its files, profile "+recorded+"; the copy does not record whether TuneD runs")
	case recorded != "" && st.Copy:
		lines = append(lines, "TuneD does not run and is not enabled; its files name "+recorded)
	case st.Copy && len(lines) == 0 && st.TunersUnknown != "":
		lines = append(lines, "in charge: not determined ("+st.TunersUnknown+")")
	case st.Copy && len(lines) == 0:
		lines = append(lines, "in charge: none of the tuners that fettle knows")
	}
	return lines
}
