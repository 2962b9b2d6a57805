package logs

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

// Print prints a report, beginning with where the time went.
func Print(s *ui.Screen, r *Report) {
	say := func(format string, args ...any) { fmt.Fprintln(s.Out, ui.Printable(fmt.Sprintf(format, args...))) }
	for _, l := range append(NotWhole(r.Logs, r.NotRead), wentTo(r)...) {
		say("%s", l)
	}
	for _, l := range NoUnit(r.Logs) {
		say("%s", l)
	}
	for i := range r.By {
		fmt.Fprintln(s.Out)
		g := grouping(r, &r.By[i])
		g.Write(s)
	}
	if b := r.Busy; b.Minute != nil && r.All.MeanS != nil {
		fmt.Fprintln(s.Out)
		g := ui.Grid{Columns: ui.Columns("at work at a time", "requests", "when")}
		g.Rows = append(g.Rows, []string{"mean, over " + unit.FormatSeconds(max(r.SpanS, b.StepS)), fmt.Sprintf("%.1f", b.Mean), ""})
		if b.MostAt != nil {
			g.Rows = append(g.Rows, []string{"most, over " + unit.FormatSeconds(b.StepS), fmt.Sprintf("%.1f", b.Most), clock(r, b.MostAt)})
		}
		g.Rows = append(g.Rows, []string{"busiest " + unit.FormatSeconds(b.MinuteS), fmt.Sprintf("%.1f, %d came", b.Minute.Busy, b.Minute.Requests), clock(r, &b.Minute.Start)})
		g.Write(s)
	}
	if len(r.Hours) > 1 && r.All.MeanS != nil {
		fmt.Fprintln(s.Out)
		g := hours(r)
		if n := len(g.Rows); n > reportMostHours {
			left := make([]string, len(g.Columns))
			left[0] = fmt.Sprintf("(%d more hours)", n-reportMostHours)
			g.Rows = append(append(g.Rows[:reportMostHours/2:reportMostHours/2], left), g.Rows[n-reportMostHours/2:]...)
		}
		g.Write(s)
	}
	if len(r.Slowest) > 0 {
		fmt.Fprintln(s.Out)
		g := ui.Grid{Columns: ui.Columns("slowest", "came", "line")}
		for _, l := range r.Slowest {
			g.Rows = append(g.Rows, []string{unit.FormatSeconds(l.TookS), clock(r, &l.Time), l.Line})
		}
		g.Write(s)
	}
	fmt.Fprintln(s.Out)
	g := ui.Grid{Columns: ui.Columns("log", "format", "why"), Rows: logRows(r.Logs)}
	g.Write(s)
	for _, n := range notes(r) {
		s.Say("%s", n)
	}
}

// zone returns the suffix of times: Z for UTC, or "" if no log has a zone and the times are
// local to the server. --since accepts both forms.
func zone(r *Report) string {
	for _, l := range r.Logs {
		if !l.NoZone {
			return "Z"
		}
	}
	return ""
}

// clock formats a time with its zone.
func clock(r *Report, t *time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.DateTime) + zone(r)
}

// reportMostHours limits the hours printed: the first and the last of a long log.
const reportMostHours = 26

// hours returns the grid of hours.
func hours(r *Report) ui.Grid {
	g := ui.Grid{Columns: ui.Columns(append([]string{"hour"}, columns(r)...)...)}
	for i := range r.Hours {
		g.Rows = append(g.Rows, append([]string{r.Hours[i].Key[0] + zone(r)}, values(&r.Hours[i], r)...))
	}
	return g
}

// logRows returns the format of each log, and the reason for choosing it.
func logRows(read []LogRead) (rows [][]string) {
	for _, l := range read {
		f := l.Format
		if l.DurationUnit != "" {
			f += "; " + l.Duration + " in " + l.DurationUnit
		}
		rows = append(rows, []string{l.Path, f, l.Why})
	}
	return rows
}

// keyed formats a group's key. If it has several parts, parts with blanks are quoted.
func keyed(key []string) string {
	var words []string
	for _, k := range key {
		switch {
		case k == "":
			k = "-"
		case len(key) > 1 && strings.ContainsAny(k, ` "`):
			k = strconv.Quote(k)
		default:
			k = text.EscapeControls(k)
		}
		words = append(words, k)
	}
	return strings.Join(words, " ")
}

// exactly formats a group's key unambiguously. It quotes parts that begin with a quote or are
// not printable; if the key has several parts, also parts that are empty or contain blanks.
func exactly(key []string) string {
	var words []string
	for _, k := range key {
		odd := func(r rune) bool { return !strconv.IsPrint(r) }
		if strings.HasPrefix(k, `"`) || strings.ContainsFunc(k, odd) || len(key) > 1 && (k == "" || strings.ContainsAny(k, ` "`)) {
			k = strconv.Quote(k)
		}
		words = append(words, k)
	}
	return strings.Join(words, " ")
}

// columns returns the head of a group's figures.
func columns(r *Report) []string {
	if r.All.MeanS == nil {
		return []string{"requests", "per second", "errors"}
	}
	out := []string{"requests", "per second", "errors", "total", "share", "mean", "std.dev", "min", "max"}
	if r.All.QuantilesS != nil {
		out = append(out, "p50", "p90", "p95", "p99", "p99.9")
	}
	return out
}

// rate formats the requests per second, or - if all came at the same time.
func rate(g *Group) string {
	if g.RatePerS == nil {
		return "-"
	}
	return fmt.Sprintf("%.3g", *g.RatePerS)
}

// share formats the share of the total time, or -.
func (g *Group) share() string {
	if g.Share == nil {
		return "-"
	}
	return fmt.Sprintf("%.1f %%", 100**g.Share)
}

// quantile formats a quantile, or -.
func (g *Group) quantile(name string) string {
	if v, ok := g.QuantilesS[name]; ok {
		return unit.FormatSeconds(v)
	}
	return "-"
}

func values(g *Group, r *Report) []string {
	out := []string{fmt.Sprint(g.Count), rate(g), fmt.Sprint(g.Errors)}
	if r.All.MeanS == nil {
		return out
	}
	out = append(out, unit.FormatSeconds(g.TotalS), g.share())
	for _, v := range []*float64{g.MeanS, g.DeviationS, g.MinS, g.MaxS} {
		out = append(out, text.SecondsOrDash(v))
	}
	if r.All.QuantilesS != nil {
		for _, q := range quantiles {
			out = append(out, g.quantile(q.name))
		}
	}
	return out
}

// grouping returns the grid of a grouping.
func grouping(r *Report, by *Grouping) ui.Grid {
	g := ui.Grid{Columns: ui.Columns(append([]string{strings.Join(by.By, ", ")}, columns(r)...)...)}
	for i := range by.Top {
		g.Rows = append(g.Rows, append([]string{keyed(by.Top[i].Key)}, values(&by.Top[i], r)...))
	}
	if n := by.Groups - len(by.Top); n > 0 {
		g.Rows = append(g.Rows, []string{fmt.Sprintf("(%d more)", n)})
	}
	if by.Folded != nil {
		g.Rows = append(g.Rows, append([]string{fmt.Sprintf("(beyond the first %d)", by.Groups)}, values(by.Folded, r)...))
	}
	for i := range g.Rows {
		for len(g.Rows[i]) < len(g.Columns) {
			g.Rows[i] = append(g.Rows[i], "")
		}
	}
	return g
}
