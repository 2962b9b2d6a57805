package report

import (
	"fmt"
	"strings"
	"time"

	"fettle.dev/fettle/internal/rule"
	"fettle.dev/fettle/internal/ui"
)

// Audit is what came of asking a machine's rules.
type Audit struct {
	Schema    string    `json:"schema"` // fettle/check/v1
	Machine   string    `json:"machine"`
	Time      time.Time `json:"time"`
	Platforms []string  `json:"platforms"`
	// Counts is how many findings there are in each state.
	Counts   map[rule.State]int `json:"counts"`
	Findings []rule.Finding     `json:"findings"`
}

// NewAudit counts the findings.
func NewAudit(machine string, when time.Time, platforms []string, findings []rule.Finding) *Audit {
	a := &Audit{Schema: "fettle/check/v1", Machine: machine, Time: when, Platforms: platforms, Counts: map[rule.State]int{}, Findings: findings}
	for _, s := range rule.States {
		a.Counts[s] = 0
	}
	for _, f := range findings {
		a.Counts[f.State]++
	}
	return a
}

// Worst is the most severe state there is.
func (a *Audit) Worst() rule.State {
	for _, s := range []rule.State{rule.Failed, rule.Warned, rule.Unknown} {
		if a.Counts[s] > 0 {
			return s
		}
	}
	return rule.Passed
}

func findingSign(s rule.State) (sign, color string) {
	switch s {
	case rule.Passed:
		return "✓", ui.Green
	case rule.Failed:
		return "✗", ui.Red
	case rule.Warned:
		return "!", ui.Yellow
	case rule.Unknown:
		return "?", ui.Yellow
	}
	return "·", ui.Dim
}

// Findings prints an audit: what is wrong in full, the rest only where all is
// asked for.
func Findings(s *ui.Screen, a *Audit, all bool) {
	g := Grid{Head: []string{"finding", "rule", "what", "measured", "wanted", "from"}}
	var states []rule.State
	for _, f := range a.Findings {
		if !all && (f.State == rule.Passed || f.State == rule.NotApplicable || f.State == rule.Reminded) {
			continue
		}
		sign, _ := findingSign(f.State)
		what := f.Title
		if f.Instance != "" {
			what = f.Instance + ": " + what
		}
		if f.Because != "" {
			what += " (because of " + f.Because + ")"
		}
		measured := rule.Print(f.Measured, f.Unit)
		if f.Reason != "" {
			measured = f.Reason
		}
		g.Rows = append(g.Rows, []string{sign + " " + string(f.State), f.ID, what, measured, rule.Print(f.Want, f.Unit), strings.Join(f.At, " ")})
		states = append(states, f.State)
	}
	g.Color = func(row, col int) string {
		if col != 0 {
			return ""
		}
		_, color := findingSign(states[row])
		return color
	}
	if len(g.Rows) > 0 {
		g.Write(s)
		fmt.Fprintln(s.Out)
	}
	var parts []string
	for _, state := range rule.States {
		parts = append(parts, fmt.Sprintf("%d %s", a.Counts[state], state))
	}
	fmt.Fprintf(s.Out, "%s: %s\n", strings.Join(a.Platforms, ", "), strings.Join(parts, ", "))
}
