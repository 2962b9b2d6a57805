package scenario

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/requests/load/engine"
	"fettle.dev/fettle/internal/requests/load/ladder"
	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

// Ladder is the search for the highest number of hosts at a time without a failure.
type Ladder struct {
	ladder.Result
	// Observed is the server that was audited twice: in a run without a failure and in a run
	// with one.
	Observed string `json:"observed,omitempty"`
	// Limits are what the observed server ran out of, the most likely first.
	Limits []Limit `json:"limits"`
	// NoLimit is why the limits are unknown although a server was observed.
	NoLimit string `json:"no_limit,omitempty"`
}

// Limit is a limit that a server reached.
type Limit struct {
	ID   string `json:"id"` // of a rule, or of a cause of slowness
	Text string `json:"text"`
	// Fix is what lifts the limit. Prove holds the words of a command that tries it.
	Fix   string   `json:"fix,omitempty"`
	Prove []string `json:"prove,omitempty"`
}

// Climb searches the highest number of hosts at a time without a failure. run runs the scenario
// with a number of hosts. A run has failed if a threshold is not met; without a threshold on the
// errors of whole hosts, also if any host failed. told is called after each run. The result
// describes the last run of the highest number of hosts without a failure, or else the last run.
func Climb(ctx context.Context, in ladder.Range, run func(ctx context.Context, hosts int) (*Result, error), told func(ladder.Run)) (*Result, error) {
	at := map[int]*Result{}
	found, err := ladder.Find(ctx, in, func(ctx context.Context, hosts int) (ladder.Outcome, string, error) {
		x, err := run(ctx, hosts)
		if err != nil {
			return "", "", err
		}
		at[hosts] = x
		outcome, why := x.outcome()
		told(ladder.Run{Hosts: hosts, Outcome: outcome, Why: why})
		return outcome, why, nil
	})
	if err != nil {
		return nil, err
	}
	x := at[found.Highest]
	if x == nil {
		x = at[found.Runs[len(found.Runs)-1].Hosts]
	}
	x.Ladder = &Ladder{Result: *found, Limits: []Limit{}}
	x.Conclude()
	return x, nil
}

// outcome judges a run of a ladder.
func (x *Result) outcome() (o ladder.Outcome, why string) {
	w := &x.Whole
	onErrors := slices.ContainsFunc(x.Gates, func(g Judged) bool { return g.Step == "" && strings.HasPrefix(g.Gate, engine.Errors) })
	for _, g := range x.Failed() {
		why = fmt.Sprintf("threshold %s not met: %s", g.Name(), g.Text)
		break
	}
	if failed := w.Runs - w.Interrupted - w.Good(); why == "" && failed > 0 && !onErrors {
		why = fmt.Sprintf("%d of %s failed%s", failed, internaltext.Count(w.Runs, "host"), x.why())
	}
	if why != "" && x.Stopped {
		why += "; stopped after " + unit.FormatSeconds(x.Duration)
	}
	switch {
	case why == "":
		_, text := x.verdict()
		return ladder.Passed, text
	case x.Generator.Limited:
		return ladder.Limited, x.Generator.Texts[0] + "; " + why
	}
	return ladder.Failed, why
}

// Good returns the number of runs that ended without an error.
func (f *Figures) Good() int64 { return f.Runs - f.Errors - f.Interrupted }

// Conclude writes the verdict of a ladder, after its limits are known.
func (x *Result) Conclude() {
	l := x.Ladder
	at := func(hosts int) string { return internaltext.Count(hosts, "host") + " at a time" }
	last := func(o ladder.Outcome) (r ladder.Run) {
		for _, r := range slices.Backward(l.Runs) {
			if r.Outcome == o {
				return r
			}
		}
		return r
	}
	switch l.Answer {
	case ladder.Found, ladder.TooFewRuns:
		x.Word, x.Text = Sustained, l.found(at)
		if l.Answer == ladder.TooFewRuns {
			x.Word = NotDetermined
			x.Text = internaltext.Sprintf("no narrow answer after %d runs: %s", len(l.Runs), x.Text)
		}
	case ladder.NotLimited:
		x.Word, x.Text = Sustained, "not limited up to "+at(l.Highest)+l.count(l.Highest)
	case ladder.FailsAtLowest:
		x.Word, x.Text = NotSustained, fmt.Sprintf("fails even with %s%s: %s", at(l.FirstFailed), l.count(l.FirstFailed), last(ladder.Failed).Why)
	case ladder.GeneratorFirst:
		r := last(ladder.Limited)
		x.Word, x.Text = Limited, fmt.Sprintf("the generator was the limit with %s: %s", at(r.Hosts), r.Why)
		if l.Highest > 0 {
			x.Text += "; the server was not limited up to " + at(l.Highest)
		}
	case ladder.NotRecovered:
		x.Word, x.Text = NotDetermined, fmt.Sprintf("the server has not recovered from the overload: it worked with %s before, but now fails: %s", at(last(ladder.Failed).Hosts), last(ladder.Failed).Why)
	}
}

// found returns the answer of a search that found the edge.
func (l *Ladder) found(at func(int) string) string {
	edge := fmt.Sprintf("95 %% interval %d to %d", l.Edge.Low, l.Edge.High)
	switch {
	case l.Edge.Low == 0 && l.Edge.High == 0:
		edge = "no interval yet"
	case l.Edge.High == 0:
		edge = fmt.Sprintf("95 %% interval %d or more", l.Edge.Low)
	case l.Edge.Low == 0:
		edge = fmt.Sprintf("95 %% interval up to %d", l.Edge.High)
	}
	text := fmt.Sprintf("some runs failed at each number of hosts; number of hosts at which half of the runs fail: %s", edge)
	if l.Highest > 0 {
		text = fmt.Sprintf("highest without failure: %s (%s)", at(l.Highest), edge)
	}
	switch {
	case len(l.Limits) > 0:
		text += ", limited by: " + l.Limits[0].Text
	case l.Observed != "":
		text += ", limit not determined: " + l.NoLimit
	}
	return text
}

// count returns how many runs with a number of hosts had the same outcome.
func (l *Ladder) count(hosts int) string {
	all, passed := 0, 0
	for _, r := range l.Runs {
		if r.Hosts == hosts {
			all++
			if r.Outcome == ladder.Passed {
				passed++
			}
		}
	}
	if passed == 0 {
		return fmt.Sprintf(" (%d of %s)", all, internaltext.Count(all, "run"))
	}
	return fmt.Sprintf(" (%d of %s)", passed, internaltext.Count(all, "run"))
}

// rungs returns the runs of a ladder by the number of hosts.
func (l *Ladder) rungs() *ui.Grid {
	g := &ui.Grid{Columns: ui.Columns("hosts", "passed", "failed", "the last run")}
	g.Columns[0].Right, g.Columns[1].Right, g.Columns[2].Right = true, true, true
	g.Columns[3].Below = true
	type rung struct {
		passed, failed int
		why            string
	}
	by := map[int]*rung{}
	var levels []int
	for _, r := range l.Runs {
		if by[r.Hosts] == nil {
			by[r.Hosts] = &rung{}
			levels = append(levels, r.Hosts)
		}
		b := by[r.Hosts]
		if b.why = r.Why; r.Outcome == ladder.Passed {
			b.passed++
		} else {
			b.failed++
		}
	}
	slices.Sort(levels)
	for _, hosts := range levels {
		b := by[hosts]
		g.Rows = append(g.Rows, []string{fmt.Sprint(hosts), fmt.Sprint(b.passed), fmt.Sprint(b.failed), b.why})
	}
	return g
}

// limits prints the limits of the observed server, and what lifts them.
func (l *Ladder) limits(s *ui.Screen) {
	for _, one := range l.Limits {
		ui.PrintLine(s, "· limit %s: %s", one.ID, one.Text)
		if one.Fix != "" {
			ui.PrintLine(s, "  to lift it: %s", one.Fix)
		}
		if len(one.Prove) > 0 {
			ui.PrintLine(s, "  only if the server is a test system, because each switch restarts a program, try it there:")
			ui.PrintCommand(s, internaltext.CommandLine(append([]string{"fettle"}, one.Prove...)))
		}
	}
}
