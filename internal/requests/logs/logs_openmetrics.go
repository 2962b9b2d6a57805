package logs

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/requests/source"
	"fettle.dev/fettle/internal/ui"
)

// logsSide holds the figures of a report, or of one side of a comparison.
type logsSide struct {
	labels string // labels before all others; empty or ends with a comma
	read   []LogRead
	left   []source.NotRead
	lines  []logsLines
	timed  bool
	groups []logsGroup
}

// logsLines is a number of lines with the name of their kind.
type logsLines struct {
	what string
	n    uint64
}

// logsGroup is a group with its identifying labels.
type logsGroup struct {
	labels string
	*Group
}

// named returns the labels of a group.
func named(by string, key []string) string {
	return "by=" + ui.OpenMetricsLabel(by) + ",key=" + ui.OpenMetricsLabel(exactly(key))
}

// allNamed holds the labels for the sum of all requests.
var allNamed = named("all", nil)

// metricFamily writes the header of a metric family: its type and help.
func metricFamily(w io.Writer, name, kind, help string) {
	fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

// OpenMetrics writes a report for Prometheus, with a summary of the durations of each group.
func OpenMetrics(out io.Writer, r *Report) error {
	w := bufio.NewWriter(out)
	side := logsSide{read: r.Logs, left: r.NotRead, timed: r.All.MeanS != nil, groups: []logsGroup{{allNamed, &r.All}},
		lines: []logsLines{{"request", r.Requests}, {"left-out", r.LeftOut}, {"other", r.OtherLines}, {"unread", r.Unread.Lines}}}
	for i := range r.By {
		for j := range r.By[i].Top {
			g := &r.By[i].Top[j]
			side.groups = append(side.groups, logsGroup{named(strings.Join(r.By[i].By, ","), g.Key), g})
		}
	}
	logsFamilies(w, side)
	fmt.Fprintln(w, "# EOF")
	return w.Flush()
}

// ComparisonOpenMetrics writes a comparison for Prometheus: the groups of both sides, with a
// label named side, and the change of each mean.
func ComparisonOpenMetrics(out io.Writer, c *Comparison) error {
	w := bufio.NewWriter(out)
	by, changes := strings.Join(c.By, ","), append([]Change{c.All}, c.Groups...)
	name := func(i int) string {
		if i == 0 {
			return allNamed
		}
		return named(by, changes[i].Key)
	}
	var sides []logsSide
	for _, s := range comparedSides(c) {
		side := logsSide{labels: "side=" + ui.OpenMetricsLabel(s.name) + ",", read: s.Logs, left: s.NotRead,
			lines: []logsLines{{"request", s.Requests}, {"left-out", s.LeftOut}, {"other", s.OtherLines}, {"unread", s.Unread.Lines}}}
		for i := range changes {
			if g := s.group(&changes[i]); g != nil {
				side.groups = append(side.groups, logsGroup{name(i), g})
				side.timed = side.timed || g.MeanS != nil
			}
		}
		sides = append(sides, side)
	}
	logsFamilies(w, sides...)
	metricFamily(w, "fettle_logs_change", "gauge", "Verdict on the mean duration of each group, as a label; the value is always 1.")
	for i, x := range changes {
		fmt.Fprintf(w, "fettle_logs_change{%s,verdict=%s} 1\n", name(i), ui.OpenMetricsLabel(x.Verdict))
	}
	for _, f := range []struct {
		name, help string
		value      func(*Change) *float64
	}{
		{"fettle_logs_change_ratio", "Mean duration of each group: after, divided by before.", func(x *Change) *float64 { return x.Ratio }},
		{"fettle_logs_change_ratio_low", "Lower bound of the 95 % confidence interval of this ratio.", func(x *Change) *float64 { return x.Low }},
		{"fettle_logs_change_ratio_high", "Upper bound of the 95 % confidence interval of this ratio.", func(x *Change) *float64 { return x.High }},
	} {
		metricFamily(w, f.name, "gauge", f.help)
		for i := range changes {
			if v := f.value(&changes[i]); v != nil {
				fmt.Fprintf(w, "%s{%s} %s\n", f.name, name(i), ui.OpenMetricsValue(*v))
			}
		}
	}
	if c.MixS != nil && c.LatencyS != nil {
		metricFamily(w, "fettle_logs_change_mean_seconds", "gauge", "Change of the mean duration of all requests, in seconds: by their mix, and by the durations within groups.")
		fmt.Fprintf(w, "fettle_logs_change_mean_seconds{of=\"mix\"} %s\nfettle_logs_change_mean_seconds{of=\"latency\"} %s\n", ui.OpenMetricsValue(*c.MixS), ui.OpenMetricsValue(*c.LatencyS))
	}
	fmt.Fprintln(w, "# EOF")
	return w.Flush()
}

// logsFamilies writes the metric families; each contains all sides.
func logsFamilies(w io.Writer, sides ...logsSide) {
	each := func(name, kind, help string, write func(s *logsSide)) {
		metricFamily(w, name, kind, help)
		for i := range sides {
			write(&sides[i])
		}
	}
	each("fettle_logs_lines", "gauge", "Lines of the logs: requests, requests left out by options, other lines of the format, and unreadable lines.", func(s *logsSide) {
		for _, c := range s.lines {
			fmt.Fprintf(w, "fettle_logs_lines{%swhat=%s} %d\n", s.labels, ui.OpenMetricsLabel(c.what), c.n)
		}
	})
	// alone writes a metric that has only the labels of its side.
	alone := func(name string, s *logsSide, n int) {
		if labels := strings.TrimSuffix(s.labels, ","); labels != "" {
			name += "{" + labels + "}"
		}
		fmt.Fprintf(w, "%s %d\n", name, n)
	}
	each("fettle_logs_cut", "gauge", "Logs that could not be read to their ends.", func(s *logsSide) {
		cut := 0
		for _, l := range s.read {
			if l.Cut != "" {
				cut++
			}
		}
		alone("fettle_logs_cut", s, cut)
	})
	each("fettle_logs_not_read", "gauge", "Unreadable files of a directory that may contain requests.", func(s *logsSide) {
		alone("fettle_logs_not_read", s, len(s.left))
	})
	each("fettle_logs_requests", "gauge", "Requests by group.", func(s *logsSide) {
		for _, g := range s.groups {
			fmt.Fprintf(w, "fettle_logs_requests{%s%s} %d\n", s.labels, g.labels, g.Count)
		}
	})
	each("fettle_logs_errors", "gauge", "Requests of each group that were answered with a status of 500 or above.", func(s *logsSide) {
		for _, g := range s.groups {
			fmt.Fprintf(w, "fettle_logs_errors{%s%s} %d\n", s.labels, g.labels, g.Errors)
		}
	})
	if !slices.ContainsFunc(sides, func(s logsSide) bool { return s.timed }) {
		return
	}
	each("fettle_logs_duration_seconds", "summary", "Durations of the requests of a group, in seconds.", func(s *logsSide) {
		if !s.timed {
			return
		}
		for _, g := range s.groups {
			for _, q := range quantiles {
				if v, ok := g.QuantilesS[q.name]; ok {
					fmt.Fprintf(w, "fettle_logs_duration_seconds{%s%s,quantile=\"%v\"} %s\n", s.labels, g.labels, q.q, ui.OpenMetricsValue(v))
				}
			}
			fmt.Fprintf(w, "fettle_logs_duration_seconds_sum{%s%s} %s\n", s.labels, g.labels, ui.OpenMetricsValue(g.TotalS))
			fmt.Fprintf(w, "fettle_logs_duration_seconds_count{%s%s} %d\n", s.labels, g.labels, g.Count-uint64(g.Untimed))
		}
	})
}
