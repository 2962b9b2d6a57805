// Package prove decides whether a change helped. It measures work with and without the change in a
// randomized, interleaved order, and gives an interval that is valid at every moment. The unit of
// evidence is the block: two samples in the order AB or BA, decided by a coin from the seed. So
// drift and background load cannot favor a side.
package prove

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"fettle.dev/fettle/internal/text"
)

// Arm is one side of the comparison.
type Arm string

// Arms: the unchanged machine, and with the change.
const (
	Without Arm = "A"
	With    Arm = "B"
)

// Metric is the quantity that a sample measures: one positive number. Values are compared by ratio.
type Metric struct {
	Name string `json:"name"`           // "time", "requests/s", "p99"
	Unit string `json:"unit,omitempty"` // "s", "1/s"; empty for a bare number
	More bool   `json:"more_is_better"`
}

// Effect converts the logarithm of a ratio (with the change to without) to an improvement: 0.08
// means 8 % less if less is better.
func (m Metric) Effect(log float64) float64 {
	if !math.IsInf(log, 0) {
		log = max(-700, min(700, log)) // a finite effect, as JSON needs it
	}
	if m.More {
		return math.Expm1(log)
	}
	return -math.Expm1(log)
}

// Log converts an improvement to the logarithm of a ratio. It is the inverse of Effect.
func (m Metric) Log(effect float64) float64 {
	if m.More {
		return math.Log1p(effect)
	}
	return math.Log1p(-effect)
}

// Guard is a guard rail: a metric that must not deteriorate beyond a limit, while another metric
// decides.
type Guard struct {
	Metric
	// Most is the allowed deterioration as a ratio: 0.1 for a tenth.
	Most float64 `json:"most_ratio"`
}

// Cap is the maximum value of a metric. If a sample exceeds it, the change is undone and the
// experiment ends at once.
type Cap struct {
	Metric
	Most float64 `json:"most"` // in the metric's own unit
}

// Live describes the windows in which running work is measured.
type Live struct {
	WindowS float64 `json:"window_s"`
	SettleS float64 `json:"settle_s"` // after each switch, not measured
}

// Design is decided before the first sample and does not change.
type Design struct {
	Metric Metric `json:"metric"`
	// Also are further metrics with verdicts of their own. The experiment ends when all have one.
	Also   []Metric `json:"also,omitempty"`
	Guards []Guard  `json:"guards,omitempty"`
	Caps   []Cap    `json:"caps,omitempty"`
	// Covariate is a value that the metric depends on, such as the arrival rate of work. Its
	// influence is removed from the differences. nil: none.
	Covariate *Metric `json:"covariate,omitempty"`

	Alpha  float64 `json:"alpha"`  // probability of a wrong verdict, 0.001 to 0.2
	Margin float64 `json:"margin"` // smaller effects are irrelevant; a ratio, 0.001 to 1

	Least   int `json:"least_blocks"` // before the first verdict, at least 2
	Most    int `json:"most_blocks"`
	Washout int `json:"washout_visits"` // dropped after each switch, 0 to 20

	// Live is set if samples are windows of running work.
	Live *Live `json:"live,omitempty"`

	BudgetS float64 `json:"budget_s,omitempty"` // no sample begins after this time; 0: no limit
	Seed    uint64  `json:"seed"`
}

// Defaults returns the design of the method's simulation: 5 % error, a margin of 2 %, a verdict from
// the seventh block on, at most eighty.
func Defaults(m Metric) Design {
	return Design{Metric: m, Alpha: 0.05, Margin: 0.02, Least: FewestBlocks, Most: 80, Washout: 1}
}

// FewestBlocks is the minimum number of blocks for a verdict with an alpha of 5 %; a smaller
// alpha needs a few more.
const FewestBlocks = 7

// Check rejects a design that cannot be executed or would mislead.
func (d Design) Check() error {
	var errs []error
	within := func(what string, ok bool, want string) {
		if !ok {
			errs = append(errs, fmt.Errorf("%s: want %s", what, want))
		}
	}
	within("--metric", d.Metric.Name != "", "a name")
	within("--alpha", d.Alpha >= 0.001 && d.Alpha <= 0.2, "0.001 to 0.2")
	within("--margin", d.Margin >= 0.001 && d.Margin <= 1, "0.1 % to 100 %")
	within("blocks before a verdict", d.Least >= 2, "at least 2")
	within("--blocks", d.Most >= max(d.Least, FewestBlocks) && d.Most <= 100_000, text.Sprintf("%d to 100,000", max(d.Least, FewestBlocks)))
	within("--warmup-runs", d.Washout >= 0 && d.Washout <= 20, "0 to 20")
	within("--budget", d.BudgetS >= 0, "a time above 0")
	within("the unit of "+d.Metric.Name, !(d.Metric.Unit == "s" && d.Metric.More), "a unit other than s, because less time is better")
	named := map[string]bool{d.Metric.Name: true}
	for _, m := range d.Also {
		within("--metric "+m.Name, m.Name != "" && !named[m.Name], "each metric once, with a name")
		named[m.Name] = true
	}
	for _, g := range d.Guards {
		within("--guard "+g.Name, !named[g.Name], "one limit per metric, and a metric other than --metric")
		named[g.Name] = true
		within("--guard "+g.Name, g.Most > 0 && !math.IsInf(g.Most, 1), "a limit above 0 %")
	}
	for _, c := range d.Caps {
		within("--stop-above "+c.Name, !math.IsNaN(c.Most) && !math.IsInf(c.Most, 0), "a number")
	}
	within("--covariate", d.Covariate == nil || d.Covariate.Name != d.Metric.Name, "a metric other than --metric")
	return errors.Join(errs...)
}

// deciding returns the metrics with a verdict.
func (d Design) deciding() []Metric { return append([]Metric{d.Metric}, d.Also...) }

// Metrics returns all metrics that a sample measures: the deciding ones, and those of guard rails,
// caps and the covariate.
func (d Design) Metrics() []Metric {
	all := d.deciding()
	for _, g := range d.Guards {
		all = append(all, g.Metric)
	}
	for _, c := range d.Caps {
		all = append(all, c.Metric)
	}
	if d.Covariate != nil {
		all = append(all, *d.Covariate)
	}
	return all
}

// Measures reports whether a sample has to measure a metric.
func (d Design) Measures(name string) bool {
	return slices.ContainsFunc(d.Metrics(), func(m Metric) bool { return m.Name == name })
}

// Unit returns the name of a sample: window or run.
func (d Design) Unit() string {
	if d.Live != nil {
		return "window"
	}
	return "run"
}

// Order returns the order of a block's samples, decided by the seed. Blocks are numbered from 0.
func (d Design) Order(block int) [2]Arm {
	if rand.New(rand.NewPCG(d.Seed, uint64(block))).Uint64()>>63 == 0 {
		return [2]Arm{Without, With}
	}
	return [2]Arm{With, Without}
}
