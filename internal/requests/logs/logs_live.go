package logs

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

// LiveScreen renders followed logs in width columns and height lines: a headline, the latest
// requests, and as many groups as fit.
func LiveScreen(r *Report, followed time.Duration, width, height int) string {
	var b bytes.Buffer
	say := func(format string, args ...any) { fmt.Fprintln(&b, ui.Printable(text.Sprintf(format, args...))) }
	say("following %s for %s; stop with Ctrl-C to print the report", followedLogs(r), unit.FormatSeconds(followed.Round(time.Second).Seconds()))
	for _, l := range r.Headline.Lines {
		if text := []rune(l); width > 0 && len(text) > width {
			l = string(text[:width-1]) + "…"
		}
		say("%s", l)
	}
	lines := 1 + len(r.Headline.Lines)
	if n := len(r.Busy.Minutes); n > 0 {
		m := r.Busy.Minutes[n-1]
		say("since %s: %s, %s, %s in progress on average", m.Start.UTC().Format(time.TimeOnly)+zone(r),
			text.CountPlural(m.Requests, "request", "requests"), text.CountPlural(m.Errors, "error", "errors"), decimal(m.Busy))
		lines++
	}
	notes := notes(r, 0)
	if len(notes) > 0 {
		lines++
	}
	room := height - lines
	// Each grouping also needs an empty line and a header. The slowest requests get the other
	// lines, on a large enough terminal at least three.
	slowest := 0
	if room >= 6*len(r.By)+5 && len(r.Slowest) > 0 {
		slowest = 5
	}
	for i := range r.By {
		if room-slowest < 3 {
			break
		}
		rows := max(1, (room-slowest)/(len(r.By)-i)-2)
		shown := min(rows, room-2)
		if r.By[i].Groups > shown {
			shown = max(shown-1, 1)
		}
		g := grouping(r, &r.By[i], shown)
		if more := r.By[i].Groups - len(g.Rows); more > 0 && rows > 1 {
			g.Rows = append(g.Rows, append([]string{text.Sprintf("(%d more)", more)}, make([]string, len(g.Columns)-1)...))
		}
		fmt.Fprintln(&b)
		WriteKeyed(&ui.Screen{Out: &b, Format: ui.Table, Width: width}, g)
		room -= 2 + len(g.Rows)
	}
	if len(r.Slowest) > 0 && room >= 3 {
		fmt.Fprintln(&b)
		g := ui.Grid{Columns: ui.Columns("slowest", "arrived", "line")}
		for _, l := range r.Slowest[:min(len(r.Slowest), room-2)] {
			g.Rows = append(g.Rows, []string{unit.FormatSeconds(l.TookS), l.Time.UTC().Format(time.TimeOnly) + zone(r), l.Line})
		}
		g.Write(&ui.Screen{Out: &b, Format: ui.Table})
		room -= 2 + len(g.Rows)
	}
	if len(notes) > 0 {
		b.WriteString(strings.Repeat("\n", max(0, room)))
		say("%s", notes[0])
	}
	return b.String()
}

func followedLogs(r *Report) string {
	if len(r.Logs) == 1 {
		return r.Logs[0].Path
	}
	return text.Count(len(r.Logs), "log")
}
