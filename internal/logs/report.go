package logs

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"fettle.dev/fettle/internal/logs/format"
	"fettle.dev/fettle/internal/logs/group"
	"fettle.dev/fettle/internal/logs/source"
)

// Report is the JSON form of what logs say.
type Report struct {
	Schema   string     `json:"schema"` // fettle/logs/v1
	Logs     []LogRead  `json:"logs"`
	Requests uint64     `json:"requests"`
	First    *time.Time `json:"first,omitempty"` // when the first request came, and the last
	Last     *time.Time `json:"last,omitempty"`
	SpanS    float64    `json:"span_s"`
	All      Group      `json:"all"`
	// LeftOut are requests that --where, --since or --until left out.
	LeftOut uint64 `json:"left_out"`
	// OtherLines are lines of the format that are no requests.
	OtherLines uint64      `json:"other_lines"`
	Unread     UnreadLines `json:"unread"`
	Unended    int         `json:"unended,omitempty"` // requests that began and did not end
	Unbegun    int         `json:"unbegun,omitempty"` // requests whose beginning is in no log
	WentTo     *Group      `json:"went_to,omitempty"` // the group of the first grouping that took most time
	By         []Grouping  `json:"by"`
	Busy       Busy        `json:"busy"`
	Hours      []Group     `json:"hours"`
	Slowest    []SlowLine  `json:"slowest"`
}

// LogRead is a log and how it was read.
type LogRead struct {
	Path       string `json:"path"`
	SizeBytes  int64  `json:"size_bytes"`
	Format     string `json:"format"`
	FormatText string `json:"format_text"` // as the server's configuration has it
	Why        string `json:"why"`
	// Duration is the field of the format that says how long a request took, and its
	// unit; without one nothing is said of time.
	Duration     string `json:"duration,omitempty"`
	DurationUnit string `json:"duration_unit,omitempty"`
	// TimeIsEnd says that the lines have the time of the answer.
	TimeIsEnd bool `json:"time_is_end"`
	NoZone    bool `json:"no_zone"`           // times without a zone, read as UTC
	NoTime    bool `json:"no_time,omitempty"` // the lines do not say when
	// Cut is why the log could not be read to its end. What came before counts.
	Cut string `json:"cut,omitempty"`
}

// UnreadLines are lines that are not of their log's format.
type UnreadLines struct {
	Lines    uint64       `json:"lines"`
	TooLong  uint64       `json:"too_long"` // of them, longer than a MiB
	Examples []UnreadLine `json:"examples"`
}

// UnreadLine is one of them.
type UnreadLine struct {
	Path string `json:"path"`
	Line int    `json:"line,omitempty"` // of a log that is followed it is not known
	Text string `json:"text"`
}

// Grouping is the requests by one dimension or several.
type Grouping struct {
	By     []string `json:"by"`
	Groups int      `json:"groups"` // how many there are; Top are the first of them
	Top    []Group  `json:"top"`
	Folded *Group   `json:"folded,omitempty"` // what came beyond the most groups
}

// Group is what is known of a group of requests. What is absent no line says.
type Group struct {
	Key        []string           `json:"key"`
	Count      uint64             `json:"count"`
	RatePerS   float64            `json:"rate_per_s"`
	Errors     uint32             `json:"errors"`            // status 500 and above
	Untimed    uint32             `json:"untimed,omitempty"` // requests without a duration
	TotalS     float64            `json:"total_s"`
	Share      *float64           `json:"share,omitempty"` // of the time of all requests
	MeanS      *float64           `json:"mean_s,omitempty"`
	DeviationS *float64           `json:"deviation_s,omitempty"`
	MinS       *float64           `json:"min_s,omitempty"`
	MaxS       *float64           `json:"max_s,omitempty"`
	QuantilesS map[string]float64 `json:"quantiles_s,omitempty"` // p50, p90, p95, p99, p99.9; each within 0.8 %
}

// Busy says how many requests were at work at a time.
type Busy struct {
	StepS   float64    `json:"step_s"` // of what follows: the shortest stretch of time that is kept apart
	Mean    float64    `json:"mean"`
	Most    float64    `json:"most"` // in one step, on average
	MostAt  *time.Time `json:"most_at,omitempty"`
	Minute  *Minute    `json:"busiest_minute,omitempty"` // in which most requests came
	Minutes []Minute   `json:"minutes"`                  // or longer stretches, of a long log
	MinuteS float64    `json:"minute_s"`                 // how long these are
}

// Minute is a stretch of time.
type Minute struct {
	Start    time.Time `json:"start"`
	Requests uint64    `json:"requests"`
	Errors   uint64    `json:"errors"`
	Busy     float64   `json:"busy"`
}

// SlowLine is one of the slowest requests.
type SlowLine struct {
	Time  time.Time `json:"time,omitzero"` // absent of logs that do not say when
	TookS float64   `json:"took_s"`
	Line  string    `json:"line"`
}

// Sorts are the words for --sort: each is a statistic by which groups are ordered, the
// largest first.
var Sorts = []string{"total", "count", "mean", "max", "errors", "p50", "p90", "p95", "p99", "p99.9"}

var quantiles = []struct {
	name string
	q    float64
}{{"p50", .5}, {"p90", .9}, {"p95", .95}, {"p99", .99}, {"p99.9", .999}}

// LogOf is a log and its format.
func LogOf(l source.Log, f *format.Format) LogRead {
	read := LogRead{Path: l.Path, SizeBytes: l.Size, Format: f.Name, FormatText: f.Source, Why: f.Why, TimeIsEnd: f.TimeIsEnd, NoZone: f.NoZone, NoTime: f.Field(format.FieldTime) < 0}
	if d := f.Field(format.FieldDuration); d >= 0 {
		read.Duration, read.DurationUnit = f.Fields[d].Asked, format.UnitName(f.Fields[d].Unit)
	}
	return read
}

// span is from the first request to the last, in seconds: a Duration has no more than 292
// years, and a line with a wrong year is read.
func (r *Result) span() float64 {
	if r.Requests == 0 {
		return 0
	}
	return float64(r.last-r.first) / 1e6
}

// Nothing says that there are lines, and none could be read.
func (r *Result) Nothing() bool {
	return r.Unread.Lines > 0 && r.Requests+r.Left+r.Others == 0 && r.Unended+r.Unbegun == 0
}

// timeless says that no line has a time: requests that are said to have come in 1970 came
// at no time that is known.
func (r *Result) timeless() bool {
	return len(r.Logs) > 0 && !slices.ContainsFunc(r.Logs, func(l LogRead) bool { return !l.NoTime })
}

// Report makes the report of what was read, with the top groups of each grouping by a
// word of Sorts; top 0 is all of them.
func (r *Result) Report(sort string, top int) *Report {
	out := &Report{Schema: "fettle/logs/v1", Logs: r.Logs, Requests: r.Requests, LeftOut: r.Left, OtherLines: r.Others, Unended: r.Unended, Unbegun: r.Unbegun,
		Unread: r.Unread, By: []Grouping{}, Hours: []Group{}, Slowest: append([]SlowLine{}, r.Slowest...)}
	span := r.span()
	timed := !r.timeless()
	if r.Requests > 0 && timed {
		first, last := time.UnixMicro(r.first).UTC(), time.UnixMicro(r.last).UTC()
		out.First, out.Last, out.SpanS = &first, &last, span
	}
	r.all = r.Hours.Sum()
	out.All = r.group(r.all, 0, []string{}, span)
	for t, table := range r.Tables {
		g := Grouping{By: r.By[t], Groups: table.Len(), Top: []Group{}}
		for _, i := range order(table, sort, top) {
			g.Top = append(g.Top, r.group(table, i, key(table.Text(i)), span))
		}
		if table.Other.Count > 0 {
			folded := r.stats(&table.Other, []string{}, span)
			g.Folded = &folded
		}
		out.By = append(out.By, g)
	}
	if len(r.Tables) > 0 && out.All.MeanS != nil {
		most := order(r.Tables[0], "total", 1)[0]
		g := r.group(r.Tables[0], most, key(r.Tables[0].Text(most)), span)
		out.WentTo = &g
	}
	if !timed {
		for i := range out.Slowest {
			out.Slowest[i].Time = time.Time{}
		}
		out.Busy.Minutes = []Minute{}
		return out
	}
	for _, i := range byKey(r.Hours) {
		out.Hours = append(out.Hours, r.group(r.Hours, i, key(r.Hours.Text(i)), 3600))
	}
	out.Busy = r.busy()
	return out
}

func (r *Result) busy() Busy {
	b := Busy{Minutes: []Minute{}}
	step, moments := r.Moments(0)
	b.StepS = step.Seconds()
	var most time.Time
	for m := range moments {
		if m.Busy > b.Most {
			b.Most, most = m.Busy, m.Start
		}
	}
	if b.Most > 0 {
		b.MostAt = &most
	}
	if span := r.span(); span > 0 {
		b.Mean = float64(r.all.At(0).Sum) / 1e6 / span
	}
	step, moments = r.Moments(time.Minute)
	b.MinuteS = step.Seconds()
	for m := range moments {
		b.Minutes = append(b.Minutes, Minute{m.Start, m.Count, m.Errors, m.Busy})
		if last := &b.Minutes[len(b.Minutes)-1]; b.Minute == nil || m.Count > b.Minute.Requests {
			busiest := *last
			b.Minute = &busiest
		}
	}
	return b
}

// key takes a group's key apart.
func key(text []byte) []string {
	var out []string
	for _, part := range bytes.Split(text, []byte{group.Separator}) {
		out = append(out, shown(part))
	}
	return out
}

// shown is a text for people and JSON: bytes that are of no character are \xhh.
func shown(text []byte) string {
	if utf8.Valid(text) {
		return string(text)
	}
	var b strings.Builder
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		if r == utf8.RuneError && n == 1 {
			fmt.Fprintf(&b, `\x%02x`, text[0])
		} else {
			b.Write(text[:n])
		}
		text = text[n:]
	}
	return b.String()
}

func byKey(t *group.Table) []int {
	all := make([]int, t.Len())
	for i := range all {
		all[i] = i
	}
	slices.SortFunc(all, func(a, b int) int { return bytes.Compare(t.Text(a), t.Text(b)) })
	return all
}

// order is the groups of a table by a word of Sorts, the largest first, those of the
// same size by their keys; the first top of them, or all for 0.
func order(t *group.Table, by string, top int) []int {
	type ranked struct {
		i     int
		worth float64
	}
	before := func(a, b ranked) int {
		if c := cmp.Compare(b.worth, a.worth); c != 0 {
			return c
		}
		return bytes.Compare(t.Text(a.i), t.Text(b.i))
	}
	// Of hundreds of thousands twenty are wanted: to sort all would take as long as to
	// read a quarter of the log.
	few := top > 0 && top <= 1000
	var best []ranked
	for i := range t.Len() {
		one := ranked{i, worth(t, i, by)}
		if !few {
			best = append(best, one)
			continue
		}
		if len(best) == top {
			if before(one, best[top-1]) > 0 {
				continue
			}
			best = best[:top-1]
		}
		at, _ := slices.BinarySearchFunc(best, one, before)
		best = slices.Insert(best, at, one)
	}
	if !few {
		slices.SortFunc(best, before)
	}
	if top > 0 {
		best = best[:min(len(best), top)]
	}
	out := make([]int, len(best))
	for k, b := range best {
		out[k] = b.i
	}
	return out
}

// worth is by what a group is ordered; -1 is nothing.
func worth(t *group.Table, i int, by string) float64 {
	s := t.At(i)
	var value float64
	switch by {
	case "count":
		value = float64(s.Count)
	case "mean":
		value = s.Mean()
	case "max":
		value = float64(s.Max)
	case "errors":
		value = float64(s.Errors)
	case "total":
		value = float64(s.Sum)
		if s.Timed() == 0 {
			value = -1 / float64(s.Count+1) // a log without durations: by their number
		}
	default:
		for _, q := range quantiles {
			if q.name == by {
				value = t.Quantiles(i, []float64{q.q})[0]
			}
		}
	}
	if math.IsNaN(value) {
		return -1
	}
	return value
}

func (r *Result) group(t *group.Table, i int, key []string, over float64) Group {
	g := r.stats(t.At(i), key, over)
	if t.Percentiles && t.At(i).Timed() > 0 {
		qs := make([]float64, len(quantiles))
		for k, q := range quantiles {
			qs[k] = q.q
		}
		g.QuantilesS = map[string]float64{}
		for k, v := range t.Quantiles(i, qs) {
			g.QuantilesS[quantiles[k].name] = v / 1e6
		}
	}
	return g
}

// stats are those of a group whose requests came over so many seconds.
func (r *Result) stats(s *group.Stats, key []string, over float64) Group {
	g := Group{Key: key, Count: s.Count, Errors: s.Errors, Untimed: s.Untimed, TotalS: float64(s.Sum) / 1e6}
	if over > 0 {
		g.RatePerS = float64(s.Count) / over
	}
	if s.Timed() == 0 {
		return g
	}
	number := func(x float64) *float64 { return &x }
	if all := r.all.At(0).Sum; all > 0 {
		g.Share = number(float64(s.Sum) / float64(all))
	}
	g.MeanS, g.DeviationS = number(s.Mean()/1e6), number(s.Deviation()/1e6)
	g.MinS, g.MaxS = number(float64(s.Min)/1e6), number(float64(s.Max)/1e6)
	return g
}
