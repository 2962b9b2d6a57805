package prove

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

// Print prints the result of an experiment, the verdict first.
func (e *Evidence) Print(s *ui.Screen, r *evidence.Run) {
	headline := e.Headline()
	ui.PrintHeadline(s, &headline)
	fmt.Fprintln(s.Out)
	details := Details(r, e)
	details.Write(s)
	for _, w := range e.Warnings {
		s.Say("%s", w)
	}
	if len(e.Moved) == 0 {
		return
	}
	fmt.Fprintln(s.Out, "\nOther counters that changed (exploratory: among so many, some differ by chance):")
	moved := MovedGrid(e)
	moved.Write(s)
}

// MovedGrid returns the table of counters that differ between the arms.
func MovedGrid(e *Evidence) ui.Grid {
	m := ui.Grid{Columns: ui.Columns("counter", "without", "with", "p")}
	for _, x := range e.Moved {
		m.Rows = append(m.Rows, []string{x.Name, unit.Digits(x.Without), unit.Digits(x.With), fmt.Sprintf("%.3f", x.P)})
	}
	return m
}

// Details returns the table of the design and the course of an experiment.
func Details(r *evidence.Run, e *Evidence) ui.Grid {
	var change []string
	for _, c := range e.Change.Settings {
		change = append(change, fmt.Sprintf("%s: %s -> %s", c.Setting, c.Before, c.With))
	}
	if e.Change.Apply != "" {
		change = append(change, e.Change.Apply)
	}
	g := ui.Grid{Columns: []ui.Column{{}, {Below: true}}}
	row := g.Row
	if l := e.Design.Live; l != nil {
		row("work", "running work, measured in windows of %v; the first %v after each switch do not count", seconds(l.WindowS), seconds(l.SettleS))
	} else if len(e.Work) > 0 {
		row("work", "%s", strings.Join(e.Work, " "))
	}
	if e.Change.A != "" {
		row("A", "%s", e.Change.A)
		row("B", "%s", e.Change.B)
	} else {
		row("change", "%s", strings.Join(change, ", "))
	}
	if n := len(e.Change.Left); n > 0 {
		row("not tested", "%s of the change cannot be in force on this machine", text.Count(n, "value"))
	}
	for _, m := range e.Design.deciding() {
		row("metric", "%s", m.Name)
	}
	for _, g := range e.Guards {
		row("guard rail", "%s: %s; %s, and at most %s %% worse is allowed", g.Name, g.State, g.Text(), unit.Digits(100*g.Most))
	}
	for _, c := range e.Design.Caps {
		row("cap", "%s: %s", c.Name, unit.Digits(c.Most))
	}
	if c := e.Covariate; c != nil {
		row("covariate", "%s: the metric is proportional to its power %s; the covariate itself differs by %s %%, p %s", c.Name, unit.Digits(c.Slope), unit.SignedPercent(math.Expm1(c.Difference)), unit.Digits(c.P))
	}
	row("blocks", "%d of at most %d, %d winsorized", len(e.Blocks), e.Design.Most, e.Limited)
	if e.Unsettled > 0 {
		row("not counted", "the first %s, because the machine needed more warm-up runs", text.Count(e.Unsettled, "block"))
	}
	switch all := e.Judged(); {
	case e.NoiseKnown() && len(all) > 1:
		for _, j := range all {
			row("noise of a block", "%s %% in %s", unit.Digits(100*j.Noise), j.Name)
		}
	case e.NoiseKnown():
		row("noise of a block", "%s %%", unit.Digits(100*e.Noise))
	default:
		row("noise of a block", "not known yet")
	}
	row(e.Design.Unit()+"s", "%d, %d after each switch dropped as warm-up", len(e.Samples), e.Washout)
	ended := string(e.Ending)
	if e.Error != "" {
		ended += ": " + e.Error
	}
	row("ended by", "%s", ended)
	if len(e.Blocks) > 0 {
		row("second opinion", "sign flip p %s, drift %s %% a %s, autocorrelation %s", unit.Digits(e.Second.SignFlip), unit.SignedPercent(e.Second.Drift), e.Design.Unit(), e.Second.Autocorrelation())
	} else {
		row("second opinion", "not available: no block is complete")
	}
	if b := e.Second.Between; b != nil {
		row("between runs", "%.0f %% of the variance of single measurements", 100**b)
	}
	if r.ID != "" {
		row("evidence", "run %s, seed %s", r.ID, strconv.FormatUint(e.Design.Seed, 10))
	}
	return g
}

// Headline returns the verdict with its interval, the number of blocks and the noise.
func (e *Evidence) Headline() ui.Headline {
	var h ui.Headline
	var names []string
	all := e.Judged()
	for i, j := range all {
		names = append(names, j.Name)
		figures, name := "", "" // of the first metric, as of an only one
		if i > 0 {
			figures = fmt.Sprintf("metric_%d_", i+1)
		}
		if len(all) > 1 {
			name = j.Name + ": "
		}
		h.Line("%s%s", name, j.line(&h, figures))
	}
	h.Line("%s: %s in %s, ended by %s", strings.Join(names, ", "), h.Count(e.Design.Unit()+"s", len(e.Samples), e.Design.Unit()), h.Count("blocks", len(e.Blocks), "block"), e.Ending)
	return h
}

// line returns the verdict with its interval in words. figures begins the names of its numbers.
func (v *Verdict) line(h *ui.Headline, figures string) string {
	if v.Effect != nil {
		h.Value(figures+"effect_percent", 100**v.Effect, "")
	}
	low, high, kind := 0.0, 0.0, "interval"
	switch {
	case v.Interval != nil:
		low, high = v.Interval[0], v.Interval[1]
		if v.Word == Worse {
			low, high = -high, -low // as its text: positive values are slower
		}
	case v.Provisional != nil:
		low, high, kind = v.Provisional.Interval[0], v.Provisional.Interval[1], "provisional"
	default:
		return v.Text
	}
	before, after, found := strings.Cut(v.Text, bounds(low, high))
	if !found {
		return v.Text
	}
	lowest, highest := "_low_percent", "_high_percent"
	sign := 100.0
	if v.Interval != nil && v.Word == Worse { // the figures have the sign of the effect
		lowest, highest, sign = highest, lowest, -sign
	}
	return fmt.Sprintf("%s, interval %s to %s %%%s", before, h.Value(figures+kind+lowest, sign*low, number(low)), h.Value(figures+kind+highest, sign*high, number(high)), after)
}

// Next returns no next step, because prove --resume needs to know where the record is stored.
func (e *Evidence) Next() (string, []string) { return "", nil }

// seconds converts seconds to a duration.
func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
