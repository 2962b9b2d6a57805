package why

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/engine/override"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/ui"
)

// summarize returns the headline: the value and its source.
func (w *Why) summarize() (h ui.Headline) {
	now := w.Now.String()
	if first, rest, more := strings.Cut(now, "\n"); more && rest != "" && isFile(w.Setting) {
		now = fmt.Sprintf("%s … (%d lines)", first, strings.Count(strings.TrimSuffix(now, "\n"), "\n")+1)
	}
	h.Line("%s = %s", w.Setting, now)
	var parts []string
	if last, certain := override.Winner(w.Claims); certain {
		parts = append(parts, fmt.Sprintf("set by %s, %s (%s)", h.Count("lines", len(w.Claims), "line"), last.Place(), w.who(last)))
		if len(w.Claims) > 1 {
			parts[0] = fmt.Sprintf("set by %s; the last one wins: %s (%s)", h.Count("lines", len(w.Claims), "line"), last.Place(), w.who(last))
		}
	}
	if n := len(w.Changes); n > 0 {
		tx := w.Changes[n-1].Tx
		parts = append(parts, "changed by fettle in transaction "+h.Value("transaction", float64(tx), strconv.Itoa(tx)))
	}
	if len(parts) > 0 {
		h.Line("%s", strings.Join(parts, "; "))
		return h
	}
	switch {
	case len(w.Claims)+len(w.Coupled)+len(w.Within) > 0 || w.Wanted != nil || w.Kept != nil:
	case slices.ContainsFunc(w.Tuners, func(t Tuner) bool { return t.Effect == tunerMay }):
		h.Line("no readable profile or file sets it")
	case len(w.Unread)+len(w.NotRecorded) > 0:
		h.Line("no known profile or file sets it, but some could not be read")
	default:
		h.Line("no profile, file or change by fettle sets it")
	}
	return h
}

// Print prints an explanation.
func Print(s *ui.Screen, w *Why) {
	ui.PrintHeadline(s, &w.Headline)
	g := ui.Grid{Columns: []ui.Column{{Head: "who"}, {Head: "wants"}, {Head: "where"}, {Head: "note", Below: true}}}
	for i, c := range w.Claims {
		note := claimNote(c)
		if i == len(w.Claims)-1 && c.Certain() {
			note = "applied last"
			if w.partial {
				note += ", as far as the files could be read"
			}
		}
		g.Rows = append(g.Rows, []string{w.who(c), claimWants(c), c.Place(), note})
	}
	for _, c := range w.Coupled {
		note := "writing it changes this setting too"
		if c.Zeroes {
			note = "writing it resets this setting to 0"
		}
		if more := claimNote(c.Claim); more != "" {
			note += "; " + more
		}
		g.Rows = append(g.Rows, []string{w.who(c.Claim), tune.SettingWords(c.Setting) + " = " + claimWants(c.Claim), c.Place(), note})
	}
	w.ownRows(&g)
	if len(g.Rows) > 0 {
		fmt.Fprintln(s.Out)
		g.Write(s)
		fmt.Fprintln(s.Out)
	}
	for _, text := range w.Explained {
		ui.PrintLine(s, "%s", text)
	}
	if n := len(w.NotRecorded); n > 0 {
		ui.PrintLine(s, "not recorded in this copy: %s", someOf(w.NotRecorded, 3))
	}
	for _, t := range w.Tuners {
		if t.Effect != tunerNo || t.Unit == tune.TuneDUnit {
			ui.PrintLine(s, "%s", t.describe(!w.tunersUnknown))
		}
	}
	w.Writer.print(s, w.Now)
}

// someOf lists the first most names, and counts the others.
func someOf(all []string, most int) string {
	if len(all) <= most+1 {
		return strings.Join(all, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(all[:most], ", "), len(all)-most)
}

// who returns the source of a claim; for TuneD it adds the profile.
func (w *Why) who(c override.Claim) string {
	for _, t := range w.Tuners {
		if c.Source == override.TuneD && t.Unit == tune.TuneDUnit && t.Profile != "" {
			return t.Name + ", " + t.Profile
		}
	}
	return string(c.Source)
}

// claimWants returns the value of a claim, or "-" for a line that only excludes a setting.
func claimWants(c override.Claim) string {
	if c.Value.Absent {
		return "-"
	}
	return c.Value.String()
}

// claimNote returns why a line has no effect, or its condition, or "".
func claimNote(c override.Claim) string {
	switch {
	case c.Shadowed != "":
		return "masked: " + c.Void
	case c.Void != "" && c.Value.Absent:
		return "excluded: " + c.Void
	case c.Void != "":
		return "no effect: " + c.Void
	case c.Condition != "":
		return "conditional: only if " + c.Condition
	}
	return ""
}

// verdictNote returns a verdict with its reason.
func verdictNote(c tune.Checked) string {
	if c.Why == "" {
		return string(c.Verdict)
	}
	return string(c.Verdict) + ": " + c.Why
}

// ownRows adds fettle's changes, selection and keep.d.
func (w *Why) ownRows(g *ui.Grid) {
	for _, c := range w.Changes {
		wants, note := c.Wanted.String(), ""
		if c.Within != nil {
			wants = c.Within.String() + " = " + wants
		}
		switch {
		case c.CoupledTo != nil:
			wants, note = "nothing", "kept because writing "+tune.SettingWords(*c.CoupledTo)+" changes it too; "
		case c.Releases:
			note = "restored, because the new profile does not set it; "
		}
		note += fmt.Sprintf("was %s before; %s, %s", c.Before, c.User, c.Time.Local().Format(Stamp))
		g.Rows = append(g.Rows, []string{fmt.Sprintf("fettle, transaction %d", c.Tx), wants, c.From, note})
	}
	if w.Wanted != nil {
		g.Rows = append(g.Rows, []string{"the active profile", w.Wanted.Want.String(), w.Wanted.Reason.String(), verdictNote(*w.Wanted)})
	}
	for _, c := range w.Within {
		g.Rows = append(g.Rows, []string{"the active profile", c.Setting.String() + " = " + c.Want.String(), c.Reason.String(), verdictNote(c)})
	}
	if w.Kept != nil {
		why := w.Kept.Reason
		if w.KeptThrough != nil {
			why = "writing it would change " + tune.SettingWords(*w.KeptThrough) + ": " + why
		}
		g.Rows = append(g.Rows, []string{"keep.d", "never written", w.Kept.String(), why})
	}
}
