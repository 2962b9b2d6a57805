package runpage

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/stats"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/ui/page"
	"fettle.dev/fettle/internal/unit"
)

// samples draws the curves of a run, and lists every repetition of its series.
func samples(p *page.Page, r *evidence.Run) error {
	curves, err := evidence.CurvesOf(r)
	if err != nil {
		return err
	}
	all, err := evidence.SeriesOf(r)
	if err != nil {
		return err
	}
	if len(curves) > 0 {
		p.Heading("curves")
	}
	for _, c := range curves {
		curve(p, &c)
	}
	if len(all) == 0 {
		return nil
	}
	g := ui.Grid{Columns: []ui.Column{{Head: "series"}, {Head: "median", Right: true}, {Head: "least to most (spread)"}, {Head: "repeats", Right: true}, {Head: "each repeat", Cut: true}, {Head: "better"}}}
	for _, s := range all {
		row := []string{s.Name, "", "", strconv.Itoa(len(s.Samples)), "", map[bool]string{false: "less", true: "more"}[s.More]}
		if len(s.Samples) > 0 {
			low, high, mid := slices.Min(s.Samples), slices.Max(s.Samples), stats.Median(s.Samples)
			row[1] = amount(mid, s.Unit)
			if len(s.Samples) > 1 && mid != 0 {
				row[2] = fmt.Sprintf("%s to %s (%s %%)", unit.Digits(low), unit.Digits(high), plain((high-low)/math.Abs(mid)))
			}
			var each []string
			for _, x := range s.Samples[:min(len(s.Samples), mostRows)] {
				each = append(each, unit.Digits(x))
			}
			row[4] = strings.Join(each, ", ")
		}
		g.Rows = append(g.Rows, row)
	}
	p.Heading("every repetition")
	p.Table(g.Table(""))
	return nil
}

// tick formats a number on an axis, where neighbors may differ in a later digit.
func tick(v float64) string { return unit.Decimals(v, 9) }

// curve draws a curve; open points are doubtful.
func curve(p *page.Page, c *evidence.Curve) {
	x := func(v float64) float64 { return v }
	if c.X.Scale == evidence.Percentile { // each nine takes the same room
		x = func(v float64) float64 { return 100 / (100 - v) }
	}
	g := ui.Grid{Columns: []ui.Column{{Head: label(c.X.Name, c.X.Unit), Right: true}}}
	chart := page.XY{YName: label(c.Y.Name, c.Y.Unit)}
	values := map[float64][]string{}
	var xs, ys []float64
	for i, l := range c.Lines {
		g.Columns = append(g.Columns, ui.Column{Head: l.Name, Right: true})
		s := page.Series{Name: l.Name, Line: true, Dots: true, Hollow: func(j int) bool { return j < len(l.Doubts) && l.Doubts[j] != "" }}
		for j, at := range l.Points {
			if values[at[0]] == nil {
				values[at[0]] = make([]string, len(c.Lines))
				xs = append(xs, at[0])
			}
			text := unit.Digits(at[1])
			if s.Hollow(j) {
				text += " (" + l.Doubts[j] + ")"
				chart.HollowIs = "doubtful"
			}
			values[at[0]][i] = text
			ys = append(ys, at[1])
			s.X, s.Y = append(s.X, x(at[0])), append(s.Y, at[1])
			s.Titles = append(s.Titles, fmt.Sprintf("%s, %s %s: %s", l.Name, c.X.Name, tick(at[0]), text))
		}
		chart.Series = append(chart.Series, s)
	}
	if len(xs) == 0 {
		return
	}
	slices.Sort(xs)
	for _, at := range xs {
		g.Rows = append(g.Rows, append([]string{tick(at)}, values[at]...))
	}
	axis := func(scale evidence.Scale, low, high float64) page.Axis {
		if scale == evidence.Log && low > 0 {
			return page.Logarithmic(low, high, tick)
		}
		return page.Linear(low, high, tick)
	}
	chart.X, chart.Y = axis(c.X.Scale, xs[0], xs[len(xs)-1]), axis(c.Y.Scale, slices.Min(ys), slices.Max(ys))
	if c.X.Scale == evidence.Percentile {
		chart.X = page.Axis{Min: x(xs[0]), Max: x(xs[len(xs)-1]), Log: true}
		for _, v := range []float64{0, 50, 90, 99, 99.9, 99.99, 99.999} {
			if x(v) >= chart.X.Min && x(v) <= chart.X.Max {
				chart.X.Ticks = append(chart.X.Ticks, page.Tick{At: x(v), Text: tick(v)})
			}
		}
	}
	chart.Text = page.Text{Title: c.Name, About: "By " + label(c.X.Name, c.X.Unit) + ".", Values: g.Table(c.Name)}
	p.XY(chart)
}

// label returns a name with its unit.
func label(name, unit string) string {
	if unit == "" {
		return name
	}
	return name + " (" + unit + ")"
}

// percent returns a ratio in percent, limited to the range that a chart can draw.
func percent(ratio float64) float64 { return 100 * max(-1e6, min(1e6, ratio)) }

// plain formats a ratio in percent without its sign.
func plain(ratio float64) string { return unit.Percent(math.Abs(percent(ratio)) / 100) }

// signed formats a ratio in percent with its sign.
func signed(ratio float64) string {
	return strings.Replace(unit.SignedPercent(percent(ratio)/100), "-", "−", 1)
}

// amount formats a value with its unit for a reader.
func amount(v float64, u string) string {
	if u == "bytes" && v >= 0 && v < 1<<63 {
		return unit.Size(v).Human()
	}
	return strings.TrimSpace(unit.Digits(v) + " " + u)
}
