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

// logsSide are logs whose figures are written: those of a report, or one side of a
// comparison.
type logsSide struct {
	labels string // in front of all others; empty, or with a comma at its end
	read   []LogRead
	left   []source.NotRead
	lines  []logsLines
	timed  bool
	groups []logsGroup
}

// logsLines are how many lines of a sort there are.
type logsLines struct {
	what string
	n    uint64
}

// logsGroup is a group and the labels that name it.
type logsGroup struct {
	labels string
	*Group
}

// named are the labels of a group.
func named(by string, key []string) string {
	return "by=" + ui.OpenMetricsLabel(by) + ",key=" + ui.OpenMetricsLabel(exactly(key))
}

// allNamed are those of all requests.
var allNamed = named("all", nil)

// metricFamily begins a family of metrics.
func metricFamily(w io.Writer, name, kind, help string) {
	fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

// OpenMetrics writes what logs say for Prometheus: each group a summary of the
// durations of its requests.
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

// ComparisonOpenMetrics writes what changed for Prometheus: the groups of both sides as
// those of one report, by the label side, and how the mean of each changed.
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
	metricFamily(w, "fettle_logs_change", "gauge", "Groups by what became of the mean duration of their requests: 1 for each.")
	for i, x := range changes {
		fmt.Fprintf(w, "fettle_logs_change{%s,verdict=%s} 1\n", name(i), ui.OpenMetricsLabel(x.Verdict))
	}
	for _, f := range []struct {
		name, help string
		value      func(*Change) *float64
	}{
		{"fettle_logs_change_ratio", "Mean duration after as a multiple of the one before, by group.", func(x *Change) *float64 { return x.Ratio }},
		{"fettle_logs_change_ratio_low", "The lower end of its interval of 95 %.", func(x *Change) *float64 { return x.Low }},
		{"fettle_logs_change_ratio_high", "The upper end of its interval of 95 %.", func(x *Change) *float64 { return x.High }},
	} {
		metricFamily(w, f.name, "gauge", f.help)
		for i := range changes {
			if v := f.value(&changes[i]); v != nil {
				fmt.Fprintf(w, "%s{%s} %s\n", f.name, name(i), ui.OpenMetricsValue(*v))
			}
		}
	}
	if c.MixS != nil && c.LatencyS != nil {
		metricFamily(w, "fettle_logs_change_mean_seconds", "gauge", "Change of the mean duration of all requests, in seconds: by their mix, and by how long those of each group take.")
		fmt.Fprintf(w, "fettle_logs_change_mean_seconds{of=\"mix\"} %s\nfettle_logs_change_mean_seconds{of=\"latency\"} %s\n", ui.OpenMetricsValue(*c.MixS), ui.OpenMetricsValue(*c.LatencyS))
	}
	fmt.Fprintln(w, "# EOF")
	return w.Flush()
}

// logsFamilies writes what there is to say of logs and their groups, of all sides in each
// family.
func logsFamilies(w io.Writer, sides ...logsSide) {
	each := func(name, kind, help string, write func(s *logsSide)) {
		metricFamily(w, name, kind, help)
		for i := range sides {
			write(&sides[i])
		}
	}
	each("fettle_logs_lines", "gauge", "Lines of the logs: requests, requests left out as asked, others of the format, and those that could not be read.", func(s *logsSide) {
		for _, c := range s.lines {
			fmt.Fprintf(w, "fettle_logs_lines{%swhat=%s} %d\n", s.labels, ui.OpenMetricsLabel(c.what), c.n)
		}
	})
	// alone is a metric of a side without a label of its own.
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
	each("fettle_logs_not_read", "gauge", "Files of a directory that may have requests too and could not be read.", func(s *logsSide) {
		alone("fettle_logs_not_read", s, len(s.left))
	})
	each("fettle_logs_requests", "gauge", "Requests by group.", func(s *logsSide) {
		for _, g := range s.groups {
			fmt.Fprintf(w, "fettle_logs_requests{%s%s} %d\n", s.labels, g.labels, g.Count)
		}
	})
	each("fettle_logs_errors", "gauge", "Requests by group that were answered with a status of 500 or above.", func(s *logsSide) {
		for _, g := range s.groups {
			fmt.Fprintf(w, "fettle_logs_errors{%s%s} %d\n", s.labels, g.labels, g.Errors)
		}
	})
	if !slices.ContainsFunc(sides, func(s logsSide) bool { return s.timed }) {
		return
	}
	each("fettle_logs_duration_seconds", "summary", "How long the requests of a group took, in seconds.", func(s *logsSide) {
		if !s.timed {
			return
		}
		for _, g := range s.groups {
			for _, q := range []struct{ name, label string }{{"p50", "0.5"}, {"p90", "0.9"}, {"p95", "0.95"}, {"p99", "0.99"}, {"p99.9", "0.999"}} {
				if v, ok := g.QuantilesS[q.name]; ok {
					fmt.Fprintf(w, "fettle_logs_duration_seconds{%s%s,quantile=%s} %s\n", s.labels, g.labels, ui.OpenMetricsLabel(q.label), ui.OpenMetricsValue(v))
				}
			}
			fmt.Fprintf(w, "fettle_logs_duration_seconds_sum{%s%s} %s\n", s.labels, g.labels, ui.OpenMetricsValue(g.TotalS))
			fmt.Fprintf(w, "fettle_logs_duration_seconds_count{%s%s} %d\n", s.labels, g.labels, g.Count-uint64(g.Untimed))
		}
	})
}
