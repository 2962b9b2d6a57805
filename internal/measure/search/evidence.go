package search

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/measure/prove"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

// Kind is the kind of the record of a search; Schema names its JSON form.
const (
	Kind   = "search"
	Schema = "fettle/search/v1"
)

// Endings of the execution, besides those of a course.
const (
	EndedInterrupted Ending = "interrupted"
	EndedFailed      Ending = "failed"
)

// Sample is a recorded run: the measured value, or the brake that stopped it.
type Sample struct {
	Step
	At      time.Time `json:"time"`
	TookS   float64   `json:"duration_s"`
	Value   float64   `json:"value,omitempty"` // in the metric's unit
	Stopped string    `json:"stopped,omitempty"`
}

// Proof is the experiment that tested the best point.
type Proof struct {
	Run  string     `json:"run"` // its ID
	Word prove.Word `json:"verdict"`
	Text string     `json:"text"`
}

// Evidence is the body of a search's record.
type Evidence struct {
	Schema string          `json:"schema"` // fettle/search/v1
	Work   []string        `json:"work,omitempty"`
	Asked  json.RawMessage `json:"asked"` // the options
	Metric prove.Metric    `json:"metric"`
	Design Design          `json:"design"`
	Ending Ending          `json:"ending"`
	Error  string          `json:"error,omitempty"`
	// Best holds the changed settings of the best point, as SETTING=VALUE; empty if no point
	// looked better than the default by the margin.
	Best []string `json:"best,omitempty"`
	// Seen is the improvement that the search saw at the best point, a ratio. It overestimates.
	Seen float64 `json:"seen_ratio,omitempty"`
	// Bound is the gain, a ratio, that no combination exceeds with a probability of 95 %, by a model
	// without interactions of settings. It is 0 if it is unknown.
	Bound float64 `json:"gain_bound_ratio,omitempty"`
	Proof *Proof  `json:"proof,omitempty"`
	// Kept reports whether the proved values were kept.
	Kept    bool     `json:"kept,omitempty"`
	Text    string   `json:"text"`
	Samples []Sample `json:"visits"`
}

// JSONBody marks Evidence as the body of a run.
func (Evidence) JSONBody() {}

// Cost returns the cost of a measured value: its logarithm, so that less is better.
func Cost(m prove.Metric, value float64) float64 {
	if m.More {
		return -math.Log(value)
	}
	return math.Log(value)
}

// Replay returns the course of a search after past runs.
func Replay(d Design, m prove.Metric, past []Sample) (*Course, error) {
	c := Begin(d)
	for _, v := range past {
		if next := c.Next(); next.Phase != v.Phase || !next.Point.Equal(v.Point) {
			return nil, fmt.Errorf("the record does not match its design: run %d is %s %v, want %s %v", v.Run+1, v.Phase, v.Point, next.Phase, next.Point)
		}
		switch {
		case v.Stopped != "":
			c.Stopped(v.TookS)
		case !(v.Value > 0) || math.IsInf(v.Value, 1) || !(v.TookS >= 0):
			return nil, fmt.Errorf("the record is damaged: run %d has the value %v and took %v s", v.Run+1, v.Value, v.TookS)
		default:
			c.Took(Cost(m, v.Value), v.TookS)
		}
	}
	return c, nil
}

// Changes returns the settings that a point changes, as SETTING=VALUE. It returns nil for a point of
// another space: a record may come from anywhere.
func (s Space) Changes(p Point) (out []string) {
	if len(p) != len(s.Knobs) {
		return nil
	}
	for i, k := range s.Knobs {
		if p[i] < 0 || p[i] >= len(k.Levels) {
			return nil
		}
	}
	for i, k := range s.Knobs {
		if p[i] != k.Default {
			for _, name := range k.Settings {
				out = append(out, name+"="+k.Levels[p[i]])
			}
		}
	}
	return out
}

// Sum fills in the results of a course.
func (e *Evidence) Sum(c *Course) {
	best, gain := c.Best()
	if c.Ended() != "" {
		e.Ending = c.Ended()
	}
	e.Best = e.Design.Changes(best)
	if len(e.Best) > 0 {
		e.Seen = e.ratio(gain)
	}
	e.Bound = 0
	if bound, ok := c.Bound(); ok {
		e.Bound = e.ratio(bound)
		if len(e.Best) == 0 && e.Ending == EndedRuns && bound < e.Design.Margin {
			e.Ending = EndedFlat
		}
	}
	e.Text = e.sentence()
}

// ratio returns a gain, a difference of logarithms, as a share of the default's value.
func (e *Evidence) ratio(gain float64) float64 {
	if e.Metric.More {
		return math.Expm1(gain)
	}
	return -math.Expm1(-gain)
}

// sentence returns the result in words.
func (e *Evidence) sentence() string {
	runs := text.Count(len(e.Samples), "run")
	switch {
	case e.Proof != nil && e.Proof.Word == prove.Better:
		return "proved: " + strings.Join(e.Best, ", ") + ": " + e.Proof.Text
	case e.Proof != nil:
		return "not proved: " + strings.Join(e.Best, ", ") + ": " + e.Proof.Text
	case e.Ending == EndedInterrupted || e.Ending == EndedFailed || e.Ending == "":
		return "ended early after " + runs
	case len(e.Best) > 0:
		return "best of " + runs + ", not yet proved: " + strings.Join(e.Best, ", ")
	}
	margin := unit.Digits(100 * math.Expm1(e.Design.Margin))
	if e.Ending == EndedFlat {
		return fmt.Sprintf("nothing to gain here: after %s, no combination is likely to be better by %s %%", runs, margin)
	}
	if e.Bound > 0 {
		return fmt.Sprintf("cannot tell: in %s no combination looked better by %s %%; gains above %s %% are unlikely, and smaller ones need a larger --budget and more --runs", runs, margin, unit.Digits(100*e.Bound))
	}
	return fmt.Sprintf("cannot tell: in %s no combination looked better by %s %%; one may with a larger --budget and more --runs", runs, margin)
}

// Headline implements runpage.Result.
func (e *Evidence) Headline() (h ui.Headline) {
	h.Line("%s", e.Text)
	return h
}

// Next implements runpage.Result.
func (e *Evidence) Next() (string, []string) {
	if e.Kept || e.Proof == nil || e.Proof.Word != prove.Better {
		return "", nil
	}
	args := []string{"tune"}
	for _, s := range e.Best {
		args = append(args, "--set", s)
	}
	return "to keep the proved values:", args
}

// Print prints the result, the answer first, then what was searched.
func (e *Evidence) Print(s *ui.Screen, _ *evidence.Run) {
	h := e.Headline()
	ui.PrintHeadline(s, &h)
	fmt.Fprintln(s.Out)
	if e.Error != "" {
		ui.PrintLine(s, "ended early: %s", e.Error)
	}
	if err := e.Design.Space.Check(); err != nil {
		ui.PrintLine(s, "the record's settings are not valid: %v", err)
		return
	}
	best := "best"
	if e.Proof != nil && e.Proof.Word != prove.Better {
		best = "not proved"
	}
	g := ui.Grid{Columns: []ui.Column{{Head: "setting"}, {Head: "now"}, {Head: best}, {Head: "values"}}}
	for _, k := range e.Design.Knobs {
		best := "as now"
		for _, b := range e.Best {
			if value, is := strings.CutPrefix(b, k.Settings[0]+"="); is {
				best = value
			}
		}
		g.Rows = append(g.Rows, []string{k.Name, k.Levels[k.Default], best, strings.Join(k.Levels, ", ")})
	}
	g.Write(s)
	ui.PrintLine(s, "%s of at most %d; metric %s", text.Count(len(e.Samples), "run"), e.Design.Runs, e.Metric.Name)
	for _, v := range e.Samples {
		if v.Stopped != "" {
			ui.PrintLine(s, "stopped %s: %s", strings.Join(e.Design.Changes(v.Point), ", "), v.Stopped)
		}
	}
	if e.Seen > 0 {
		ui.PrintLine(s, "the best of the search looked %s %% better; the best of many noisy runs looks better than it is", unit.Digits(100*e.Seen))
	}
	if e.Proof != nil {
		ui.PrintLine(s, "the proof is run %s", e.Proof.Run)
	}
}
