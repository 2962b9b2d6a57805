package report

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"fettle.dev/fettle/internal/logs"
)

// LogsOpenMetrics writes what logs say for Prometheus: each group a summary of the
// durations of its requests.
func LogsOpenMetrics(out io.Writer, r *logs.Report) error {
	w := bufio.NewWriter(out)
	family := func(name, kind, help string) { fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind) }
	family("fettle_logs_lines", "gauge", "Lines of the logs: requests, requests left out as asked, others of the format, and those that could not be read.")
	for _, c := range []struct {
		what string
		n    uint64
	}{{"request", r.Requests}, {"left-out", r.LeftOut}, {"other", r.OtherLines}, {"unread", r.Unread.Lines}} {
		fmt.Fprintf(w, "fettle_logs_lines{what=%s} %d\n", label(c.what), c.n)
	}
	cut := 0
	for _, l := range r.Logs {
		if l.Cut != "" {
			cut++
		}
	}
	family("fettle_logs_cut", "gauge", "Logs that could not be read to their ends.")
	fmt.Fprintf(w, "fettle_logs_cut %d\n", cut)
	type row struct {
		labels string
		g      *logs.Group
	}
	rows := []row{{"by=" + label("all") + ",key=" + label(""), &r.All}}
	for i := range r.By {
		for j := range r.By[i].Top {
			g := &r.By[i].Top[j]
			rows = append(rows, row{"by=" + label(strings.Join(r.By[i].By, ",")) + ",key=" + label(exactly(g.Key)), g})
		}
	}
	family("fettle_logs_requests", "gauge", "Requests by group.")
	for _, x := range rows {
		fmt.Fprintf(w, "fettle_logs_requests{%s} %d\n", x.labels, x.g.Count)
	}
	family("fettle_logs_errors", "gauge", "Requests by group that were answered with a status of 500 or above.")
	for _, x := range rows {
		fmt.Fprintf(w, "fettle_logs_errors{%s} %d\n", x.labels, x.g.Errors)
	}
	if r.All.MeanS != nil {
		family("fettle_logs_duration_seconds", "summary", "How long the requests of a group took, in seconds.")
		for _, x := range rows {
			for _, q := range []struct{ name, label string }{{"p50", "0.5"}, {"p90", "0.9"}, {"p95", "0.95"}, {"p99", "0.99"}, {"p99.9", "0.999"}} {
				if v, ok := x.g.QuantilesS[q.name]; ok {
					fmt.Fprintf(w, "fettle_logs_duration_seconds{%s,quantile=%s} %s\n", x.labels, label(q.label), sampleValue(v))
				}
			}
			fmt.Fprintf(w, "fettle_logs_duration_seconds_sum{%s} %s\n", x.labels, sampleValue(x.g.TotalS))
			fmt.Fprintf(w, "fettle_logs_duration_seconds_count{%s} %d\n", x.labels, x.g.Count-uint64(x.g.Untimed))
		}
	}
	fmt.Fprintln(w, "# EOF")
	return w.Flush()
}
