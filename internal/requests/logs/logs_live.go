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

// LiveScreen renders followed logs in width columns and height lines: where the time went, the
// latest requests, and as many groups as fit.
func LiveScreen(r *Report, followed time.Duration, width, height int) string {
	var b bytes.Buffer
	say := func(format string, args ...any) { fmt.Fprintln(&b, ui.Printable(fmt.Sprintf(format, args...))) }
	say("following %s for %s; Ctrl-C ends it and prints the report", followedLogs(r), unit.FormatSeconds(followed.Round(time.Second).Seconds()))
	for _, l := range wentTo(r) {
		say("%s", l)
	}
	lines := 1 + len(wentTo(r))
	if n := len(r.Busy.Minutes); n > 0 {
		m := r.Busy.Minutes[n-1]
		say("since %s: %s requests, %s errors, %.1f in progress on average", m.Start.UTC().Format(time.TimeOnly)+zone(r), text.Thousands(m.Requests), text.Thousands(m.Errors), m.Busy)
		lines++
	}
	notes := notes(r)
	if len(notes) > 0 {
		lines++
	}
	room := height - lines
	// Each grouping also takes an empty line and a head. The slowest requests get the rest,
	// and on a large enough terminal at least three lines.
	slowest := 0
	if room >= 6*len(r.By)+5 && len(r.Slowest) > 0 {
		slowest = 5
	}
	for i := range r.By {
		if room-slowest < 3 {
			break
		}
		rows := max(1, (room-slowest)/(len(r.By)-i)-2)
		g := liveGrouping(r, &r.By[i], min(rows, room-2), width)
		fmt.Fprintln(&b)
		g.Write(&ui.Screen{Out: &b, Format: ui.Table})
		room -= 2 + len(g.Rows)
	}
	if len(r.Slowest) > 0 && room >= 3 {
		fmt.Fprintln(&b)
		g := ui.Grid{Columns: ui.Columns("slowest", "came", "line")}
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
	return fmt.Sprintf("%d logs", len(r.Logs))
}

// leastKey is the minimum width of a group's key.
const leastKey = 16

// liveGrouping returns the first groups of a grouping with their most volatile figures.
func liveGrouping(r *Report, by *Grouping, rows, width int) ui.Grid {
	g := ui.Grid{Columns: ui.Columns(strings.Join(by.By, ", "), "requests", "per second", "errors")}
	timed := r.All.MeanS != nil
	if timed {
		g.Columns = append(g.Columns, ui.Columns("share", "mean")...)
		if r.All.QuantilesS != nil {
			g.Columns = append(g.Columns, ui.Columns("p50", "p99")...)
		}
		g.Columns = append(g.Columns, ui.Columns("max")...)
	}
	for i := range by.Top[:min(len(by.Top), rows)] {
		x := &by.Top[i]
		row := []string{ui.Printable(keyed(x.Key)), fmt.Sprint(x.Count), rate(x), fmt.Sprint(x.Errors)}
		if timed {
			row = append(row, x.share(), text.SecondsOrDash(x.MeanS))
			if r.All.QuantilesS != nil {
				row = append(row, x.quantile("p50"), x.quantile("p99"))
			}
			row = append(row, text.SecondsOrDash(x.MaxS))
		}
		g.Rows = append(g.Rows, row)
	}
	room := width
	for c := 1; c < len(g.Columns); c++ {
		widest := len(g.Columns[c].Head)
		for _, row := range g.Rows {
			widest = max(widest, len(row[c]))
		}
		room -= 2 + widest
	}
	for _, row := range g.Rows {
		if name := []rune(row[0]); len(name) > max(leastKey, room) {
			row[0] = string(name[:max(leastKey, room)-1]) + "…"
		}
	}
	if more := by.Groups - len(g.Rows); more > 0 && len(g.Rows) > 1 {
		g.Rows[len(g.Rows)-1] = append([]string{fmt.Sprintf("(%d more)", more+1)}, make([]string, len(g.Columns)-1)...)
	}
	return g
}
