package logs

import (
	"encoding/csv"
	"fmt"
	"io"
	"strings"

	"fettle.dev/fettle/internal/text"
)

// groupColumns are the CSV columns of a group.
var groupColumns = []string{"count", "rate_per_s", "errors", "total_s", "share", "mean_s", "deviation_s", "min_s", "max_s", "p50_s", "p90_s", "p95_s", "p99_s", "p99.9_s"}

// groupCells returns the CSV cells of a group. The cells are empty if g is nil.
func groupCells(g *Group) []string {
	if g == nil {
		return make([]string, len(groupColumns))
	}
	cells := []string{fmt.Sprint(g.Count), text.Decimal(g.RatePerS), fmt.Sprint(g.Errors), text.Decimal(&g.TotalS), text.Decimal(g.Share), text.Decimal(g.MeanS), text.Decimal(g.DeviationS), text.Decimal(g.MinS), text.Decimal(g.MaxS)}
	for _, q := range quantiles {
		if v, ok := g.QuantilesS[q.name]; ok {
			cells = append(cells, text.Decimal(&v))
		} else {
			cells = append(cells, "")
		}
	}
	return cells
}

// CSV writes the groups of all groupings as one table. Texts that a spreadsheet would evaluate
// as formulas get an apostrophe as prefix.
func CSV(w io.Writer, r *Report) error {
	c := csv.NewWriter(w)
	_ = c.Write(append([]string{"by", "key"}, groupColumns...))
	for _, by := range r.By {
		for i := range by.Top {
			g := &by.Top[i]
			_ = c.Write(append([]string{strings.Join(by.By, ","), text.CSVCell(keyed(g.Key))}, groupCells(g)...))
		}
	}
	c.Flush()
	return c.Error()
}

// ComparisonCSV writes a comparison as one table. Only the first row, for all requests, has
// the effects of the mix and of the durations.
func ComparisonCSV(w io.Writer, c *Comparison) error {
	out := csv.NewWriter(w)
	head := []string{"by", "key", "verdict", "ratio", "ratio_low", "ratio_high"}
	for _, side := range []string{"before_", "after_"} {
		for _, name := range groupColumns {
			head = append(head, side+name)
		}
	}
	_ = out.Write(append(head, "mix_s", "latency_s"))
	write := func(by, key string, x *Change, mix, latency *float64) {
		row := append([]string{by, key, x.Verdict, text.Decimal(x.Ratio), text.Decimal(x.Low), text.Decimal(x.High)}, groupCells(x.Before)...)
		_ = out.Write(append(append(row, groupCells(x.After)...), text.Decimal(mix), text.Decimal(latency)))
	}
	write("all", "", &c.All, c.MixS, c.LatencyS)
	for i := range c.Groups {
		x := &c.Groups[i]
		write(strings.Join(c.By, ","), text.CSVCell(keyed(x.Key)), x, nil, nil)
	}
	out.Flush()
	return out.Error()
}
