package report

import (
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"fettle.dev/fettle/internal/logs"
	"fettle.dev/fettle/internal/logs/format"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

// Logs prints what request logs say: where the time went first.
func Logs(s *ui.Screen, r *logs.Report) {
	say := func(format string, args ...any) { fmt.Fprintln(s.Out, ui.Printable(fmt.Sprintf(format, args...))) }
	for _, l := range append(cuts(r), wentTo(r)...) {
		say("%s", l)
	}
	for i := range r.By {
		fmt.Fprintln(s.Out)
		g := grouping(r, &r.By[i])
		g.Write(s)
	}
	if b := r.Busy; b.Minute != nil && r.All.MeanS != nil {
		fmt.Fprintln(s.Out)
		g := Grid{Head: []string{"at work at a time", "requests", "when"}}
		g.Rows = append(g.Rows, []string{"mean", fmt.Sprintf("%.1f", b.Mean), ""})
		if b.MostAt != nil {
			g.Rows = append(g.Rows, []string{"most, over " + unit.FormatSeconds(b.StepS), fmt.Sprintf("%.1f", b.Most), clock(r, b.MostAt)})
		}
		g.Rows = append(g.Rows, []string{"busiest " + unit.FormatSeconds(b.MinuteS), fmt.Sprintf("%.1f, %d came", b.Minute.Busy, b.Minute.Requests), clock(r, &b.Minute.Start)})
		g.Write(s)
	}
	if len(r.Hours) > 1 && r.All.MeanS != nil {
		fmt.Fprintln(s.Out)
		g := hours(r)
		if n := len(g.Rows); n > mostHours {
			left := make([]string, len(g.Head))
			left[0] = fmt.Sprintf("(%d more hours)", n-mostHours)
			g.Rows = append(append(g.Rows[:mostHours/2:mostHours/2], left), g.Rows[n-mostHours/2:]...)
		}
		g.Write(s)
	}
	if len(r.Slowest) > 0 {
		fmt.Fprintln(s.Out)
		g := Grid{Head: []string{"slowest", "came", "line"}}
		for _, l := range r.Slowest {
			g.Rows = append(g.Rows, []string{unit.FormatSeconds(l.TookS), clock(r, &l.Time), l.Line})
		}
		g.Write(s)
	}
	fmt.Fprintln(s.Out)
	g := Grid{Head: []string{"log", "format", "why"}}
	for _, l := range r.Logs {
		f := l.Format
		if l.DurationUnit != "" {
			f += "; " + l.Duration + " in " + l.DurationUnit
		}
		g.Rows = append(g.Rows, []string{l.Path, f, l.Why})
	}
	g.Write(s)
	for _, n := range notes(r) {
		s.Say("%s", n)
	}
}

// zone stands behind the times of logs: Z, which is UTC, unless no log says its zone and
// the times are what the server's clock showed. --since takes both as they are printed.
func zone(r *logs.Report) string {
	for _, l := range r.Logs {
		if !l.NoZone {
			return "Z"
		}
	}
	return ""
}

// clock is a time of logs with its zone.
func clock(r *logs.Report, t *time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.DateTime) + zone(r)
}

// mostHours is how many hours are shown one by one: of a long log the first and the last.
const mostHours = 26

// hours is the table of hours.
func hours(r *logs.Report) Grid {
	g := Grid{Head: append([]string{"hour"}, columns(r)...)}
	for i := range r.Hours {
		g.Rows = append(g.Rows, append([]string{r.Hours[i].Key[0] + zone(r)}, values(&r.Hours[i], r)...))
	}
	return g
}

// cuts name the logs that could not be read to their ends, for whom that is to know before
// any figure.
func cuts(r *logs.Report) []string {
	var out []string
	for _, l := range r.Logs {
		if l.Cut != "" {
			out = append(out, fmt.Sprintf("not whole: %s could not be read to its end (%s): its requests before that count, those behind it do not", l.Path, l.Cut))
		}
	}
	return out
}

// wentTo says in words where the time went: the grouping whose first group has most.
func wentTo(r *logs.Report) []string {
	var out []string
	if r.Requests == 0 {
		return []string{"no request"}
	}
	span := ""
	if r.First == nil {
		span = " (the logs do not say when)"
	} else {
		span = fmt.Sprintf(" from %s to %s (%s)", clock(r, r.First), clock(r, r.Last), unit.FormatSeconds(r.SpanS))
	}
	if g := r.WentTo; g != nil && g.Share != nil {
		out = append(out, fmt.Sprintf("%.0f %% of the time, %s, went to %s: %s requests of %s each on average",
			100**g.Share, unit.FormatSeconds(g.TotalS), keyed(g.Key), thousands(g.Count), unit.FormatSeconds(*g.MeanS)))
	}
	all := fmt.Sprintf("%s requests%s", thousands(r.Requests), span)
	if r.All.MeanS != nil {
		all += fmt.Sprintf(", %s of work in all", unit.FormatSeconds(r.All.TotalS))
	}
	return append(out, all)
}

// keyed is a group's key for a person; a part that has blanks is in quotes beside others.
func keyed(key []string) string {
	var words []string
	for _, k := range key {
		switch {
		case k == "":
			k = "-"
		case len(key) > 1 && strings.ContainsAny(k, ` "`):
			k = strconv.Quote(k)
		default:
			k = legible(k)
		}
		words = append(words, k)
	}
	return strings.Join(words, " ")
}

// exactly is a group's key so that no two are the same: in quotes are parts that begin with
// one or have what cannot be printed, and of several those that are empty or have blanks.
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

// legible writes control characters as \xhh: clients that speak TLS to a port without it
// send them as requests.
func legible(text string) string {
	if strings.IndexFunc(text, unicode.IsControl) < 0 {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if unicode.IsControl(r) {
			fmt.Fprintf(&b, `\x%02x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// columns are the heads of a group's statistics.
func columns(r *logs.Report) []string {
	if r.All.MeanS == nil {
		return []string{"requests", "per second", "errors"}
	}
	out := []string{"requests", "per second", "errors", "total", "share", "mean", "std.dev", "min", "max"}
	if r.All.QuantilesS != nil {
		out = append(out, "p50", "p90", "p95", "p99", "p99.9")
	}
	return out
}

func values(g *logs.Group, r *logs.Report) []string {
	rate := "-"
	if r.First != nil {
		rate = fmt.Sprintf("%.3g", g.RatePerS)
	}
	out := []string{fmt.Sprint(g.Count), rate, fmt.Sprint(g.Errors)}
	if r.All.MeanS == nil {
		return out
	}
	out = append(out, unit.FormatSeconds(g.TotalS))
	if g.Share == nil {
		out = append(out, "-")
	} else {
		out = append(out, fmt.Sprintf("%.1f %%", 100**g.Share))
	}
	for _, v := range []*float64{g.MeanS, g.DeviationS, g.MinS, g.MaxS} {
		if v == nil {
			out = append(out, "-")
		} else {
			out = append(out, unit.FormatSeconds(*v))
		}
	}
	if r.All.QuantilesS != nil {
		for _, q := range []string{"p50", "p90", "p95", "p99", "p99.9"} {
			if v, ok := g.QuantilesS[q]; ok {
				out = append(out, unit.FormatSeconds(v))
			} else {
				out = append(out, "-")
			}
		}
	}
	return out
}

// grouping is the table of a grouping.
func grouping(r *logs.Report, by *logs.Grouping) Grid {
	g := Grid{Head: append([]string{strings.Join(by.By, ", ")}, columns(r)...)}
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
		for len(g.Rows[i]) < len(g.Head) {
			g.Rows[i] = append(g.Rows[i], "")
		}
	}
	return g
}

// notes are what was not read, and why figures may be other than they seem.
func notes(r *logs.Report) (out []string) {
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if n := r.Unread.Lines; n > 0 {
		say("%s lines could not be read", thousands(n))
		for _, e := range r.Unread.Examples {
			where := e.Path
			if e.Line > 0 {
				where += fmt.Sprintf(":%d", e.Line)
			}
			say("  %s: %s", where, e.Text)
		}
		if r.Unread.TooLong > 0 {
			say("  %d of them are longer than 1 MiB", r.Unread.TooLong)
		}
	}
	if r.LeftOut > 0 {
		say("%s requests were left out, as asked", thousands(r.LeftOut))
	}
	if r.Unended > 0 {
		say("%d requests began and did not end", r.Unended)
	}
	if r.Unbegun > 0 {
		say("%d requests ended whose beginning is in no log", r.Unbegun)
	}
	if zone(r) != "" {
		for _, l := range r.Logs {
			if l.NoZone {
				say("%s: its times have no zone, and stand among the others' as if they were UTC", l.Path)
			}
		}
	}
	for _, by := range r.By {
		if by.Folded != nil {
			say("%s: more than %d groups: %s requests of further ones are added up as one; --groups allows more", strings.Join(by.By, ", "), by.Groups, thousands(by.Folded.Count))
		}
	}
	if r.All.MeanS == nil && r.Requests > 0 {
		how := "Apache's %D, nginx' $request_time would"
		if slices.ContainsFunc(r.Logs, func(l logs.LogRead) bool { return l.Format == format.JSONLines }) {
			how = "--duration MEMBER --unit ms names the member of JSON lines that would"
		}
		say("the logs do not say how long requests took: %s", how)
	}
	return out
}

// thousands writes a count with commas.
func thousands(n uint64) string {
	text := strconv.FormatUint(n, 10)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// LogsCSV writes the groups of all groupings as one table. A text that a spreadsheet
// would take for a formula gets an apostrophe in front.
func LogsCSV(w io.Writer, r *logs.Report) error {
	c := csv.NewWriter(w)
	_ = c.Write([]string{"by", "key", "count", "rate_per_s", "errors", "total_s", "share", "mean_s", "deviation_s", "min_s", "max_s", "p50_s", "p90_s", "p95_s", "p99_s", "p99.9_s"})
	number := func(v *float64) string {
		if v == nil {
			return ""
		}
		return strconv.FormatFloat(*v, 'g', -1, 64)
	}
	for _, by := range r.By {
		for _, g := range by.Top {
			row := []string{strings.Join(by.By, ","), plain(keyed(g.Key)), fmt.Sprint(g.Count), number(&g.RatePerS), fmt.Sprint(g.Errors), number(&g.TotalS), number(g.Share), number(g.MeanS), number(g.DeviationS), number(g.MinS), number(g.MaxS)}
			for _, q := range []string{"p50", "p90", "p95", "p99", "p99.9"} {
				if v, ok := g.QuantilesS[q]; ok {
					row = append(row, number(&v))
				} else {
					row = append(row, "")
				}
			}
			_ = c.Write(row)
		}
	}
	c.Flush()
	return c.Error()
}

// plain keeps a spreadsheet from reckoning with a text.
func plain(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) && text != "-" {
		return "'" + text
	}
	return text
}
