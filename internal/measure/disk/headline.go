package disk

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
)

// roleNames are the roles in the usual spelling.
var roleNames = map[Role]string{Pulp: "Pulp", PostgreSQL: "PostgreSQL", Etcd: "etcd", Satellite: "Satellite"}

// fitness has the verdicts as beginnings of sentences, in the order of output.
var fitness = []struct {
	word Word
	text string
}{{Fail, "too slow for"}, {Warn, "slow for"}, {Pass, "fast enough for"}, {NoVerdict, "no verdict for"}}

// Headline states the roles for which the storage is fast enough, the figures with their limits,
// and the spread of the repeats.
func (e *Evidence) Headline() (h ui.Headline) {
	var answers []string
	for i := range e.Places {
		answers = append(answers, e.Places[i].Directory+": "+e.Places[i].fitFor())
	}
	h.Line("%s", e.Cut.Text(strings.Join(answers, "; ")))
	var figures []string
	for i := range e.Places {
		figures = append(figures, e.Places[i].figures(&h, len(e.Places) > 1)...)
	}
	if len(figures) > 0 {
		h.Line("%s", strings.Join(figures, "; "))
	}
	if worst := e.widest(); worst != nil {
		h.Line("each figure is the median of %s; the repeats of %s differ most, by %s", text.Count(len(worst.Samples), "repeat"), worst.Name, h.Figure("largest_spread_percent", 100*worst.Spread, "%"))
	}
	return h
}

// fitFor returns the roles grouped by verdict: "too slow for etcd, fast enough for Pulp and
// PostgreSQL".
func (m *Measured) fitFor() string {
	roles := []Role{m.Role}
	if m.Role == "" {
		roles = Roles
	}
	by := map[Word][]string{}
	for _, role := range roles {
		p := m.Place
		p.Role = role
		if all := judge(&p, m.Results); len(all) > 0 {
			word := overall(all)
			by[word] = append(by[word], roleNames[role])
		}
	}
	var out []string
	for _, f := range fitness {
		if names := by[f.word]; len(names) > 0 {
			if n := len(names) - 2; n > 0 {
				names = []string{strings.Join(names[:n+1], ", "), names[n+1]}
			}
			out = append(out, f.text+" "+strings.Join(names, " and "))
		}
	}
	return cmp.Or(strings.Join(out, ", "), "no published limit applies to these tests")
}

// figures returns the judged values with their limits, the worst first. For several directories it
// returns those that do not pass. Without judged values it returns the first values.
func (m *Measured) figures(h *ui.Headline, several bool) (out []string) {
	prefix, where := "", ""
	if several {
		prefix, where = figureName(m.Directory)+"_", m.Directory+" "
	}
	doubts := map[string][]string{} // names by reason
	for _, f := range fitness {
		for _, j := range m.Verdict {
			i := slices.IndexFunc(thresholds, func(t Threshold) bool { return t.Name == j.Name && t.Source == j.Source })
			switch {
			case j.Verdict != f.word || i < 0 || several && j.Verdict == Pass:
			case j.Verdict == NoVerdict:
				if doubts[j.Text] = append(doubts[j.Text], j.Name); len(doubts[j.Text]) == 1 {
					out = append(out, j.Text)
				}
			default:
				value := h.Figure(prefix+figureName(j.Name+" "+strings.ReplaceAll(j.Unit, "/", " per ")), j.Value, j.Unit)
				out = append(out, fmt.Sprintf("%s%s %s, limit %s (%s)", where, j.Name, value, thresholds[i].wanted(j.Verdict), thresholds[i].Short))
			}
		}
	}
	for i, text := range out {
		if names := doubts[text]; names != nil {
			out[i] = where + strings.Join(names, " and ") + ": " + text
		}
	}
	if len(m.Verdict) > 0 {
		return out
	}
	for _, r := range m.Results[:min(len(m.Results), 3)] {
		out = append(out, where+r.Name+" "+h.Figure(prefix+figureName(r.Name+" "+strings.ReplaceAll(r.Unit, "/", " per ")), r.Value, r.Unit))
	}
	return out
}

// figureName converts words to the name of a figure: stream_read_mib_per_s.
func figureName(words string) string {
	return strings.Join(strings.FieldsFunc(strings.ToLower(words), func(c rune) bool { return (c < 'a' || c > 'z') && (c < '0' || c > '9') }), "_")
}

// widest returns the repeated measurement with the largest spread, or nil.
func (e *Evidence) widest() (worst *Result) {
	for i := range e.Places {
		for j := range e.Places[i].Results {
			if r := &e.Places[i].Results[j]; len(r.Samples) > 1 && (worst == nil || r.Spread > worst.Spread) {
				worst = r
			}
		}
	}
	return worst
}

// Next returns the recommended next measurement and the arguments of that call, if the result is
// incomplete or poor.
func (e *Evidence) Next() (string, []string) {
	call := []string{"bench", "disk"}
	var dirs []string
	for _, p := range e.Places {
		dirs = append(dirs, p.Directory)
	}
	switch {
	case e.Cut != nil:
		return "to measure all tests:", append(call, dirs...)
	case e.Verdict == NoVerdict && e.Plan.Mode == Quick:
		return "for a verdict, measure longer and on a quiet machine:", append(append(call, "--full"), dirs...)
	case e.Plan.Mode == Quick && e.Verdict != Pass:
		return "to measure the speed during minutes of writing:", append(append(call, "--sustained"), dirs...)
	}
	return "", nil
}
