package logs

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"fettle.dev/fettle/internal/logformat"
	"fettle.dev/fettle/internal/requests/source"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/unit"
)

// NotWhole lists the data that could not be read. It is printed before all figures.
func NotWhole(read []LogRead, left []source.NotRead) []string {
	var out []string
	for _, l := range read {
		if l.Cut != "" {
			out = append(out, fmt.Sprintf("incomplete: %s could not be read to its end (%s); only the requests before this point count", l.Path, l.Cut))
		}
	}
	for _, l := range left {
		out = append(out, fmt.Sprintf("incomplete: %s could not be read (%s); requests in this file do not count", l.Path, l.Why))
	}
	return out
}

// mostTimes is the maximum number of logs that Times lists.
const mostTimes = 5

// Times warns if the logs cover different periods, because rates refer to the whole period.
func Times(r *Report) []string {
	limits := func(l *LogRead) string {
		var out []string
		for _, x := range []struct {
			word string
			at   time.Time
		}{{"since ", l.Since}, {"until ", l.Until}} {
			if !x.at.IsZero() {
				out = append(out, x.word+x.at.UTC().Format(time.DateTime)+"Z")
			}
		}
		if len(out) == 0 {
			return "without limits"
		}
		return strings.Join(out, " ")
	}
	var each []string
	for i := range r.Logs {
		if text := limits(&r.Logs[i]); !slices.Contains(each, text) {
			each = append(each, text)
		}
	}
	if len(each) < 2 {
		return nil
	}
	each = each[:0]
	for i := range r.Logs {
		if text := r.Logs[i].Path + " " + limits(&r.Logs[i]); !slices.Contains(each, text) {
			each = append(each, text)
		}
	}
	if n := len(each) - mostTimes; n > 0 {
		each = append(each[:mostTimes], text.Sprintf("and %d more", n))
	}
	return []string{"the logs cover different periods: " + strings.Join(each, ", ") + "; rates refer to the whole period"}
}

// notes lists unread data and reasons to doubt the figures. examples limits the printed examples.
func notes(r *Report, examples int) (out []string) {
	say := func(format string, args ...any) { out = append(out, text.Sprintf(format, args...)) }
	if n := r.Unread.Lines; n > 0 {
		list := r.Unread.Examples[:min(len(r.Unread.Examples), examples)]
		end := ""
		if len(list) > 0 {
			end = ", for example:"
		}
		say("%s could not be read%s", text.CountPlural(n, "line", "lines"), end)
		for _, e := range list {
			where := e.Path
			if e.Line > 0 {
				where += fmt.Sprintf(":%d", e.Line)
			}
			say("  %s: %s", where, e.Text)
		}
		if r.Unread.TooLong > 0 {
			say("%s longer than 1 MiB", text.CountPlural(r.Unread.TooLong, "line is", "lines are"))
		}
	}
	for _, l := range r.Logs {
		if l.ZeroBytes > 0 {
			say("%s: skipped %s zero bytes: the log was truncated while its server kept writing, or padded", l.Path, unit.Thousands(uint64(l.ZeroBytes)))
		}
	}
	if r.OtherLines > 0 {
		say("%s not requests", text.CountPlural(r.OtherLines, "line is", "lines are"))
	}
	if r.LeftOut > 0 {
		say("%s left out by options", text.CountPlural(r.LeftOut, "request was", "requests were"))
	}
	if r.Unended > 0 {
		say("%s whose end is in no log", text.CountPlural(uint64(r.Unended), "request began", "requests began"))
	}
	if r.Unbegun > 0 {
		say("%s whose beginning is in no log", text.CountPlural(uint64(r.Unbegun), "request ended", "requests ended"))
	}
	if zone(r) != "" {
		for _, l := range r.Logs {
			if l.NoZone {
				say("%s: its times have no zone and are taken as UTC", l.Path)
			}
		}
	}
	if m := r.All.MeanS; m != nil && r.First != nil && r.Requests >= enoughToDoubt && *m > r.SpanS {
		say("requests took %s on average, but all arrived within %s; check the unit, and set it with --unit", unit.FormatSeconds(*m), unit.FormatSeconds(r.SpanS))
	}
	for _, by := range r.By {
		switch {
		case by.Missing != nil:
			say("%s: more groups than --groups; the rarest (%s) are summed as other, and each group shown may lack up to %s; raise --groups",
				strings.Join(by.By, ", "), text.CountPlural(by.Folded.Count, "request", "requests"), text.CountPlural(by.Missing.Requests, "request", "requests"))
		case by.Folded != nil:
			say("%s: %s with a key of more than 256 KiB, summed as other", strings.Join(by.By, ", "), text.CountPlural(by.Folded.Count, "request", "requests"))
		}
	}
	if r.All.MeanS == nil && r.Requests > 0 && len(NoUnit(r.Logs)) == 0 {
		say("the logs have no durations of requests; %s", addDuration(r.Logs))
	}
	return out
}

// addDuration describes how the server of the logs records durations.
func addDuration(read []LogRead) string {
	has := func(is func(l LogRead) bool) bool { return slices.ContainsFunc(read, is) }
	switch {
	case has(func(l LogRead) bool { return l.Format == logformat.JSONLines }):
		return "use --duration MEMBER --unit ms to name the member of the JSON lines"
	case has(func(l LogRead) bool { return strings.HasPrefix(l.FormatText, "apache:pulp") }):
		return "add %(D)s to gunicorn's --access-logformat"
	case has(func(l LogRead) bool { return strings.HasPrefix(l.FormatText, "nginx") }):
		return "add $request_time to nginx' log_format"
	case has(func(l LogRead) bool { return strings.HasPrefix(l.FormatText, "apache") }):
		return "add %D to Apache's LogFormat"
	}
	return "add them to the server's log format"
}

// enoughToDoubt is the minimum number of requests for reporting an implausible mean.
const enoughToDoubt = 100
