package page

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/measure/memory"
	"fettle.dev/fettle/internal/measure/postgres"
	"fettle.dev/fettle/internal/requests/load"
	"fettle.dev/fettle/internal/requests/load/mqtt"
	"fettle.dev/fettle/internal/stats"
)

// bench holds the parts of the page for a measurement without a change.
type bench struct {
	Notes  []string // warnings for the reader
	Disks  *disks   // only of a bench of disks
	Series []series
	Curves []curve
}

// series holds the samples of one measure, in their order.
type series struct {
	Name, Median, Spread, Better string
	N                            int
	Dots                         []float64 // places in percent of the width
	Values                       string
}

// curve is the data of a chart and its table.
type curve struct {
	evidence.Curve
	Head []string
	Rows [][]string
}

func newBench(r *evidence.Run) (*bench, error) {
	all, err := evidence.SeriesOf(r)
	if err != nil {
		return nil, err
	}
	b := &bench{}
	if b.Disks, b.Notes, err = newDisks(r); err != nil {
		return nil, err
	}
	others, err := notes(r)
	if err != nil {
		return nil, err
	}
	b.Notes = append(b.Notes, others...)
	for _, s := range all {
		v := series{Name: s.Name, N: len(s.Samples), Better: "less is better"}
		if s.More {
			v.Better = "more is better"
		}
		if v.N > 0 {
			low, high := slices.Min(s.Samples), slices.Max(s.Samples)
			v.Median = amount(stats.Median(s.Samples), s.Unit)
			if mid := stats.Median(s.Samples); v.N > 1 && mid != 0 {
				v.Spread = fmt.Sprintf("%s to %s (%s %%)", digits(low), digits(high), plain((high-low)/math.Abs(mid)))
			}
			for i, x := range s.Samples {
				place := 50.0
				if high > low {
					place = 4 + 92*(x-low)/(high-low)
				}
				if i < mostRows {
					v.Dots = append(v.Dots, round(place))
				}
				if i > 0 {
					v.Values += ", "
				}
				v.Values += digits(x)
			}
		}
		b.Series = append(b.Series, v)
	}
	curves, err := evidence.CurvesOf(r)
	if err != nil {
		return nil, err
	}
	for _, c := range curves {
		b.Curves = append(b.Curves, newCurve(c))
	}
	return b, nil
}

// notes lists the measurements that were left out and other warnings of a run.
func notes(r *evidence.Run) (out []string, err error) {
	switch r.Kind {
	case "bench-memory":
		var b memory.Result
		err = json.Unmarshal(r.Body, &b)
		for _, l := range b.Left {
			out = append(out, "not measured: "+l.Cell+": "+l.Why)
		}
	case "bench-postgres":
		var b postgres.Result
		err = json.Unmarshal(r.Body, &b)
		for _, f := range b.Failed {
			out = append(out, "not measured: "+f.String())
		}
		if b.InCache != "" {
			out = append(out, b.InCache)
		}
	case load.Kind:
		var x load.Result
		err = json.Unmarshal(r.Body, &x)
		out = x.Generator.Texts
	case mqtt.Kind:
		var x mqtt.Result
		err = json.Unmarshal(r.Body, &x)
		out = x.Generator.Texts
	}
	return out, err
}

// newCurve adds the table, with a row for each x of any line.
func newCurve(c evidence.Curve) curve {
	c.Lines = slices.Clone(c.Lines)
	for i := range c.Lines {
		c.Lines[i].Name = printable(c.Lines[i].Name)
		c.Lines[i].Doubts = slices.Clone(c.Lines[i].Doubts)
		for j, d := range c.Lines[i].Doubts {
			c.Lines[i].Doubts[j] = printable(d)
		}
	}
	for _, a := range []*evidence.Axis{&c.X, &c.Y} {
		a.Name, a.Unit = printable(a.Name), printable(a.Unit)
	}
	c.Name = printable(c.Name)
	v := curve{Curve: c, Head: []string{label(c.X)}}
	values := map[float64][]string{}
	var xs []float64
	for i, l := range c.Lines {
		v.Head = append(v.Head, l.Name)
		for j, p := range l.Points {
			if values[p[0]] == nil {
				values[p[0]] = make([]string, len(c.Lines))
				xs = append(xs, p[0])
			}
			values[p[0]][i] = digits(p[1])
			if len(l.Doubts) > 0 && l.Doubts[j] != "" {
				values[p[0]][i] += " (" + l.Doubts[j] + ")"
			}
		}
	}
	slices.Sort(xs)
	for _, x := range xs {
		v.Rows = append(v.Rows, append([]string{digits(x)}, values[x]...))
	}
	return v
}

// label returns the name and the unit of an axis.
func label(a evidence.Axis) string {
	if a.Unit == "" {
		return a.Name
	}
	return a.Name + " (" + a.Unit + ")"
}
