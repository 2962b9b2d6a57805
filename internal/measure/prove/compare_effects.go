package prove

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"fettle.dev/fettle/internal/evidence"
)

// Effects compares the effects of two experiments. Each alternated its change with the unchanged
// machine, so neither effect contains changes between the experiments. The interval of their
// difference is valid.
type Effects struct {
	Metric string         `json:"metric"`
	Word   FiguresVerdict `json:"verdict"` // better: B's change helps more than A's
	A      Effect         `json:"a"`
	B      Effect         `json:"b"`
	// Difference is the effect of B's change relative to A's. Interval contains it with
	// probability at least 1-alpha, where alpha is the sum of the experiments' alphas: it combines
	// the worst cases of both intervals. It is absent while either is unbounded.
	Difference *float64    `json:"difference_ratio,omitempty"`
	Interval   *[2]float64 `json:"difference_interval_ratio,omitempty"`
}

// Effect is the effect of one experiment, by this version's method.
type Effect struct {
	Change   string      `json:"change"`
	Effect   *float64    `json:"effect_ratio,omitempty"`
	Interval *[2]float64 `json:"effect_interval_ratio,omitempty"`
	// Judged is set if the record has another verdict by another method.
	Judged string `json:"judged_otherwise,omitempty"`
}

func (c *Comparison) effects(a, b *evidence.Run) error {
	first, err := EvidenceOf(a)
	if err != nil {
		return err
	}
	second, err := EvidenceOf(b)
	if err != nil {
		return err
	}
	m := first.Design.Metric
	if m != second.Design.Metric {
		return fmt.Errorf("the experiments measured different things: %s and %s", metric(m), metric(second.Design.Metric))
	}
	add := func(name, a, b string) {
		if a != b {
			c.Differing = append(c.Differing, Difference{name, a, b})
		}
	}
	add("work", work(first), work(second))
	add("change", change(first), change(second))
	c.Caution = "each effect was measured at its own time; neither proves the same effect at another time"
	if work(first) != work(second) {
		c.Caution += ". The workloads differ; each effect applies to its own workload"
	}
	e := &Effects{Metric: m.Name, Word: FiguresCannotTell, A: Effect{Change: change(first)}, B: Effect{Change: change(second)}}
	c.Effects = e
	c.Alpha = first.Design.Alpha + second.Design.Alpha
	var seen [2]Verdict
	for i, side := range []struct {
		id     string
		of     *Evidence
		effect *Effect
	}{{a.ID, first, &e.A}, {b.ID, second, &e.B}} {
		// Judge both by the same method from the samples, not by the recorded verdicts.
		otherwise := (*Otherwise)(nil)
		err := side.of.Again()
		switch {
		case errors.As(err, &otherwise) && otherwise.Err != nil:
			// Another method's samples: its recorded effect counts.
			side.effect.Judged = fmt.Sprintf("evaluated by method %d; its recorded effect is compared", otherwise.Method)
			seen[i] = side.of.Verdict
			side.effect.Effect, side.effect.Interval = seen[i].Effect, seen[i].Interval
			continue
		case otherwise != nil:
			side.effect.Judged = otherwise.Error() + "; this version of fettle calculated the effect"
		case err != nil:
			return fmt.Errorf("run %s: %w", side.id, err)
		}
		all, err := Looks(side.of.Design, side.of.Samples)
		if err != nil {
			return fmt.Errorf("run %s: %w", side.id, err)
		}
		if len(all) > 0 { // otherwise nothing is known yet
			seen[i] = all[len(all)-1]
		}
		side.effect.Effect, side.effect.Interval = seen[i].Effect, seen[i].Interval
	}
	if seen[0].Effect == nil || seen[1].Effect == nil {
		return nil
	}
	d := m.Effect(m.Log(*seen[1].Effect) - m.Log(*seen[0].Effect))
	if math.IsInf(d, 0) || math.IsNaN(d) {
		e.Word = NoRatio // the metric became almost 0, so no ratio exists
		return nil
	}
	e.Difference = &d
	x, y := seen[0].Interval, seen[1].Interval
	if x == nil || y == nil {
		return nil
	}
	low, high := m.Effect(m.Log(y[0])-m.Log(x[1])), m.Effect(m.Log(y[1])-m.Log(x[0]))
	if math.IsInf(low-high, 0) || math.IsNaN(low-high) {
		return nil
	}
	e.Interval = &[2]float64{low, high}
	e.Word = compareJudge(m.Log(e.Interval[0]), m.Log(e.Interval[1]), *e.Interval, c.Margin)
	return nil
}

func metric(m Metric) string {
	if m.Unit == "" {
		return m.Name
	}
	return m.Name + " in " + m.Unit
}

func work(e *Evidence) string {
	if e.Design.Live != nil {
		return "the running work of the machine"
	}
	return strings.Join(e.Work, " ")
}

// change describes the change under test in one line.
func change(e *Evidence) string {
	var words []string
	for _, s := range e.Change.Settings {
		words = append(words, fmt.Sprintf("%s: %s -> %s", s.Setting, s.Before, s.With))
	}
	if e.Change.Apply != "" {
		words = append(words, e.Change.Apply)
	}
	if e.Change.A != "" {
		words = append(words, e.Change.A+" -> "+e.Change.B)
	}
	if len(e.Change.Profile) > 0 {
		return "profile " + strings.Join(e.Change.Profile, " ")
	}
	return strings.Join(words, ", ")
}
