package logs

import (
	"fmt"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

// headline returns the headline of a report: where the time went, the requests, and what
// limits the figures. If much was not read, that comes first.
func headline(r *Report) (h ui.Headline) {
	unread := notRead(&h, "", &r.Unread, r.lines())
	much := r.Unread.much(r.lines())
	if much {
		h.Line("%s", unread+r.Unread.looks())
		unread = ""
	}
	if r.Requests == 0 {
		left, lines := "", readAs(r.Logs)
		if r.LeftOut > 0 {
			left = h.Count("left_out", int(r.LeftOut), "request") + " left out by options"
		}
		if r.lines() == 0 {
			lines = "" // without lines the format is irrelevant
		}
		h.Value("requests", 0, "")
		h.Line("no requests%s", behind(left, unread, lines))
		return h
	}
	if g := r.WentTo; g != nil && g.Share != nil {
		h.Line("%s", wentTo(&h, g))
	}
	if g := r.MostAsked; g != nil && g.MeanS != nil && !much {
		h.Line("%s", mostAsked(&h, r, g))
	}
	h.Line("%s%s", requested(&h, r), behind(unread, readAs(r.Logs)))
	return h
}

// behind joins the non-empty parts of a line with semicolons.
func behind(parts ...string) (out string) {
	for _, p := range parts {
		if p != "" {
			out += "; " + p
		}
	}
	return out
}

// wentTo describes the group with the most time.
func wentTo(h *ui.Headline, g *Group) string {
	count := h.Count("went_to_requests", int(g.Count), "request")
	if g.Untimed > 0 {
		count += fmt.Sprintf(", the %s with a duration", unit.Thousands(g.Count-uint64(g.Untimed)))
	}
	return fmt.Sprintf("%s of the time, %s, went to %s: %s of %s%s",
		h.Value("went_to_share_percent", 100**g.Share, sharePercent(*g.Share)), h.Value("went_to_total_s", g.TotalS, unit.FormatSeconds(g.TotalS)), keyed(g.Key),
		count, h.Value("went_to_mean_s", *g.MeanS, unit.FormatSeconds(*g.MeanS)), onAverage(g.Count))
}

// mostAsked describes the group with the most requests.
func mostAsked(h *ui.Headline, r *Report, g *Group) string {
	length := ""
	if r.First != nil {
		length = " in " + unit.FormatSeconds(r.SpanS)
	}
	share := float64(g.Count) / float64(r.Requests)
	return fmt.Sprintf("%s of the requests, %s, were for %s: %s of work%s, %s%s",
		h.Value("most_asked_share_percent", 100*share, sharePercent(share)), h.Count("most_asked_requests", int(g.Count), ""), keyed(g.Key),
		h.Value("most_asked_total_s", g.TotalS, unit.FormatSeconds(g.TotalS)), length,
		h.Value("most_asked_mean_s", *g.MeanS, unit.FormatSeconds(*g.MeanS)), onAverage(g.Count))
}

// onAverage returns the qualifier of the mean duration of n requests.
func onAverage(n uint64) string {
	if n == 1 {
		return ""
	}
	return " each on average"
}

// requested describes all requests: number, period and durations.
func requested(h *ui.Headline, r *Report) string {
	all := h.Count("requests", int(r.Requests), "request")
	if r.First == nil {
		all += " (the logs have no times)"
	} else {
		all += fmt.Sprintf(" from %s to %s (%s)", clock(r, r.First), clock(r, r.Last), h.Value("span_s", r.SpanS, unit.FormatSeconds(r.SpanS)))
	}
	if r.All.MeanS != nil {
		all += fmt.Sprintf(", %s in total", h.Value("total_s", r.All.TotalS, unit.FormatSeconds(r.All.TotalS)))
	}
	if n := r.All.Errors; n > 0 {
		all += ", " + h.Count("errors", int(n), "error")
	}
	if n := r.All.Untimed; n > 0 && r.All.MeanS != nil {
		all += fmt.Sprintf("; %s without a duration", h.Count("untimed", int(n), ""))
	}
	return all
}

// sharePercent formats a share with at most one decimal, as the tables do. It prints 0 or 100
// only for exact values.
func sharePercent(share float64) string {
	switch p := 100 * share; {
	case p > 0 && p < 0.1:
		return "< 0.1 %"
	case p > 99.9 && p < 100:
		return "> 99.9 %"
	default:
		return unit.Decimals(p, 1) + " %"
	}
}

// lines returns the number of all lines.
func (r *Report) lines() uint64 { return r.Requests + r.LeftOut + r.OtherLines + r.Unread.Lines }

// muchUnread is the share of unread lines above which fettle looks for another format.
const muchUnread = 0.05

// much reports whether the share of lines that were not read is at least muchUnread.
func (u *UnreadLines) much(all uint64) bool {
	return u.Lines > 0 && float64(u.Lines) >= muchUnread*float64(all)
}

// MuchUnread reports whether so many lines are unread that another format is likely.
func (r *Result) MuchUnread() bool {
	return r.Unread.much(r.Requests + r.Left + r.Others + r.Unread.Lines)
}

// notRead describes the unread lines among all lines, or returns "". prefix is the prefix of
// the figures' names.
func notRead(h *ui.Headline, prefix string, u *UnreadLines, all uint64) string {
	if u.Lines == 0 {
		return ""
	}
	share := float64(u.Lines) / float64(all)
	return fmt.Sprintf("%s of %s (%s) not read", h.Count(prefix+"unread_lines", int(u.Lines), ""), h.Count(prefix+"lines", int(all), "line"),
		h.Value(prefix+"unread_percent", 100*share, sharePercent(share)))
}

// looks describes the format of the unread lines, if known. It omits a long --format: the
// command after it contains the format.
func (u *UnreadLines) looks() string {
	switch {
	case u.LooksLike == "":
		return ""
	case u.Format == "" || strings.Contains(u.Format, " "):
		return "; they look like " + u.LooksLike
	}
	return "; they look like " + u.LooksLike + ": --format " + u.Format
}

// readAs describes formats of logs, the sources and units of durations, and guesses.
func readAs(read []LogRead) string {
	var all, guessed []string
	for _, l := range read {
		if f := l.format(", "); !slices.Contains(all, f) {
			all = append(all, f)
		}
		if g := plainGuess(l.Guessed); g != "" && !slices.Contains(guessed, g) {
			guessed = append(guessed, g)
		}
	}
	out := ""
	switch n := len(all); {
	case n == 1:
		out = "format: " + all[0]
	case n > 1 && n <= 3:
		out = "formats: " + strings.Join(all, "; ")
	case n > 3:
		out = text.Count(n, "format")
	}
	if len(guessed) > 0 {
		out += " (guessed: " + strings.Join(guessed, "; ") + ")"
	}
	return out
}

// format describes the format of a log with the source and unit of the duration.
func (l *LogRead) format(separator string) string {
	if l.DurationUnit == "" {
		return l.Format
	}
	return l.Format + separator + l.Duration + " in " + l.DurationUnit
}

// plainGuess converts guesses from clauses with "that" to sentences.
func plainGuess(guessed string) string {
	return strings.ReplaceAll(strings.TrimPrefix(guessed, "that "), ", that ", "; ")
}
