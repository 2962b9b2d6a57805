package page

import (
	"fmt"
	"math"
	"strings"
)

// Text is the text alternative of a chart.
type Text struct {
	Title string
	// About explains in a sentence how to read the chart.
	About string
	// Values is a table of the chart's values.
	Values Table
}

// figure is a chart for the template. Positions are in percent of the width and height.
type figure struct {
	ID           string
	Title, About string
	Y            string // name of the vertical axis
	Legend       []legend
	Plots        []plot
	Values       *tableView
	Height       string // CSS class of the plot
}

// plot is one drawing with axes.
type plot struct {
	Label, Value string // texts at the side
	Class        string
	Spoken       string
	Bands        []rect
	Grid         []line
	Rects        []rect
	Paths        []path
	Dots         []dot
	XLabels      []label
	YLabels      []label
}

type (
	rect struct {
		X, Y, W, H   float64
		Class, Title string
	}
	line struct {
		X1, Y1, X2, Y2 float64
		Class          string
	}
	path struct{ D, Class string }
	dot  struct {
		X, Y            float64
		Class, Title    string
		Diamond, Hollow bool
	}
	label struct {
		At                  float64
		Text, Class, Anchor string
	}
	legend struct{ Name, Class, Kind string }
)

// newFigure appends a figure with its text alternative.
func (p *Page) newFigure(t Text) *figure {
	p.charts++
	if t.Values.Title == "" {
		t.Values.Title = t.Title
	}
	f := &figure{ID: fmt.Sprintf("chart-%d", p.charts), Title: t.Title, About: t.About}
	if len(t.Values.Rows) > 0 {
		t.Values.Title = p.unique(t.Values.Title)
		f.Values = newTable(&t.Values)
	}
	p.add(&block{Figure: f})
	return f
}

// axes draws the grid and the labels of both axes.
func (d *plot) axes(x, y *Axis) {
	for _, t := range y.Ticks {
		at := rounded(100 - y.place(t.At))
		d.Grid = append(d.Grid, line{0, at, 100, at, "grid"})
		d.YLabels = append(d.YLabels, label{At: at, Text: t.Text, Class: minor(t)})
	}
	d.xLabels(x)
}

func (d *plot) xLabels(x *Axis) {
	for _, t := range x.Ticks {
		at := x.place(t.At)
		d.XLabels = append(d.XLabels, label{At: at, Text: t.Text, Class: minor(t), Anchor: anchor(at)})
	}
}

// anchor returns the alignment that keeps a label at a position inside of the chart.
func anchor(at float64) string {
	switch {
	case at < 6:
		return "start"
	case at > 94:
		return "end"
	}
	return "middle"
}

func minor(t Tick) string {
	if t.Minor {
		return "minor"
	}
	return ""
}

// Series is a sequence of points. A NaN interrupts the line.
type Series struct {
	Name string
	X, Y []float64
	// Low and High are the limits of a band around the line; nil means none.
	Low, High []float64
	Line      bool
	Dots      bool
	Diamond   bool // shape of the dots
	Hollow    func(i int) bool
	Titles    []string // texts of the dots
	Class     string   // color; "" means the next one
}

// XY is a chart of lines and points.
type XY struct {
	Text
	YName    string
	X, Y     Axis
	Series   []Series
	Zone     [2]float64 // marked vertical range; equal limits mean none
	ZoneIs   string
	HollowIs string // meaning of hollow dots; "" means none
}

// XY appends a chart of lines and points.
func (p *Page) XY(c XY) {
	f := p.newFigure(c.Text)
	f.Y = c.YName
	d := plot{}
	if c.Zone[0] < c.Zone[1] {
		top, bottom := 100-c.Y.place(c.Zone[1]), 100-c.Y.place(c.Zone[0])
		d.Bands = append(d.Bands, rect{0, rounded(top), 100, rounded(bottom - top), "zone", ""})
		f.Legend = append(f.Legend, legend{c.ZoneIs, "zone", "area"})
	}
	d.axes(&c.X, &c.Y)
	for i, s := range c.Series {
		class := s.Class
		if class == "" {
			class = fmt.Sprintf("s%d", i%6+1)
		}
		kind := "line"
		if !s.Line {
			kind = "dot"
			if s.Diamond {
				kind = "diamond"
			}
		}
		f.Legend = append(f.Legend, legend{s.Name, class, kind})
		d.series(&c, &s, class)
	}
	if c.HollowIs != "" {
		f.Legend = append(f.Legend, legend{c.HollowIs, "s0", "hollow"})
	}
	if len(c.Series) < 2 && len(f.Legend) < 2 {
		f.Legend = nil
	}
	f.Plots = []plot{d}
}

func (d *plot) series(c *XY, s *Series, class string) {
	at := func(i int, v float64) (x, y float64) { return c.X.place(s.X[i]), rounded(100 - c.Y.place(v)) }
	if s.Low != nil {
		var b strings.Builder
		for i := range s.X {
			if !math.IsNaN(s.High[i]) {
				x, y := at(i, s.High[i])
				fmt.Fprintf(&b, "%c%g %g", verb(b.Len() == 0), x, y)
			}
		}
		for i := len(s.X) - 1; i >= 0; i-- {
			if !math.IsNaN(s.Low[i]) {
				x, y := at(i, s.Low[i])
				fmt.Fprintf(&b, "L%g %g", x, y)
			}
		}
		if b.Len() > 0 {
			d.Paths = append(d.Paths, path{b.String() + "Z", "band " + class})
		}
	}
	var b strings.Builder
	begins := true
	for i, v := range s.Y {
		if math.IsNaN(v) {
			begins = true
			continue
		}
		x, y := at(i, v)
		if s.Line {
			fmt.Fprintf(&b, "%c%g %g", verb(begins), x, y)
			begins = false
		}
		if s.Dots {
			m := dot{X: x, Y: y, Class: class, Diamond: s.Diamond, Hollow: s.Hollow != nil && s.Hollow(i)}
			if i < len(s.Titles) {
				m.Title = s.Titles[i]
			}
			d.Dots = append(d.Dots, m)
		}
	}
	if b.Len() > 0 {
		d.Paths = append(d.Paths, path{b.String(), "line " + class})
	}
}

func verb(first bool) byte {
	if first {
		return 'M'
	}
	return 'L'
}
