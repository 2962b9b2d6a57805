package findings

import (
	"fmt"
	"strings"

	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/ui/page"
)

// tones are the colors of the states.
var tones = map[rule.State]page.Tone{rule.Failed: page.Bad, rule.Warned: page.Warn, rule.Unknown: page.Warn, rule.Passed: page.Good}

// Page prints an audit as a page: headline, counts, a table and a card per bad finding, and a
// table of all other rules.
func Page(s *ui.Screen, a *Audit) {
	a.Conclude()
	p := s.Page
	for _, l := range a.Headline.Lines {
		p.Headline(l)
	}
	p.Headline(fmt.Sprintf("%s (%s), %s", a.Machine, strings.Join(a.Platforms, ", "), a.Time.UTC().Format("2006-01-02 15:04 UTC")))
	if off := a.disabledByCopy(); len(off) > 0 {
		p.Note("Disabled by a rule file in the copy: " + strings.Join(off, ", ") + ".")
	}
	if a.Slow.Answers() {
		for _, l := range a.Slow.Lines() {
			p.Line(l)
		}
	}
	if next := a.next(true); next != "" {
		p.Line("Next: " + next + ".")
	}
	a.shares(p)
	var bad, before []page.Card
	var worse, rest stateTable
	for _, g := range a.fewer(a.groups()) {
		switch {
		case Bad(g.State) && g.Change == Same:
			before = append(before, g.card())
		case Bad(g.State):
			c := g.card()
			c.ID = fmt.Sprintf("finding-%d", len(bad)+1)
			bad = append(bad, c)
			worse.add(&g, c.ID)
		default:
			rest.add(&g, "")
		}
	}
	p.Heading("findings")
	if len(bad) == 0 {
		p.Line("Nothing to do.")
	} else {
		worse.print(p)
		p.Heading("each finding")
	}
	p.Cards(bad)
	for _, l := range a.mended() {
		p.Line(l)
	}
	if len(before) > 0 {
		p.Heading("findings as in the baseline")
		p.Cards(before)
	}
	if len(rest.grid.Rows) > 0 {
		p.Heading("passed, and not for this machine")
		rest.print(p)
	}
}

// stateTable is a table of findings with one row per item.
type stateTable struct {
	grid   ui.Grid
	states []rule.State
	links  []string
}

// add appends the items of a group; link is the ID of its card, or "".
func (t *stateTable) add(g *group, link string) {
	for _, i := range g.Items {
		what, found := g.Heading(), i.Measured
		if i.Instance != "" {
			what += ": " + i.Instance
		}
		if g.Reason != "" {
			found = g.Reason
		}
		sign, _ := findingSign(g.State)
		t.grid.Rows = append(t.grid.Rows, []string{g.ID, sign + " " + string(g.State), what, found})
		t.states, t.links = append(t.states, g.State), append(t.links, link)
	}
}

func (t *stateTable) print(p *page.Page) {
	t.grid.Columns = []ui.Column{{Head: "rule"}, {Head: "state"}, {Head: "what", Cut: true}, {Head: "found", Cut: true}}
	t.grid.Color = func(row, col int) string {
		if _, color := findingSign(t.states[row]); col == 1 {
			return color
		}
		return ""
	}
	table := t.grid.Table("")
	table.Links = t.links
	p.Table(table)
}

// shares draws the number of rules per state.
func (a *Audit) shares(p *page.Page) {
	classes := map[rule.State]string{rule.Failed: "bad", rule.Warned: "warn", rule.Unknown: "s4", rule.Passed: "good"}
	var parts []page.Part
	values := page.Table{Columns: []page.Column{{Head: "state"}, {Head: "rules", Right: true}, {Head: "items", Right: true}}}
	for _, state := range rule.States {
		n := a.RuleCounts[state]
		if n == 0 {
			continue
		}
		class := classes[state]
		if class == "" {
			class = "s0"
		}
		sign, _ := findingSign(state)
		parts = append(parts, page.Part{Name: sign + " " + string(state) + ": " + text.Count(n, "rule"), Class: class, Of: []float64{float64(n)}})
		values.Rows = append(values.Rows, []string{string(state), fmt.Sprint(n), fmt.Sprint(a.Counts[state])})
	}
	if len(parts) > 0 {
		p.Shares(page.Text{Title: "Rules by state", About: "A rule counts once, in the worst of its states; items (disks, keys, units) are judged one by one.", Values: values}, parts)
	}
}

// card returns a finding in full, as a card.
func (g group) card() page.Card {
	c := page.Card{Tone: tones[g.State], Label: string(g.State), Title: g.ID + " · " + g.Heading()}
	if g.State == rule.Unknown {
		c.Tone = page.Soft
	}
	if g.Change != "" {
		c.Label += ", " + string(g.Change)
	}
	fact := func(name string, code bool, lines ...string) {
		if len(lines) > 0 && lines[0] != "" {
			c.Facts = append(c.Facts, page.Fact{Name: name, Lines: lines, Code: code})
		}
	}
	fact("because of", false, g.Because)
	if g.Reason != "" {
		fact("found", false, g.Reasons())
	} else {
		var found []string
		for _, i := range g.Told() {
			found = append(found, i.full())
		}
		fact("found", false, found...)
	}
	fact("why", false, g.Why)
	fact("fix", true, g.Fixes()...)
	fact("source", false, rule.SourceWords(g.Sources))
	return c
}
