package logs

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"sync"

	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

//go:embed logs.html
var logsPage string

var logsTemplate = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("logs").Funcs(template.FuncMap{
		"text": func(s string) string { return ui.Line(strings.ToValidUTF8(s, "\ufffd")) },
		"long": unit.FormatSeconds,
	}).Parse(logsPage))
})

// logsPageOf is the content of a page without external resources and scripts, for light and
// dark screens and paper.
type logsPageOf struct {
	First       string
	NotWhole    []string
	Rest, Notes []string
	Tables      []logsTable
	Chart       string
	Most, Step  string
	From, To    string
	Slowest     []SlowLine
	Logs        [][]string
}

// logsTable is a table with bars behind the names.
type logsTable struct {
	Name string
	Head []string
	Rows []logsRow
}

type logsRow struct {
	Part  float64 // percentage of the total time: length of the bar
	Cells []string
}

// add adds a table. group returns the group of a row, or nil.
func (p *logsPageOf) add(name string, g ui.Grid, group func(row int) *Group) {
	t := logsTable{Name: name, Head: g.Heads()}
	for i, cells := range g.Rows {
		part := 0.0
		if of := group(i); of != nil && of.Share != nil {
			part = 100 * *of.Share
		}
		t.Rows = append(t.Rows, logsRow{part, cells})
	}
	p.Tables = append(p.Tables, t)
}

// inList returns groups by index, or nil.
func inList(groups []Group) func(int) *Group {
	return func(i int) *Group {
		if i < len(groups) {
			return &groups[i]
		}
		return nil
	}
}

// HTML writes a report as one page.
func HTML(w io.Writer, r *Report) error {
	said := slices.Concat(r.Headline.Lines, NoUnit(r.Logs))
	first := min(1, len(said))
	page := logsPageOf{First: strings.Join(said[:first], ""), NotWhole: NotWhole(r.Logs, r.NotRead), Rest: said[first:], Notes: append(notes(r, mostExamples), Times(r)...), Slowest: r.Slowest, Logs: logRows(r.Logs)}
	for i := range r.By {
		page.add("By "+strings.Join(r.By[i].By, " and "), grouping(r, &r.By[i], len(r.By[i].Top)), inList(r.By[i].Top))
	}
	if len(r.Hours) > 1 {
		page.add("By hour", hours(r), inList(r.Hours))
	}
	if m := r.Busy.Minutes; len(m) > 1 && r.All.MeanS != nil {
		page.Chart, page.Most = chart(m, r.Busy.MinuteS)
		page.Step, page.From, page.To = unit.FormatSeconds(r.Busy.MinuteS), clock(r, &m[0].Start), clock(r, &m[len(m)-1].Start)
	}
	return logsTemplate().Execute(w, page)
}

// ComparisonHTML writes a comparison as one page. Bars show the groups' shares of time after.
func ComparisonHTML(w io.Writer, c *Comparison) error {
	said := c.Headline.Lines
	page := logsPageOf{First: said[0], NotWhole: comparedNotWhole(c), Rest: said[1:], Notes: comparedNotes(c)}
	page.add("By "+strings.Join(c.By, " and "), comparedGroups(c, len(c.Groups)), func(i int) *Group {
		if i < len(c.Groups) {
			return c.Groups[i].After
		}
		return nil
	})
	page.Logs = append(page.Logs, comparedLogs(c, true).Rows...)
	return logsTemplate().Execute(w, page)
}

// mostPoints limits the points of a line; more would exceed the pixels of a screen.
const mostPoints = 2000

// chart returns the path of the requests in progress, 1000 wide and 100 high, and the value at
// the top. Minutes without requests are at 0.
func chart(minutes []Minute, step float64) (path, top string) {
	most := 0.0
	for _, m := range minutes {
		most = max(most, m.Busy)
	}
	first, last := minutes[0].Start, minutes[len(minutes)-1].Start
	span := last.Sub(first).Seconds()
	if most == 0 || span == 0 {
		return "", ""
	}
	// If several minutes share a point, the busiest counts.
	width := max(1, int(span/step/mostPoints)+1)
	var b strings.Builder
	at, high, x := -1, 0.0, 0.0
	point := func(x, busy float64) {
		verb := 'L'
		if b.Len() == 0 {
			verb = 'M'
		}
		fmt.Fprintf(&b, "%c%.1f %.1f", verb, x, 100-100*busy/most)
	}
	for _, m := range minutes {
		n := int(m.Start.Sub(first).Seconds()/step) / width
		if n != at {
			if at >= 0 {
				point(x, high)
				if n > at+1 { // nothing in between
					point(x, 0)
					point(1000*m.Start.Sub(first).Seconds()/span, 0)
				}
			}
			at, high = n, 0
		}
		high = max(high, m.Busy)
		x = 1000 * m.Start.Sub(first).Seconds() / span
	}
	point(x, high)
	return b.String(), ui.Digits(most)
}
