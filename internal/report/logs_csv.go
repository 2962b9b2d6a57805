package report

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/logs"
)

// groupColumns are the columns of a group's statistics.
var groupColumns = []string{"count", "rate_per_s", "errors", "total_s", "share", "mean_s", "deviation_s", "min_s", "max_s", "p50_s", "p90_s", "p95_s", "p99_s", "p99.9_s"}

// groupCells are a group's statistics; all are empty where there is no group.
func groupCells(g *logs.Group) []string {
	if g == nil {
		return make([]string, len(groupColumns))
	}
	cells := []string{fmt.Sprint(g.Count), decimal(g.RatePerS), fmt.Sprint(g.Errors), decimal(&g.TotalS), decimal(g.Share), decimal(g.MeanS), decimal(g.DeviationS), decimal(g.MinS), decimal(g.MaxS)}
	for _, q := range []string{"p50", "p90", "p95", "p99", "p99.9"} {
		if v, ok := g.QuantilesS[q]; ok {
			cells = append(cells, decimal(&v))
		} else {
			cells = append(cells, "")
		}
	}
	return cells
}

// decimal writes a number exactly; one that is not known is empty.
func decimal(v *float64) string {
	if v == nil {
		return ""
	}
	return strconv.FormatFloat(*v, 'g', -1, 64)
}

// LogsCSV writes the groups of all groupings as one table. A text that a spreadsheet
// would take for a formula gets an apostrophe in front.
func LogsCSV(w io.Writer, r *logs.Report) error {
	c := csv.NewWriter(w)
	_ = c.Write(append([]string{"by", "key"}, groupColumns...))
	for _, by := range r.By {
		for i := range by.Top {
			g := &by.Top[i]
			_ = c.Write(append([]string{strings.Join(by.By, ","), plain(keyed(g.Key))}, groupCells(g)...))
		}
	}
	c.Flush()
	return c.Error()
}

// LogsCompareCSV writes what changed as one table: all requests first, which alone have
// the change of the mean by the mix of requests and by how long they take.
func LogsCompareCSV(w io.Writer, c *logs.Comparison) error {
	out := csv.NewWriter(w)
	head := []string{"by", "key", "verdict", "ratio", "ratio_low", "ratio_high"}
	for _, side := range []string{"before_", "after_"} {
		for _, name := range groupColumns {
			head = append(head, side+name)
		}
	}
	_ = out.Write(append(head, "mix_s", "latency_s"))
	write := func(by, key string, x *logs.Change, mix, latency *float64) {
		row := append([]string{by, key, x.Verdict, decimal(x.Ratio), decimal(x.Low), decimal(x.High)}, groupCells(x.Before)...)
		_ = out.Write(append(append(row, groupCells(x.After)...), decimal(mix), decimal(latency)))
	}
	write("all", "", &c.All, c.MixS, c.LatencyS)
	for i := range c.Groups {
		x := &c.Groups[i]
		write(strings.Join(c.By, ","), plain(keyed(x.Key)), x, nil, nil)
	}
	out.Flush()
	return out.Error()
}

// plain keeps a spreadsheet from reckoning with a text.
func plain(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) && text != "-" {
		return "'" + text
	}
	return text
}
