package page

import (
	"fmt"
	"math"
)

// Part is a layer of stacked bars.
type Part struct {
	Name  string
	Class string // color; "" means the next one
	Of    []float64
}

// Bars is a chart of bars next to each other, such as a histogram or amounts over time. Each
// bar is stacked from parts.
type Bars struct {
	Text
	YName string
	X     Axis // from the left edge of the first bar to the right edge of the last
	Edges []float64
	Parts []Part
	// Titles are the texts of the bars.
	Titles []string
	Format func(float64) string
}

// Bars appends a chart of bars.
func (p *Page) Bars(c Bars) {
	f := p.newFigure(c.Text)
	f.Y = c.YName
	most := 0.0
	for i := range len(c.Edges) - 1 {
		sum := 0.0
		for _, part := range c.Parts {
			sum += part.Of[i]
		}
		most = max(most, sum)
	}
	y := Linear(0, most, c.Format)
	d := plot{}
	d.axes(&c.X, &y)
	for i := range len(c.Edges) - 1 {
		left, right := c.X.place(c.Edges[i]), c.X.place(c.Edges[i+1])
		sum := 0.0
		for k, part := range c.Parts {
			if part.Of[i] <= 0 {
				continue
			}
			low, high := y.place(sum), y.place(sum+part.Of[i])
			sum += part.Of[i]
			r := rect{left, rounded(100 - high), rounded(max(right-left-0.12, 0.1)), rounded(max(high-low, 0.6)), part.class(k), ""}
			if i < len(c.Titles) {
				r.Title = c.Titles[i]
			}
			d.Rects = append(d.Rects, r)
		}
	}
	f.legendOf(c.Parts)
	f.Plots = []plot{d}
}

func (part *Part) class(k int) string {
	if part.Class != "" {
		return part.Class
	}
	return fmt.Sprintf("s%d", k%6+1)
}

func (f *figure) legendOf(parts []Part) {
	if len(parts) < 2 {
		return
	}
	for k, part := range parts {
		f.Legend = append(f.Legend, legend{part.Name, part.class(k), "area"})
	}
}

// Shares appends one bar that is divided into parts. Each part has one value.
func (p *Page) Shares(t Text, parts []Part) {
	f := p.newFigure(t)
	f.Height = "thin"
	sum := 0.0
	for _, part := range parts {
		sum += part.Of[0]
	}
	d := plot{}
	at := 0.0
	var shown []Part
	for k, part := range parts {
		if part.Of[0] <= 0 {
			continue
		}
		w := 100 * part.Of[0] / sum
		percent := Percent(part.Of[0] / sum)
		d.Rects = append(d.Rects, rect{rounded(at), 0, rounded(w), 100, part.class(k), part.Name + ": " + percent})
		at += w
		shown = append(shown, Part{part.Name + ", " + percent, part.class(k), nil})
	}
	f.legendOf(append(shown, Part{})[:max(len(shown), 0)])
	f.Plots = []plot{d}
}

// Percent formats a share as a percentage.
func Percent(share float64) string {
	switch p := 100 * share; {
	case p > 0 && p < 0.05:
		return "< 0.1 %"
	case p < 100 && p > 99.9:
		return "> 99.9 %"
	case p == math.Trunc(p) || p >= 10:
		return fmt.Sprintf("%.0f %%", p)
	default:
		return fmt.Sprintf("%.1f %%", p)
	}
}

// Heat is a chart of amounts by two dimensions. Darker cells are larger amounts.
type Heat struct {
	Text
	YName  string
	X, Y   Axis
	XEdges []float64
	YEdges []float64
	Of     [][]float64 // by column from the left, then row from the bottom
	// Title returns the text of a cell.
	Title func(col, row int) string
}

// heatLevels is the number of shades. Their limits are logarithmic, because latencies differ
// by orders of magnitude.
const heatLevels = 6

// Heat appends a heat map.
func (p *Page) Heat(c Heat) {
	f := p.newFigure(c.Text)
	f.Y, f.Height = c.YName, "tall"
	d := plot{}
	d.axes(&c.X, &c.Y)
	d.Grid = nil
	most := 0.0
	for _, col := range c.Of {
		for _, v := range col {
			most = max(most, v)
		}
	}
	for i, col := range c.Of {
		left, right := c.X.place(c.XEdges[i]), c.X.place(c.XEdges[i+1])
		for j, v := range col {
			if v <= 0 {
				continue
			}
			low, high := c.Y.place(c.YEdges[j]), c.Y.place(c.YEdges[j+1])
			level := 1
			if most > 1 {
				level = 1 + min(heatLevels-1, int(float64(heatLevels)*math.Log1p(v-1)/math.Log1p(most-1)*0.9999))
			}
			d.Rects = append(d.Rects, rect{left, rounded(100 - high), rounded(max(right-left, 0.2)), rounded(high - low), fmt.Sprintf("h%d", level), c.Title(i, j)})
		}
	}
	for level := 1; level <= heatLevels; level++ {
		low := math.Ceil(math.Expm1(math.Log1p(max(most-1, 0))*float64(level-1)/heatLevels) + 1)
		name := fmt.Sprintf("from %.0f", low)
		if level == 1 {
			name = "1"
		}
		if most >= low {
			f.Legend = append(f.Legend, legend{name, fmt.Sprintf("h%d", level), "area"})
		}
	}
	f.Plots = []plot{d}
}

// Interval is an estimate with its confidence interval.
type Interval struct {
	Name, Value   string // texts to the left and right of the drawing
	At, Low, High float64
	Bounded       bool
	Tone          Tone
}

// Intervals is a chart of estimates on one axis, one in each row. The labels are outside of
// the drawing, so nothing overlaps.
type Intervals struct {
	Text
	X    Axis
	Rows []Interval
	Zone [2]float64 // irrelevant effects; equal limits mean none
	Zero float64
}

// Intervals appends a chart of estimates.
func (p *Page) Intervals(c Intervals) {
	f := p.newFigure(c.Text)
	f.Height = "strip"
	for i, r := range c.Rows {
		d := plot{Label: r.Name, Value: r.Value, Class: string(r.Tone), Spoken: r.Name + ": " + r.Value}
		if c.Zone[0] < c.Zone[1] {
			left := c.X.place(c.Zone[0])
			d.Bands = append(d.Bands, rect{left, 0, rounded(c.X.place(c.Zone[1]) - left), 100, "zone", ""})
		}
		for _, t := range c.X.Ticks {
			at := c.X.place(t.At)
			d.Grid = append(d.Grid, line{at, 0, at, 100, "grid"})
		}
		zero := c.X.place(c.Zero)
		d.Grid = append(d.Grid, line{zero, 0, zero, 100, "zero"})
		if r.Bounded {
			left := c.X.place(r.Low)
			d.Rects = append(d.Rects, rect{left, 30, rounded(max(c.X.place(r.High)-left, 0.3)), 40, "interval", ""})
		}
		d.Dots = append(d.Dots, dot{X: c.X.place(r.At), Y: 50, Class: "estimate"})
		if i == len(c.Rows)-1 {
			d.xLabels(&c.X)
		}
		f.Plots = append(f.Plots, d)
	}
	tone := ""
	if len(c.Rows) == 1 {
		tone = string(c.Rows[0].Tone)
	}
	if c.Zone[0] < c.Zone[1] {
		f.Legend = append(f.Legend, legend{"effects that do not matter", "zone", "area"}, legend{"interval", "interval " + tone, "area"}, legend{"estimate", "estimate " + tone, "dot"})
	}
}
