package live

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"fettle.dev/fettle/internal/logformat"
	"fettle.dev/fettle/internal/measure/prove"
	"fettle.dev/fettle/internal/requests/logs"
	"fettle.dev/fettle/internal/stats"
)

// choice is a subset of a log's requests, with the duration to use.
type choice struct {
	field, where string // "": the request's duration, and all requests
	at           int    // index of the format's field; negative: the request's duration
	fulfils      logs.Where

	requests int       // in this window
	found    []float64 // durations of these requests in seconds
	over     bool      // more than `most` requests
}

// statistic is a metric of the durations in a log.
type statistic struct {
	name string // of the metric
	*choice
	rate bool // needs no durations
	of   func(c *choice, lasted time.Duration) float64
}

// logMetric splits FILE:STATISTIC(FIELD) where CONDITION. ok is false for other text.
func logMetric(text string) (file, what, field, where string, ok bool) {
	text, where, _ = strings.Cut(text, " where ")
	at := strings.LastIndexByte(text, ':')
	if at <= 0 {
		return "", "", "", "", false
	}
	file, what = text[:at], text[at+1:]
	if name, is := strings.CutSuffix(what, ")"); is {
		what, field, is = strings.Cut(name, "(")
		return file, what, field, where, is && field != ""
	}
	return file, what, "", where, true
}

func (s *Set) ofLog(text, rest string) (prove.Metric, error) {
	m := prove.Metric{Name: text, Unit: "s"}
	file, what, field, where, ok := logMetric(rest)
	if !ok {
		return m, fmt.Errorf("%q: want logs:FILE:STATISTIC, such as logs:/var/log/foreman/production.log:p99, optionally with (FIELD) to use another duration than the request's, and with where CONDITION to select requests", text)
	}
	stat := &statistic{name: text}
	number := func(of func([]float64) float64) func(*choice, time.Duration) float64 {
		return func(c *choice, _ time.Duration) float64 { return of(c.found) }
	}
	switch p, err := strconv.ParseFloat(strings.TrimPrefix(what, "p"), 64); {
	case what == "mean":
		stat.of = number(stats.Mean)
	case what == "median":
		stat.of = number(stats.Median)
	case what == "max":
		stat.of = number(func(x []float64) float64 { return stats.Quantile(x, 1) })
	case what == Rate:
		m.Unit, m.More, stat.rate = "1/s", true, true
		stat.of = func(c *choice, lasted time.Duration) float64 { return float64(c.requests) / lasted.Seconds() }
	case strings.HasPrefix(what, "p") && err == nil && p > 0 && p < 100:
		stat.of = number(func(x []float64) float64 { return stats.Quantile(x, p/100) })
	default:
		return m, fmt.Errorf("%q: want mean, median, pNN (such as p99 or p99.9), max or rate after logs:FILE:", text)
	}
	switch {
	case s.Pattern != nil && (field != "" || where != ""):
		return m, fmt.Errorf("%q: --pattern finds one number per line, so (FIELD) and conditions are not possible", text)
	case stat.rate && field != "":
		return m, fmt.Errorf("%q: rate counts requests, so (FIELD) is not possible", text)
	case s.Pattern != nil && !stat.rate:
		m.Unit = s.Unit
	}
	l := s.logs[file]
	if l == nil {
		l = &log{host: s.Host, path: file, recent: s.Recent, pattern: s.Pattern, detect: s.Format}
		if l.detect == nil {
			l.detect = func(_ string, text []byte) (*logformat.Format, error) { return logformat.Detect(text, nil) }
		}
		if s.logs == nil {
			s.logs = map[string]*log{}
		}
		s.logs[file] = l
		s.sources = append(s.sources, l)
	}
	at := slices.IndexFunc(l.choices, func(c *choice) bool { return c.field == field && c.where == where })
	if at < 0 {
		at = len(l.choices)
		l.choices = append(l.choices, &choice{field: field, where: where, at: -1})
	}
	stat.choice = l.choices[at]
	l.named = append(l.named, stat)
	return m, nil
}

func (c *choice) take(v float64) {
	if c.over = c.over || len(c.found) == most; !c.over {
		c.found = append(c.found, v)
	}
}
