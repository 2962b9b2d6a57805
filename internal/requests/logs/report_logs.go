package logs

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

// mostLines limits the printed lines of a report that shows only some of its groups.
const mostLines = 40

// Limits of such a report.
const (
	fewSlowest  = 3
	fewLogs     = 2
	fewExamples = 2 // of unread lines
)

// Shown selects what Print shows of a report. The zero value shows what fits on a page.
type Shown struct {
	Groups  bool // all groups of the report
	Slowest bool // all slowest requests of the report
}

// Print prints a report: the headline, the next steps, and the figures. With Screen.Wide it
// prints the whole report.
func Print(s *ui.Screen, r *Report, shown Shown) {
	begin, end := *s, *s
	var head, tail bytes.Buffer
	begin.Out, end.Out = &head, &tail
	printIncomplete(&begin, NotWhole(r.Logs, r.NotRead))
	ui.PrintHeadline(&begin, &r.Headline)
	for _, step := range next(s, r) {
		step.print(&begin)
	}
	printBusy(&end, r)
	printSlowest(&end, r, shown.Slowest || s.Wide)
	printLogs(&end, r.Logs)
	examples := fewExamples
	if s.Wide {
		examples = mostExamples
	}
	notes, noteLines := messageLines(s, append(notes(r, examples), Times(r)...))
	rows := make([]int, len(r.By))
	for i := range r.By {
		rows[i] = len(r.By[i].Top)
	}
	if !shown.Groups && !s.Wide {
		rows = Fold(rows, mostLines-height(s, head.Bytes())-height(s, tail.Bytes())-noteLines)
	}
	_, _ = head.WriteTo(s.Out)
	for i := range r.By {
		if r.Requests == 0 {
			break // the headline says so
		}
		fmt.Fprintln(s.Out)
		WriteKeyed(s, grouping(r, &r.By[i], rows[i]))
	}
	printLeft(s, r, rows)
	_, _ = tail.WriteTo(s.Out)
	for _, n := range notes {
		s.Say("%s", n)
	}
}

// height returns the number of screen lines that a text takes.
func height(s *ui.Screen, text []byte) (n int) {
	for line := range bytes.Lines(text) {
		n++
		if s.Width > 0 {
			n += max(utf8.RuneCount(line)-2, 0) / s.Width
		}
	}
	return n
}

// leftLines is the number of lines that report the omitted rows.
const leftLines = 3

// Fold returns the number of shown rows of each table, at least one, so that all tables fit
// into the given number of lines. A table needs two more lines, and three lines report the omitted
// rows. The first table gets the most rows.
func Fold(rows []int, lines int) []int {
	all := 0
	for _, n := range rows {
		lines -= 2
		all += n
	}
	if all <= lines {
		return rows
	}
	lines -= leftLines
	out := make([]int, len(rows))
	for some := true; some; {
		some = false
		for i, n := range rows {
			for k := 0; k < 2-min(i, 1) && out[i] < n && (lines > 0 || out[i] == 0); k++ {
				out[i]++
				lines--
				some = true
			}
		}
	}
	return out
}

// printLeft reports the groups that are not shown, and the option that shows them.
func printLeft(s *ui.Screen, r *Report, rows []int) {
	var left []string
	for i := range r.By {
		if n := r.By[i].Groups - rows[i]; n > 0 {
			left = append(left, fmt.Sprintf("%s of %s by %s", unit.Thousands(uint64(n)), unit.Thousands(uint64(r.By[i].Groups)), strings.Join(r.By[i].By, ", ")))
		}
	}
	if len(left) > 0 {
		sentences(s, "not shown: "+strings.Join(left, "; ")+"; --top 0 shows all groups, --wide all columns")
	}
}

// sentences prints lines after an empty line. On a terminal it wraps them between words.
func sentences(s *ui.Screen, lines ...string) {
	fmt.Fprintln(s.Out)
	var h ui.Headline
	for _, l := range lines {
		h.Line("%s", l)
	}
	ui.PrintHeadline(s, &h)
}

// messageLines returns messages as Say takes them, and the number of lines that they take. On a
// terminal, where Say wraps them, it truncates examples, which begin with spaces.
func messageLines(s *ui.Screen, messages []string) (out []string, lines int) {
	width := s.Width - len("fettle: ")
	for _, m := range messages {
		m = ui.Line(m)
		switch {
		case s.Width == 0 || s.Wide:
		case !strings.HasPrefix(m, " "):
			lines += strings.Count(ui.Wrap(m, width-2), "\n")
		case utf8.RuneCountInString(m) > width:
			m = string([]rune(m)[:max(width-1, 0)]) + "…"
		}
		out = append(out, m)
		lines++
	}
	return out, lines
}

// mostIncomplete is the maximum number of damaged logs that a terminal report begins with.
const mostIncomplete = 2

// printIncomplete prints what could not be read.
func printIncomplete(s *ui.Screen, incomplete []string) {
	if n := len(incomplete) - mostIncomplete; n > 0 && s.Width > 0 && !s.Wide {
		incomplete = append(incomplete[:mostIncomplete:mostIncomplete], fmt.Sprintf("incomplete: also %s; --wide shows the names", text.CountPlural(uint64(n), "file", "files")))
	}
	var h ui.Headline
	for _, l := range incomplete {
		h.Line("%s", l)
	}
	ui.PrintHeadline(s, &h)
}

// printBusy prints the requests in progress, the busiest minute and the busiest hour.
func printBusy(s *ui.Screen, r *Report) {
	var out []string
	if b := r.Busy; b.Minute != nil {
		arrived := unit.Thousands(b.Minute.Requests) + " arrived"
		if r.All.MeanS != nil {
			line := fmt.Sprintf("On average %s requests at a time", decimal(b.Mean))
			if b.MostAt != nil {
				line += fmt.Sprintf("; busiest %s: %s (%s)", period(b.StepS), decimal(b.Most), clock(r, b.MostAt))
			}
			out = append(out, line)
			arrived = decimal(b.Minute.Busy) + " in progress, " + arrived
		}
		out = append(out, fmt.Sprintf("busiest %s: %s (%s)", period(b.MinuteS), arrived, clock(r, &b.Minute.Start)))
	}
	if len(r.Hours) > 1 && !s.Wide {
		h := &r.Hours[0]
		for i := range r.Hours {
			if r.Hours[i].Count > h.Count {
				h = &r.Hours[i]
			}
		}
		line := fmt.Sprintf("busiest hour of %s (--wide): %s", unit.Thousands(uint64(len(r.Hours))), text.CountPlural(h.Count, "request", "requests"))
		if h.Share != nil {
			line += ", " + h.share() + " of the time"
		}
		out = append(out, line+" ("+h.Key[0]+zone(r)+")")
	}
	if len(out) > 0 {
		sentences(s, out...)
	}
	if len(r.Hours) > 1 && s.Wide {
		fmt.Fprintln(s.Out)
		WriteKeyed(s, hours(r))
	}
}

// decimal formats a mean number of requests in progress.
func decimal(v float64) string {
	switch {
	case v >= 0.05 && v < 100:
		v = math.Round(10*v) / 10
	case v >= 0.01 && v < 100:
		v = math.Round(100*v) / 100
	}
	return unit.Digits(v)
}

// period names the length of an interval, given in seconds.
func period(s float64) string {
	switch s {
	case 1:
		return "second"
	case 60:
		return "minute"
	case 3600:
		return "hour"
	case 86400:
		return "day"
	}
	return unit.FormatSeconds(s)
}

func printSlowest(s *ui.Screen, r *Report, all bool) {
	list := r.Slowest
	if !all {
		list = list[:min(len(list), fewSlowest)]
	}
	if len(list) == 0 {
		return
	}
	fmt.Fprintln(s.Out)
	g := slowestGrid(r, list)
	g.Write(s)
}

func slowestGrid(r *Report, list []SlowLine) ui.Grid {
	g := ui.Grid{Columns: []ui.Column{{Head: "slowest", Right: true}, {Head: "arrived"}, {Head: "line", Cut: true}}}
	for _, l := range list {
		g.Rows = append(g.Rows, []string{unit.FormatSeconds(l.TookS), clock(r, &l.Time), l.Line})
	}
	return g
}

// printLogs prints the logs with their formats, and the reasons for choosing them.
func printLogs(s *ui.Screen, read []LogRead) {
	fmt.Fprintln(s.Out)
	different := func(l LogRead) bool { return l.format("") != read[0].format("") }
	same := !slices.ContainsFunc(read, different) // the headline has the format of equal logs
	g := ui.Grid{Columns: []ui.Column{{Head: "log"}, {Head: "format", Cut: true, Wide: same}, {Head: "why", Cut: true}}, Rows: logRows(read)}
	if n := len(g.Rows) - fewLogs; n > 1 && !s.Wide {
		g.Rows = append(g.Rows[:fewLogs], []string{text.Sprintf("(%d more: --wide)", n)})
	}
	g.Write(s)
}

// zone returns the suffix of times: "Z" for UTC, or "" if no log has a zone. The times are
// then local to the server. --since accepts both forms.
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

// logRows returns rows with the format of each log and the reason for choosing it.
func logRows(read []LogRead) (rows [][]string) {
	for _, l := range read {
		why := l.Why
		if l.Guessed != "" { // the headline has it
			why = strings.Replace(why, "; guessed: "+l.Guessed, "", 1)
		}
		rows = append(rows, []string{l.Path, l.format("; "), why})
	}
	return rows
}

// keyed formats a group's key. In a key of several parts it quotes parts with spaces.
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

// exactly formats a group's key unambiguously. It quotes parts that begin with a quote or are not
// printable. In a key of several parts it also quotes parts that are empty or contain spaces.
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
