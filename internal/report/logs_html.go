package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"
	"sync"

	"fettle.dev/fettle/internal/logs"
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

// LogsHTML writes what logs say as one page that needs nothing else: no script, no
// network, light and dark, and for paper.
func LogsHTML(w io.Writer, r *logs.Report) error {
	type row struct {
		Part  float64 // of the time of all, in percent: the bar behind the name
		Cells []string
	}
	type tableOf struct {
		Name string
		Head []string
		Rows []row
	}
	said := wentTo(r)
	page := struct {
		Report      *logs.Report
		First       string
		Cuts        []string
		Rest, Notes []string
		Tables      []tableOf
		Chart       string
		Most, Step  string
		From, To    string
	}{Report: r, First: said[0], Cuts: cuts(r), Rest: said[1:], Notes: notes(r)}
	add := func(name string, g Grid, groups []logs.Group) {
		t := tableOf{Name: name, Head: g.Head}
		for i, cells := range g.Rows {
			part := 0.0
			if i < len(groups) && groups[i].Share != nil {
				part = 100 * *groups[i].Share
			}
			t.Rows = append(t.Rows, row{part, cells})
		}
		page.Tables = append(page.Tables, t)
	}
	for i := range r.By {
		add("By "+strings.Join(r.By[i].By, " and "), grouping(r, &r.By[i]), r.By[i].Top)
	}
	if len(r.Hours) > 1 {
		add("By hour", hours(r), r.Hours)
	}
	if m := r.Busy.Minutes; len(m) > 1 && r.All.MeanS != nil {
		page.Chart, page.Most = chart(m, r.Busy.MinuteS)
		page.Step, page.From, page.To = unit.FormatSeconds(r.Busy.MinuteS), clock(r, &m[0].Start), clock(r, &m[len(m)-1].Start)
	}
	return logsTemplate().Execute(w, page)
}

// mostPoints is how many points a line has: more than a screen's pixels are not seen.
const mostPoints = 2000

// chart is the path of how many were at work, over 1000 wide and 100 high, and the number
// at the top. Minutes in which nothing came are at 0.
func chart(minutes []logs.Minute, step float64) (path, top string) {
	most := 0.0
	for _, m := range minutes {
		most = max(most, m.Busy)
	}
	first, last := minutes[0].Start, minutes[len(minutes)-1].Start
	span := last.Sub(first).Seconds()
	if most == 0 || span == 0 {
		return "", ""
	}
	// Of several minutes at one point the busiest is drawn.
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
	return b.String(), fmt.Sprintf("%.3g", most)
}
