// compare says what can honestly be said of two runs that were measured one
// after the other.

package prove

import (
	"errors"
	"fmt"
	"math"
	"time"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/stats"
)

// ComparisonSchema names the JSON form of a comparison.
const ComparisonSchema = "fettle/compare/v1"

// Comparison is run B against run A. Effects are improvements as a ratio: 0.08 is 8 %
// less of what is better when there is less, or 8 % more of what is better when there
// is more.
type Comparison struct {
	Schema string  `json:"schema"` // fettle/compare/v1
	A      Side    `json:"a"`
	B      Side    `json:"b"`
	Margin float64 `json:"margin"` // smaller differences do not matter
	Alpha  float64 `json:"alpha"`
	// Caution is what no reader may miss.
	Caution string `json:"caution"`
	// Differing is what else is not the same: the machine, its settings, the work.
	Differing []Difference `json:"differing"`
	Series    []Series     `json:"series,omitempty"`
	// OnlyA and OnlyB are series that the other run does not have.
	OnlyA []string `json:"only_a,omitempty"`
	OnlyB []string `json:"only_b,omitempty"`
	// Effects is of two experiments.
	Effects *Effects `json:"effects,omitempty"`
}

// Side is one of the runs.
type Side struct {
	ID      string    `json:"id"`
	Command string    `json:"command"`
	Verdict string    `json:"verdict"`
	Machine string    `json:"machine"`
	Began   time.Time `json:"began"`
}

// Difference is something that the runs do not have in common.
type Difference struct {
	Name string `json:"name"`
	A    string `json:"a"`
	B    string `json:"b"`
}

// FiguresVerdict is what is said of a series, or of two effects.
type FiguresVerdict string

// The words. None of them says why.
const (
	FiguresBetter     FiguresVerdict = "better"       // in B
	FiguresWorse      FiguresVerdict = "worse"        // in B
	Alike             FiguresVerdict = "alike"        // the difference is within the margin
	FiguresCannotTell FiguresVerdict = "cannot-tell"  // the interval holds 0 and more than the margin
	TooFew            FiguresVerdict = "too-few"      // a side has fewer than two samples
	NoRatio           FiguresVerdict = "no-ratio"     // a sample is not above 0, or one side is next to nothing
	OtherUnit         FiguresVerdict = "another-unit" // or another direction
)

// Series is one series that both runs have.
type Series struct {
	Name     string         `json:"name"`
	Unit     string         `json:"unit"`
	MedianA  float64        `json:"median_a"`
	MedianB  float64        `json:"median_b"`
	SamplesA int            `json:"samples_a"`
	SamplesB int            `json:"samples_b"`
	Word     FiguresVerdict `json:"verdict"`
	// Effect is of the means of the logarithms.
	Effect *float64 `json:"effect_ratio,omitempty"`
	// Within contains the effect as far as the scatter of the repeats within the runs
	// goes (Welch, of logarithms). It knows nothing of what changed between the runs.
	Within *[2]float64 `json:"interval_within_runs_ratio,omitempty"`
}

// ErrMachines is that the runs were made on different machines.
var ErrMachines = errors.New("the runs were made on different machines")

// Runs compares two runs. Those of different machines are compared only where it is
// forced: then the machine is the first thing that differs.
func Runs(a, b *evidence.Run, margin float64, force bool) (*Comparison, error) {
	if a.Kind != b.Kind {
		return nil, fmt.Errorf("a %s and a %s have nothing in common", a.Kind, b.Kind)
	}
	if !force && (a.Machine.Hardware == "" || a.Machine.Hardware != b.Machine.Hardware) {
		return nil, fmt.Errorf("%w: %s, %s; and %s, %s", ErrMachines, a.Machine.Name, a.Machine.HardwareText(), b.Machine.Name, b.Machine.HardwareText())
	}
	c := &Comparison{Schema: ComparisonSchema, A: compareSide(a), B: compareSide(b), Margin: margin, Alpha: 0.05, Differing: differing(a, b)}
	if a.Kind == "prove" {
		return c, c.effects(a, b)
	}
	apart := b.Began.Sub(a.Began).Abs().Round(time.Second)
	c.Caution = fmt.Sprintf("exploratory, no proof: the runs began %v apart, and whatever else the machine did meanwhile counts as a difference; the intervals hold for the scatter within the runs alone. fettle prove measures both sides by turns", apart)
	return c, c.series(a, b)
}

func compareSide(r *evidence.Run) Side {
	return Side{ID: r.ID, Command: r.Command, Verdict: r.Verdict, Machine: r.Machine.Name, Began: r.Began}
}

// differing is what the runs do not have in common beside their samples.
func differing(a, b *evidence.Run) []Difference {
	out := []Difference{}
	add := func(name, a, b string) {
		if a != b {
			out = append(out, Difference{name, a, b})
		}
	}
	if a.Machine.Hardware != b.Machine.Hardware {
		add("hardware", a.Machine.HardwareText(), b.Machine.HardwareText())
	}
	add("machine", a.Machine.Name, b.Machine.Name)
	add("system", a.Machine.OS, b.Machine.OS)
	add("kernel", a.Machine.Kernel, b.Machine.Kernel)
	add("fettle", a.Version, b.Version)
	add("command", a.Command, b.Command)
	finished := func(r *evidence.Run) string {
		if c := evidence.InterruptionOf(r); c != nil {
			return c.String()
		}
		return "whole"
	}
	add("measured", finished(a), finished(b))
	value := func(m evidence.Machine, name string) string {
		if v, has := m.Settings[name]; has {
			return v
		}
		return "not there"
	}
	for _, name := range a.Machine.Differing(b.Machine) {
		add(name, value(a.Machine, name), value(b.Machine, name))
	}
	return out
}

func (c *Comparison) series(a, b *evidence.Run) error {
	first, err := evidence.SeriesOf(a)
	if err != nil {
		return err
	}
	second, err := evidence.SeriesOf(b)
	if err != nil {
		return err
	}
	others := map[string]evidence.Series{}
	for _, s := range second {
		others[s.Name] = s
	}
	for _, s := range first {
		other, both := others[s.Name]
		if !both {
			c.OnlyA = append(c.OnlyA, s.Name)
			continue
		}
		delete(others, s.Name)
		c.Series = append(c.Series, c.one(s, other))
	}
	for _, s := range second {
		if _, left := others[s.Name]; left {
			c.OnlyB = append(c.OnlyB, s.Name)
		}
	}
	if len(c.Series) == 0 {
		return fmt.Errorf("runs %s and %s have no series in common", a.ID, b.ID)
	}
	return nil
}

func (c *Comparison) one(a, b evidence.Series) Series {
	s := Series{Name: a.Name, Unit: a.Unit, SamplesA: len(a.Samples), SamplesB: len(b.Samples), Word: TooFew}
	if a.Unit != b.Unit || a.More != b.More {
		s.Word = OtherUnit
		return s
	}
	if len(a.Samples) == 0 || len(b.Samples) == 0 {
		return s
	}
	s.MedianA, s.MedianB = stats.Median(a.Samples), stats.Median(b.Samples)
	logsA, positive := logs(a.Samples)
	logsB, too := logs(b.Samples)
	if !positive || !too {
		s.Word = NoRatio
		return s
	}
	improvement := func(log float64) float64 {
		if a.More {
			return math.Expm1(log)
		}
		return -math.Expm1(log)
	}
	log, half := stats.Welch(logsA, logsB, c.Alpha)
	effect := improvement(log)
	if math.IsInf(effect, 0) {
		s.Word = NoRatio
		return s
	}
	s.Effect = &effect
	if math.IsInf(half, 1) {
		return s
	}
	low, high := improvement(log-half), improvement(log+half)
	if s.Word = FiguresCannotTell; math.IsInf(low, 0) || math.IsInf(high, 0) {
		return s
	}
	s.Within = &[2]float64{min(low, high), max(low, high)}
	s.Word = compareJudge(log-half, log+half, *s.Within, c.Margin)
	return s
}

// compareJudge is the word for an interval, as logarithms and as an improvement.
func compareJudge(low, high float64, effect [2]float64, margin float64) FiguresVerdict {
	limit := math.Log1p(margin)
	switch {
	case math.Abs(low) <= limit && math.Abs(high) <= limit:
		return Alike
	case effect[0] > 0:
		return FiguresBetter
	case effect[1] < 0:
		return FiguresWorse
	}
	return FiguresCannotTell
}

func logs(x []float64) ([]float64, bool) {
	out := make([]float64, len(x))
	for i, v := range x {
		if !(v > 0) || math.IsInf(v, 1) {
			return nil, false
		}
		out[i] = math.Log(v)
	}
	return out, true
}
