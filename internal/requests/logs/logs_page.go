package logs

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/ui/page"
	"fettle.dev/fettle/internal/unit"
)

// Page prints a report as an HTML page: the headline, charts over time, and all groups.
func Page(s *ui.Screen, r *Report) {
	p := s.Page
	for _, l := range slices.Concat(r.Headline.Lines, NoUnit(r.Logs)) {
		p.Headline(l)
	}
	for _, l := range slices.Concat(NotWhole(r.Logs, r.NotRead), notes(r, mostExamples), Times(r)) {
		p.Note(l)
	}
	for _, step := range next(s, r) {
		p.Line(strings.ToUpper(step.Text[:1]) + step.Text[1:] + ":")
		p.Command(step.Command)
	}
	if r.slots != nil && len(r.slots.by) > 0 {
		c := newColumns(r)
		p.Heading("latency over time")
		c.quantiles(p)
		c.heat(p)
		c.histogram(p)
		p.Heading("errors and status")
		c.errors(p)
		c.statuses(p)
	}
	busyChart(p, r)
	for i := range r.By {
		g := grouping(r, &r.By[i], len(r.By[i].Top))
		p.Heading("by " + strings.Join(r.By[i].By, " and "))
		p.Table(g.Table(""))
		if n := r.By[i].Groups - len(r.By[i].Top); n > 0 {
			p.Line(fmt.Sprintf("%s of %s groups are not shown; --top 0 shows all.", unit.Thousands(uint64(n)), unit.Thousands(uint64(r.By[i].Groups))))
		}
	}
	if len(r.Hours) > 1 {
		g := hours(r)
		p.Heading("by hour")
		p.Table(g.Table(""))
	}
	if len(r.Slowest) > 0 {
		p.Heading("slowest requests")
		g := slowestGrid(r, r.Slowest)
		p.Table(g.Table(""))
	}
	p.Heading("logs")
	g := ui.Grid{Columns: []ui.Column{{Head: "log"}, {Head: "format", Cut: true}, {Head: "why", Cut: true}}, Rows: logRows(r.Logs)}
	p.Table(g.Table(""))
}

// mostColumns limits the columns of a chart over time.
const mostColumns = 120

// columns holds the columns of the charts over time, each from one or more slots.
type columns struct {
	r     *Report
	x     page.Axis
	edges []float64 // seconds since 1970
	slots []*slot
	all   slot
	timed bool
}

func newColumns(r *Report) *columns {
	order := slices.Sorted(maps.Keys(r.slots.by))
	first, last := order[0], order[len(order)-1]
	width := (last-first)/mostColumns + 1
	step := steps[r.slots.step] * width
	begin := first * steps[r.slots.step]
	c := &columns{r: r}
	n := (last-first)/width + 1
	for i := range n + 1 {
		c.edges = append(c.edges, float64(begin+i*step)/1e6)
	}
	c.slots = make([]*slot, n)
	for _, at := range order {
		i := (at - first) / width
		if c.slots[i] == nil {
			c.slots[i] = &slot{}
		}
		c.slots[i].merge(r.slots.by[at])
		c.all.merge(r.slots.by[at])
	}
	c.x = page.Time(time.UnixMicro(begin).UTC(), time.UnixMicro(begin+n*step).UTC())
	c.timed = r.All.MeanS != nil
	return c
}

// at formats the time at which column i begins.
func (c *columns) at(i int) string {
	t := time.UnixMicro(int64(c.edges[i] * 1e6))
	return clock(c.r, &t)
}

// about describes the columns and their length.
func (c *columns) about() string {
	zoneOf := "times as logged"
	if zone(c.r) != "" {
		zoneOf = "times in UTC"
	}
	return fmt.Sprintf("In intervals of %s, %s.", unit.FormatSeconds(c.edges[1]-c.edges[0]), zoneOf)
}

// bounds returns the shortest and the longest duration, in seconds.
func (c *columns) bounds() (low, high float64) {
	low, high = math.Inf(1), 0
	c.all.took.each(func(b uint16, _ uint64) {
		v := max(middle(int(b)), 1) / 1e6
		low, high = min(low, v), max(high, v)
	})
	return low, high
}

// unlimited is the widest range of values; quantiles computed with it are not clamped.
var unlimited = &Stats{Max: math.MaxUint64}

func (c *columns) quantiles(p *page.Page) {
	if !c.timed {
		return
	}
	series := []page.Series{{Name: "p50", Line: true}, {Name: "p99", Line: true}}
	values := page.Table{Columns: []page.Column{{Head: "interval begins"}, {Head: "requests", Right: true}, {Head: "p50", Right: true}, {Head: "p99", Right: true}}}
	low, high := math.Inf(1), 0.0
	for i, s := range c.slots {
		q := []float64{math.NaN(), math.NaN()}
		if s != nil {
			q = s.took.quantiles(unlimited, []float64{.5, .99})
		}
		for k := range series {
			v := max(q[k], 1) / 1e6
			if math.IsNaN(q[k]) {
				v = math.NaN()
			} else {
				low, high = min(low, v), max(high, v)
			}
			series[k].X, series[k].Y = append(series[k].X, (c.edges[i]+c.edges[i+1])/2), append(series[k].Y, v)
		}
		if s != nil {
			values.Rows = append(values.Rows, []string{c.at(i), unit.Thousands(s.requests()), seconds(q[0] / 1e6), seconds(q[1] / 1e6)})
		}
	}
	if math.IsInf(low, 1) {
		return
	}
	p.XY(page.XY{Text: page.Text{Title: "Latency: median and 99th percentile", About: "Half of the requests of an interval took at most p50, 99 of 100 at most p99. " + c.about(), Values: values},
		YName: "duration, logarithmic", X: c.x, Y: page.Logarithmic(low, high, unit.FormatSeconds), Series: series})
}

func seconds(v float64) string {
	if math.IsNaN(v) {
		return "-"
	}
	return unit.FormatSeconds(v)
}

func (s *slot) requests() (n uint64) {
	for _, k := range s.classes {
		n += k
	}
	return n
}

// classEdges returns the edges of duration classes, perDecade classes for each factor of ten.
func classEdges(low, high float64, perDecade int) (edges []float64) {
	k := math.Floor(math.Log10(low)*float64(perDecade) + 1e-9)
	for {
		edge := math.Pow(10, k/float64(perDecade))
		edges = append(edges, edge)
		if edge > high && len(edges) > 1 {
			return edges
		}
		k++
	}
}

// classOf returns the class of a bucket.
func classOf(edges []float64, b uint16) int {
	v := max(middle(int(b)), 1) / 1e6
	i, found := slices.BinarySearch(edges, v)
	if !found {
		i--
	}
	return max(0, min(i, len(edges)-2))
}

// axisOf returns the chart axis for edges.
func axisOf(edges []float64) page.Axis {
	a := page.Logarithmic(edges[0], edges[len(edges)-1], unit.FormatSeconds)
	a.Min, a.Max = edges[0], edges[len(edges)-1]
	a.Ticks = slices.DeleteFunc(a.Ticks, func(t page.Tick) bool { return t.At < a.Min*.999 || t.At > a.Max*1.001 })
	return a
}

func (c *columns) heat(p *page.Page) {
	if !c.timed || len(c.slots) < 2 {
		return
	}
	low, high := c.bounds()
	edges := classEdges(low, high, 5)
	h := page.Heat{YName: "duration, logarithmic", X: c.x, Y: axisOf(edges), XEdges: c.edges, YEdges: edges}
	values := page.Table{Columns: []page.Column{{Head: "interval begins"}}}
	for _, edge := range edges[:len(edges)-1] {
		values.Columns = append(values.Columns, page.Column{Head: "from " + unit.FormatSeconds(edge), Right: true})
	}
	for i, s := range c.slots {
		column := make([]float64, len(edges)-1)
		if s != nil {
			s.took.each(func(b uint16, n uint64) { column[classOf(edges, b)] += float64(n) })
		}
		row := []string{c.at(i)}
		for _, n := range column {
			row = append(row, unit.Thousands(uint64(n)))
		}
		values.Rows = append(values.Rows, row)
		h.Of = append(h.Of, column)
	}
	h.Title = func(col, row int) string {
		return fmt.Sprintf("%s, %s to %s: %s", c.at(col), unit.FormatSeconds(edges[row]), unit.FormatSeconds(edges[row+1]), text.CountPlural(uint64(h.Of[col][row]), "request", "requests"))
	}
	h.Text = page.Text{Title: "Requests by time and latency", About: "Each cell is an interval of time and a range of durations; the stronger the color, the more requests. " + c.about(), Values: values}
	p.Heat(h)
}

func (c *columns) histogram(p *page.Page) {
	if !c.timed {
		return
	}
	low, high := c.bounds()
	edges := classEdges(low, high, 10)
	of := make([]float64, len(edges)-1)
	sum := 0.0
	c.all.took.each(func(b uint16, n uint64) { of[classOf(edges, b)] += float64(n); sum += float64(n) })
	values := page.Table{Columns: []page.Column{{Head: "from", Right: true}, {Head: "to", Right: true}, {Head: "requests", Right: true}, {Head: "share", Right: true}}}
	var titles []string
	for i, n := range of {
		row := []string{unit.FormatSeconds(edges[i]), unit.FormatSeconds(edges[i+1]), unit.Thousands(uint64(n)), page.Percent(n / sum)}
		values.Rows = append(values.Rows, row)
		titles = append(titles, fmt.Sprintf("%s to %s: %s, %s", row[0], row[1], text.CountPlural(uint64(n), "request", "requests"), row[3]))
	}
	p.Bars(page.Bars{Text: page.Text{Title: "Distribution of latency", About: "Number of requests by duration, in ten classes for each factor of ten.", Values: values},
		YName: "requests", X: axisOf(edges), Edges: edges, Parts: []page.Part{{Name: "requests", Of: of}}, Titles: titles, Format: unit.Digits})
}

// classNames holds the names and colors of the status classes, by hundreds.
var classNames = [numClasses]page.Part{{Name: "no status", Class: "s0"}, {Name: "1xx", Class: "s4"}, {Name: "2xx", Class: "s1"}, {Name: "3xx", Class: "s6"}, {Name: "4xx", Class: "warn"}, {Name: "5xx", Class: "bad"}}

func (c *columns) errors(p *page.Page) {
	if c.all.classes[4]+c.all.classes[5] == 0 {
		p.Line("No request was answered with 4xx or 5xx.")
		return
	}
	parts := []page.Part{classNames[5], classNames[4]}
	values := page.Table{Columns: []page.Column{{Head: "interval begins"}, {Head: "requests", Right: true}, {Head: "5xx", Right: true}, {Head: "4xx", Right: true}}}
	var titles []string
	for i, s := range c.slots {
		if s == nil {
			s = &slot{}
		}
		parts[0].Of, parts[1].Of = append(parts[0].Of, float64(s.classes[5])), append(parts[1].Of, float64(s.classes[4]))
		titles = append(titles, text.Sprintf("%s: %d with 5xx, %d with 4xx, of %s", c.at(i), s.classes[5], s.classes[4], text.CountPlural(s.requests(), "request", "requests")))
		if s.classes[4]+s.classes[5] > 0 {
			values.Rows = append(values.Rows, []string{c.at(i), unit.Thousands(s.requests()), unit.Thousands(s.classes[5]), unit.Thousands(s.classes[4])})
		}
	}
	p.Bars(page.Bars{Text: page.Text{Title: "Errors over time", About: "Requests that were answered with 5xx (errors of the server) and 4xx (of the client). " + c.about(), Values: values},
		YName: "requests", X: c.x, Edges: c.edges, Parts: parts, Titles: titles, Format: unit.Digits})
}

func (c *columns) statuses(p *page.Page) {
	values := page.Table{Columns: []page.Column{{Head: "status"}, {Head: "requests", Right: true}, {Head: "share", Right: true}}}
	var parts []page.Part
	sum := float64(c.all.requests())
	for _, k := range []int{2, 3, 1, 4, 5, 0} {
		n := c.all.classes[k]
		if n == 0 {
			continue
		}
		part := classNames[k]
		part.Of = []float64{float64(n)}
		parts = append(parts, part)
		values.Rows = append(values.Rows, []string{part.Name, unit.Thousands(n), page.Percent(float64(n) / sum)})
	}
	p.Shares(page.Text{Title: "Status classes", About: "Share of each status class (2xx, 3xx, ...) in all requests.", Values: values}, parts)
}

// busyChart draws the requests in progress.
func busyChart(p *page.Page, r *Report) {
	m := r.Busy.Minutes
	if len(m) < 2 || r.All.MeanS == nil {
		return
	}
	first, last := m[0].Start, m[len(m)-1].Start
	step := time.Duration(r.Busy.MinuteS * float64(time.Second))
	width := time.Duration(int(last.Sub(first)/step)/mostColumns+1) * step
	n := int(last.Sub(first)/width) + 1
	busy := page.Series{Name: "requests in progress", Line: true, X: make([]float64, n), Y: make([]float64, n)}
	for i := range n {
		busy.X[i] = float64(first.Add(time.Duration(i)*width).UnixMicro())/1e6 + width.Seconds()/2
	}
	most := 0.0
	for _, x := range m { // the maximum of a column counts
		i := int(x.Start.Sub(first) / width)
		busy.Y[i] = max(busy.Y[i], x.Busy)
		most = max(most, x.Busy)
	}
	values := page.Table{Columns: []page.Column{{Head: "interval begins"}, {Head: "in progress", Right: true}}}
	for i := range n {
		t := first.Add(time.Duration(i) * width)
		values.Rows = append(values.Rows, []string{clock(r, &t), decimal(busy.Y[i])})
	}
	p.Heading("requests in progress")
	p.XY(page.XY{Text: page.Text{Title: "Requests in progress", About: fmt.Sprintf("Means over %s; the chart shows the highest mean of each of its intervals.", unit.FormatSeconds(r.Busy.MinuteS)), Values: values},
		YName: "requests", X: page.Time(first, first.Add(time.Duration(n)*width)), Y: page.Linear(0, most, unit.Digits), Series: []page.Series{busy}})
}

// ComparisonPage prints a comparison as a page.
func ComparisonPage(s *ui.Screen, c *Comparison) {
	p := s.Page
	for _, l := range c.Headline.Lines {
		p.Headline(l)
	}
	for _, l := range slices.Concat(comparedNotWhole(c), comparedNotes(c)) {
		p.Note(l)
	}
	if step, ok := comparedNext(s, c); ok {
		p.Line(strings.ToUpper(step.Text[:1]) + step.Text[1:] + ":")
		p.Command(step.Command)
	}
	changesChart(p, c)
	p.Heading("by " + strings.Join(c.By, " and "))
	g := comparedGroups(c, len(c.Groups))
	p.Table(g.Table(""))
	if c.More > 0 {
		p.Line(fmt.Sprintf("%s are not shown; --top 0 shows all.", text.CountPlural(uint64(c.More), "group", "groups")))
	}
	p.Heading("logs")
	logs := comparedLogs(c, true)
	p.Table(logs.Table(""))
}

// signedTick formats percent with a sign.
func signedTick(v float64) string {
	if v == 0 {
		return "0 %"
	}
	if v > 0 {
		return "+" + unit.Digits(v) + " %"
	}
	return unit.Digits(v) + " %"
}

// mostChanges is the maximum number of groups in the chart of a comparison.
const mostChanges = 12

// changesChart draws the change of all requests and of the first groups that have an interval.
func changesChart(p *page.Page, c *Comparison) {
	tones := map[string]page.Tone{"slower": page.Bad, "faster": page.Good}
	var rows []page.Interval
	low, high := -1.0, 1.0
	add := func(name string, x *Change) {
		if x.Ratio == nil || x.Low == nil || len(rows) > mostChanges {
			return
		}
		percent := func(ratio float64) float64 { return 100 * (ratio - 1) }
		r := page.Interval{Name: name, Value: x.short(), At: percent(*x.Ratio), Low: percent(*x.Low), High: percent(*x.High), Bounded: true, Tone: page.Soft}
		if t, ok := tones[x.Verdict]; ok {
			r.Tone = t
		}
		low, high = min(low, r.Low), max(high, r.High)
		rows = append(rows, r)
	}
	add("all requests", &c.All)
	for i := range c.Groups {
		add(keyed(c.Groups[i].Key), &c.Groups[i])
	}
	if len(rows) == 0 {
		return
	}
	p.Heading("changes")
	p.Intervals(page.Intervals{Text: page.Text{Title: "Change of the mean latency", About: "In percent, right of 0 is slower; the bar is the 95 % confidence interval. The table of groups has the values."},
		X: page.Linear(low, high, signedTick), Rows: rows})
}
