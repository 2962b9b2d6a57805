// Package trend finds when the result of a repeated measurement changed. In: recorded runs, and
// files of other benchmarks. Out: per series the changes with intervals for when and how much, next
// to what else changed on the machine then. fettle runs trend prints it.
package trend

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/stats"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
)

// Schema names the JSON form of a report.
const Schema = "fettle/trend/v1"

// Alpha is the probability of a false change in all series of a report together.
const Alpha = 0.05

// Report is the result of fettle runs trend.
type Report struct {
	Schema   string      `json:"schema"` // fettle/trend/v1
	Headline ui.Headline `json:"headline"`
	// Alpha limits the probability that a change is ever found although no series changed, if all
	// measurements are independent and normally distributed, and are looked at after each one.
	Alpha float64 `json:"alpha"`
	// Margin is the ratio below which a change does not count.
	Margin float64 `json:"margin_ratio"`
	// Since is the time from which changes count. It is absent if all do.
	Since time.Time `json:"since,omitzero"`
	// Caution limits the conclusions. It is always printed.
	Caution string   `json:"caution"`
	Series  []Series `json:"series"`
}

// Verdict is the verdict on a series or on a change.
type Verdict string

// Verdicts on a series: its present level next to an earlier one. A change is better or worse.
const (
	Worse      Verdict = "worse"
	Better     Verdict = "better"
	NoChange   Verdict = "no-change-seen" // a smaller one than those in Visible is possible
	CannotTell Verdict = "cannot-tell"    // too few points
)

// Series is one quantity, measured repeatedly.
type Series struct {
	Name string `json:"name"`
	Unit string `json:"unit"`
	More bool   `json:"more_is_better"`
	// Of is what was measured: a command line, or the environment of a benchmark. Machine is where.
	Of      string  `json:"of"`
	Machine string  `json:"machine,omitempty"`
	Verdict Verdict `json:"verdict"`
	// Needed is how many more points are needed before a change can be found.
	Needed int `json:"points_needed,omitempty"`
	// Compared is what the verdict is about. It is absent if the level did not change.
	Compared *Comparison `json:"compared,omitempty"`
	// Relative reports whether noise, effects and intervals are ratios, which needs positive values.
	// Otherwise they are in the unit of the series.
	Relative bool `json:"relative"`
	// Noise is the standard deviation of a point about its level. Lag1 is the autocorrelation of
	// neighboring points, for which the tests allow.
	Noise float64 `json:"noise"`
	Lag1  float64 `json:"lag1_autocorrelation"`
	// Visible are the changes that would be found in 80 % of the cases after more points.
	Visible []Visible `json:"visible,omitempty"`
	Changes []Change  `json:"changes"` // in order
	Points  []Point   `json:"points"`  // in order
}

// Visible is the smallest change, better or worse, that shows after some points at the new level.
type Visible struct {
	After  int     `json:"after_points"`
	Effect float64 `json:"effect"`
}

// Point is one measurement.
type Point struct {
	// Label identifies the measurement: the ID of a run, a commit or a file.
	Label string    `json:"label"`
	Time  time.Time `json:"time,omitzero"`
	Value float64   `json:"value"`

	run *evidence.Run // nil if it is from a file of another program
}

// Change is a lasting change of the level.
type Change struct {
	Verdict Verdict `json:"verdict"`
	// At is the index of the first point at the new level. It is from Earliest to Latest with a
	// confidence of 95 %.
	At       int       `json:"at"`
	Earliest int       `json:"at_earliest"`
	Latest   int       `json:"at_latest"`
	Label    string    `json:"label"`
	Time     time.Time `json:"time,omitzero"`
	// Before and After are the levels: geometric means if the series is relative, else means.
	Before float64 `json:"before"`
	After  float64 `json:"after"`
	// Effect is the improvement: 0.08 means 8 % less where less is better, or 8 % more where more is
	// better. Interval contains it with a confidence of 95 %.
	Effect   float64    `json:"effect"`
	Interval [2]float64 `json:"effect_interval"`
	P        float64    `json:"p"` // of Student's t test
	// Counts reports whether the change may exceed the margin, and is not before Since.
	Counts bool `json:"counts"`
	// Meanwhile lists what else changed from the last point that is surely before the change to the
	// first one surely after it.
	Meanwhile []Event `json:"meanwhile"`
}

// Comparison compares the present level of a series with that at Since or, without Since, before the
// first change that counts.
type Comparison struct {
	First    int        `json:"first_change"` // index in Changes of the first change after the earlier level
	Before   float64    `json:"before"`
	After    float64    `json:"after"` // present level
	Effect   float64    `json:"effect"`
	Interval [2]float64 `json:"effect_interval"` // with a confidence of at least 95 %
}

// Sample is one point with the series to which it belongs.
type Sample struct {
	Of, Machine, Name, Unit string
	More                    bool
	Point
}

// Options are the options of a report.
type Options struct {
	Margin  float64
	Since   time.Time
	Machine *Machine // nil if the samples are of another machine
}

// Analyze groups samples into series, and finds the changes of each. Samples of a series are ordered
// by time, or as they are if a time is unknown.
func Analyze(samples []Sample, o Options) *Report {
	r := &Report{Schema: Schema, Alpha: Alpha, Margin: o.Margin, Since: o.Since, Series: group(samples),
		Caution: "what changed at the same time is not shown to be the cause; fettle prove tests one cause at a time"}
	tested := 0
	for _, s := range r.Series {
		if len(s.Points) >= stats.FewestForChanges {
			tested++
		}
	}
	for i := range r.Series {
		r.Series[i].analyze(o, Alpha/float64(max(1, tested)))
	}
	slices.SortStableFunc(r.Series, func(a, b Series) int {
		return cmp.Or(slices.Index(byHarm, a.Verdict)-slices.Index(byHarm, b.Verdict), b.latest().Compare(a.latest()), strings.Compare(a.Name, b.Name))
	})
	r.summarize()
	return r
}

// byHarm are the verdicts in the order of output.
var byHarm = []Verdict{Worse, Better, NoChange, CannotTell}

func group(samples []Sample) []Series {
	type key struct {
		of, machine, name, unit string
		more                    bool
	}
	at := map[key]int{}
	all := []Series{}
	for _, s := range samples {
		k := key{s.Of, s.Machine, s.Name, s.Unit, s.More}
		i, has := at[k]
		if !has {
			i = len(all)
			at[k] = i
			all = append(all, Series{Name: s.Name, Unit: s.Unit, More: s.More, Of: s.Of, Machine: s.Machine, Changes: []Change{}})
		}
		all[i].Points = append(all[i].Points, s.Point)
	}
	for _, s := range all {
		if !slices.ContainsFunc(s.Points, func(p Point) bool { return p.Time.IsZero() }) {
			slices.SortStableFunc(s.Points, func(a, b Point) int { return a.Time.Compare(b.Time) })
		}
	}
	return all
}

// visibleAfter are the numbers of points for which Visible is calculated.
var visibleAfter = []int{3, 5, 10, 20}

func (s *Series) analyze(o Options, alpha float64) {
	s.Relative = !slices.ContainsFunc(s.Points, func(p Point) bool { return !(p.Value > 0) })
	values := make([]float64, len(s.Points))
	for i, p := range s.Points {
		if values[i] = p.Value; s.Relative {
			values[i] = math.Log(p.Value)
		}
	}
	found := stats.Changes(values, alpha)
	s.Noise, s.Lag1 = found.Noise, found.Lag1
	s.Verdict, s.Needed = NoChange, max(0, stats.FewestForChanges-len(values))
	if s.Needed > 0 {
		s.Verdict = CannotTell
		return
	}
	level := len(values) // points at the present level
	for _, c := range found.Changes {
		level = len(values) - c.At
		s.Changes = append(s.Changes, s.change(c, o))
	}
	s.compare(found.Changes, o)
	for _, after := range visibleAfter {
		if found.Noise == 0 { // any change shows
			break
		}
		if size := found.Visible(level, after); !math.IsInf(size, 1) {
			s.Visible = append(s.Visible, Visible{after, math.Abs(s.effect(size))})
		}
	}
}

// effect returns the improvement of a change of the level, which is a logarithm if s is relative.
func (s *Series) effect(size float64) float64 {
	if s.Relative {
		size = math.Expm1(max(-700, min(700, size)))
	}
	if s.More {
		return size
	}
	return -size
}

// level returns a level in the unit of the series.
func (s *Series) level(v float64) float64 {
	if s.Relative {
		return math.Exp(v)
	}
	return v
}

func (s *Series) change(c stats.Change, o Options) Change {
	first := s.Points[c.At]
	low, high := s.effect(c.Interval.Low), s.effect(c.Interval.High)
	x := Change{At: c.At, Earliest: c.Earliest, Latest: c.Latest, Label: first.Label, Time: first.Time, P: c.P,
		Before: s.level(c.Before), After: s.level(c.After), Effect: s.effect(c.Size), Interval: [2]float64{min(low, high), max(low, high)}, Verdict: Better}
	if x.Effect < 0 {
		x.Verdict = Worse
	}
	x.Counts = s.exceeds(x.Interval, o.Margin) && s.since(x, o.Since)
	x.Meanwhile = s.meanwhile(c, o.Machine)
	return x
}

// exceeds reports whether an effect may exceed the margin.
func (s *Series) exceeds(interval [2]float64, margin float64) bool {
	return !s.Relative || max(-interval[0], interval[1]) > margin
}

// since reports whether a change may be after a time. It is true if its time is unknown.
func (s *Series) since(c Change, t time.Time) bool {
	latest := s.Points[c.Latest].Time
	return latest.IsZero() || !latest.Before(t)
}

// compare sets Compared and, if the levels differ, the verdict.
func (s *Series) compare(changes []stats.Change, o Options) {
	first := slices.IndexFunc(s.Changes, func(c Change) bool {
		return c.Counts || !o.Since.IsZero() && s.since(c, o.Since)
	})
	if first < 0 {
		return
	}
	// The errors of two changes with a level in common partly cancel out, so the sum of squares is an
	// upper limit.
	size, below, above := 0.0, 0.0, 0.0
	for _, c := range changes[first:] {
		size += c.Size
		below, above = math.Hypot(below, c.Size-c.Interval.Low), math.Hypot(above, c.Interval.High-c.Size)
	}
	low, high := s.effect(size-below), s.effect(size+above)
	c := &Comparison{First: first, Before: s.Changes[first].Before, After: s.last(), Effect: s.effect(size), Interval: [2]float64{min(low, high), max(low, high)}}
	s.Compared = c
	differs := len(s.Changes) == first+1 || c.Interval[0] > 0 || c.Interval[1] < 0 // one change is significant
	switch {
	case !differs || !s.exceeds(c.Interval, o.Margin):
	case c.Effect < 0:
		s.Verdict = Worse
	default:
		s.Verdict = Better
	}
}

// decisive returns the latest change with the verdict of the series, or nil if it is neither better
// nor worse.
func (s *Series) decisive() *Change {
	for i := len(s.Changes) - 1; s.Compared != nil && i >= s.Compared.First; i-- {
		if s.Changes[i].Verdict == s.Verdict {
			return &s.Changes[i]
		}
	}
	return nil
}

// latest returns the time of the decisive change, or zero.
func (s *Series) latest() time.Time {
	if c := s.decisive(); c != nil {
		return c.Time
	}
	return time.Time{}
}

// Count returns the number of series with a verdict.
func (r *Report) Count(v Verdict) (n int) {
	for _, s := range r.Series {
		if s.Verdict == v {
			n++
		}
	}
	return n
}

// Gate returns an error unless the report meets an expectation: no-worse is not met by a series
// that is worse. A report that cannot tell anything is an error too.
func (r *Report) Gate(expected string) error {
	if n := r.Count(Worse); expected == NoWorse && n > 0 {
		s := r.Series[0] // the latest to become worse
		more := ""
		if n > 1 {
			more = fmt.Sprintf(", and %d more", n-1)
		}
		return ui.Exit(ui.GateNotMet, fmt.Errorf("%s became worse%s", s.Name, more))
	}
	if r.Count(CannotTell) == len(r.Series) {
		least := math.MaxInt
		for _, s := range r.Series {
			least = min(least, s.Needed)
		}
		return ui.Exit(ui.Failed, fmt.Errorf("cannot tell yet: want at least %s", text.Count(least, "more measurement")))
	}
	return nil
}

// NoWorse is the expectation that no series became worse.
const NoWorse = "no-worse"
