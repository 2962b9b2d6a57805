// This file compares two runs that were measured one after the other.

package prove

import (
	"errors"
	"fmt"
	"math"
	"time"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/stats"
	"fettle.dev/fettle/internal/ui"
)

// comparisonSchema names the JSON form of a comparison.
const comparisonSchema = "fettle/compare/v1"

// Comparison compares run B with run A. Effects are improvements as a ratio: 0.08 means 8 % less
// where less is better, or 8 % more where more is better.
type Comparison struct {
	Schema   string      `json:"schema"` // fettle/compare/v1
	Headline ui.Headline `json:"headline"`
	A        Side        `json:"a"`
	B        Side        `json:"b"`
	Margin   float64     `json:"margin"` // smaller differences are irrelevant
	Alpha    float64     `json:"alpha"`
	// Caution limits the conclusions from the comparison. It is always printed.
	Caution string `json:"caution"`
	// Differing lists the runs' other differences: machine, settings, work.
	Differing []Difference `json:"differing"`
	Series    []Series     `json:"series,omitempty"`
	// OnlyA and OnlyB list series that the other run lacks.
	OnlyA []string `json:"only_a,omitempty"`
	OnlyB []string `json:"only_b,omitempty"`
	// Effects is set for two experiments.
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

// Difference is a property in which the runs differ.
type Difference struct {
	Name string `json:"name"`
	A    string `json:"a"`
	B    string `json:"b"`
}

// FiguresVerdict is the verdict on a series, or on two effects.
type FiguresVerdict string

// Verdicts. None names a cause.
const (
	FiguresBetter     FiguresVerdict = "better"       // B is better
	FiguresWorse      FiguresVerdict = "worse"        // B is worse
	Alike             FiguresVerdict = "alike"        // the difference is within the margin
	FiguresCannotTell FiguresVerdict = "cannot-tell"  // the interval contains 0 and exceeds the margin
	TooFew            FiguresVerdict = "too-few"      // a side has fewer than two samples
	NoRatio           FiguresVerdict = "no-ratio"     // a sample is not positive, or one side is almost 0
	OtherUnit         FiguresVerdict = "another-unit" // or one series is better higher, the other lower
)

// Series compares a series of both runs.
type Series struct {
	Name     string         `json:"name"`
	Unit     string         `json:"unit"`
	MedianA  float64        `json:"median_a"`
	MedianB  float64        `json:"median_b"`
	SamplesA int            `json:"samples_a"`
	SamplesB int            `json:"samples_b"`
	Word     FiguresVerdict `json:"verdict"`
	// Effect is computed from the means of the logarithms.
	Effect *float64 `json:"effect_ratio,omitempty"`
	// Within is the interval of the effect from the scatter within the runs (Welch's test of
	// logarithms). It does not include changes between the runs.
	Within *[2]float64 `json:"interval_within_runs_ratio,omitempty"`
}

// ErrMachines is returned if the runs were made on different machines.
var ErrMachines = errors.New("the runs were made on different machines")

// Runs compares two runs. Runs of different machines are compared only with force; the machine is
// then the first difference.
func Runs(a, b *evidence.Run, margin float64, force bool) (*Comparison, error) {
	if a.Kind != b.Kind {
		return nil, fmt.Errorf("cannot compare a run of %s with a run of %s; choose two runs of the same kind", a.Kind, b.Kind)
	}
	if !force && (a.Machine.Hardware == "" || a.Machine.Hardware != b.Machine.Hardware) {
		return nil, fmt.Errorf("%w: %s, %s; and %s, %s", ErrMachines, a.Machine.Name, a.Machine.HardwareText(), b.Machine.Name, b.Machine.HardwareText())
	}
	c := &Comparison{Schema: comparisonSchema, A: compareSide(a), B: compareSide(b), Margin: margin, Alpha: 0.05, Differing: Differing(a, b)}
	if a.Kind == "prove" {
		err := c.effects(a, b)
		c.Summarize()
		return c, err
	}
	apart := b.Began.Sub(a.Began).Abs().Round(time.Second)
	c.Caution = fmt.Sprintf("exploratory, not a proof: the runs started %v apart, so any other change of the machine in between counts too; the intervals cover only the scatter within the runs. For a proof use fettle prove, which alternates both sides", apart)
	err := c.series(a, b)
	c.Summarize()
	return c, err
}

func compareSide(r *evidence.Run) Side {
	return Side{ID: r.ID, Command: r.Command, Verdict: r.Verdict, Machine: r.Machine.Name, Began: r.Began}
}

// Differing returns how two runs differ, apart from their samples: hardware, software versions,
// command, completeness and settings.
func Differing(a, b *evidence.Run) []Difference {
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
		return "absent"
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

// compareJudge returns the verdict for an interval. low and high are logarithms; effect is the
// same as improvements.
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
