package trend

import (
	"fmt"
	"math"
	"slices"

	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/ui/page"
	"fettle.dev/fettle/internal/unit"
)

// tones are the colors of the verdicts; the words state the same.
var tones = map[Verdict]page.Tone{Worse: page.Bad, Better: page.Good, NoChange: page.Soft, CannotTell: page.Warn}

// Page fills the screen's page: the answer, and each series with its levels.
func (r *Report) Page(s *ui.Screen) {
	p := s.Page
	p.Tone = tones[r.Series[0].Verdict]
	ui.PrintHeadline(s, &r.Headline)
	p.Note(r.Caution)
	p.Note(fmt.Sprintf("if no series had changed, a change would ever be found with a probability of at most %s %% (for independent, normally distributed measurements, looked at after each one; simulated, see the manual)", unit.Percent(r.Alpha)))
	r.grid().Write(s)
	for i := range r.Series {
		p.Heading(r.Series[i].Name)
		r.Series[i].draw(p)
		r.Series[i].printChanges(s, r.Since)
	}
}

// draw draws the points and levels of a series.
func (s *Series) draw(p *page.Page) {
	dots := page.Series{Name: "one measurement", Dots: true, Class: "s0"}
	g := ui.Grid{Columns: []ui.Column{{Head: "measurement"}, {Head: "time"}, {Head: "value", Right: true}}}
	timed := s.times()
	xs := make([]float64, len(s.Points))
	values := make([]float64, len(s.Points))
	for i, q := range s.Points {
		xs[i], values[i] = float64(i+1), q.Value
		at := ""
		if !q.Time.IsZero() {
			at = q.Time.UTC().Format(stamp + " UTC")
		}
		if timed {
			xs[i] = float64(q.Time.UnixMicro()) / 1e6
		}
		dots.Titles = append(dots.Titles, fmt.Sprintf("%s, %s: %s", q.Label, at, withUnit(q.Value, s.Unit)))
		g.Rows = append(g.Rows, []string{q.Label, at, withUnit(q.Value, s.Unit)})
	}
	dots.X, dots.Y, dots.Hollow = xs, values, s.unsure
	tick := func(v float64) string { return unit.Decimals(v, 9) }
	c := page.XY{Text: page.Text{Title: s.Name, About: "Lines are levels; a new one begins where the level most probably changed.", Values: g.Table("")},
		YName: s.Unit, X: page.Linear(1, float64(len(xs)), tick), Y: page.Linear(slices.Min(values), slices.Max(values), tick)}
	if timed {
		c.X = page.Time(s.Points[0].Time, s.Points[len(s.Points)-1].Time)
	}
	if low, high := slices.Min(values), slices.Max(values); low > 0 && high > 20*low {
		c.Y = page.Logarithmic(low, high, tick)
	}
	if slices.ContainsFunc(s.Changes, func(c Change) bool { return c.Earliest < c.Latest }) {
		c.HollowIs = "before or after the change"
	}
	c.Series = append(c.Series, dots, s.levels(xs))
	p.XY(c)
}

// unsure reports whether it is uncertain on which side of a change point i is: it is within the
// change's 95 % interval.
func (s *Series) unsure(i int) bool {
	return slices.ContainsFunc(s.Changes, func(c Change) bool { return c.Earliest <= i && i < c.Latest })
}

// levels returns the lines of the levels.
func (s *Series) levels(xs []float64) page.Series {
	l := page.Series{Name: "level", Line: true, Class: "s1"}
	from, value := 0, s.last()
	if len(s.Changes) > 0 {
		value = s.Changes[0].Before
	}
	add := func(to int) {
		l.X = append(l.X, xs[from], xs[to-1], xs[to-1])
		l.Y = append(l.Y, value, value, math.NaN()) // interrupts the line
	}
	for _, c := range s.Changes {
		add(c.At)
		from, value = c.At, c.After
	}
	add(len(xs))
	return l
}
