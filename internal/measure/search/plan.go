package search

import (
	"math"
	"strings"

	"fettle.dev/fettle/internal/measure/prove"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

// Plan is what a search would do.
type Plan struct {
	Schema   string       `json:"schema"` // fettle/search-plan/v1
	Headline ui.Headline  `json:"headline"`
	Metric   prove.Metric `json:"metric"`
	Design   Design       `json:"design"`
	// Combinations is the number of combinations, at most a million.
	Combinations int     `json:"combinations"`
	ProofS       float64 `json:"proof_budget_s"`
	// Restarts lists the programs that each switch restarts.
	Restarts []string `json:"restarts,omitempty"`
}

// mostCounted is the largest number of combinations that is counted.
const mostCounted = 1_000_000

// NewPlan describes a search with a design and a proof of at most proofS seconds.
func NewPlan(d Design, m prove.Metric, proofS float64, restarts []string) *Plan {
	p := &Plan{Schema: "fettle/search-plan/v1", Metric: m, Design: d, Combinations: d.Size(mostCounted), ProofS: proofS, Restarts: restarts}
	p.Headline.Line("%s", p.Sentence())
	p.Headline.Count("settings", len(d.Knobs), "setting")
	p.Headline.Count("combinations", p.Combinations, "combination")
	return p
}

// Sentence describes the search: what, how long, and what it cannot find.
func (p *Plan) Sentence() string {
	combinations := text.Count(p.Combinations, "combination")
	if p.Combinations == mostCounted {
		combinations = "more than a million combinations"
	}
	return text.Sprintf("searching %s, %s: at most %s in %s, then at most %s to prove the best; it does not look for gains below %s %%",
		text.Count(len(p.Design.Knobs), "setting"), combinations, text.Count(p.Design.Runs, "run"), ui.Roughly(p.Design.BudgetS), ui.Roughly(p.ProofS), unit.Digits(100*math.Expm1(p.Design.Margin)))
}

// Print prints the plan.
func (p *Plan) Print(s *ui.Screen) {
	ui.PrintHeadline(s, &p.Headline)
	ui.PrintLine(s, "")
	g := ui.Grid{Columns: []ui.Column{{Head: "setting"}, {Head: "now"}, {Head: "values to try"}}}
	for _, k := range p.Design.Knobs {
		g.Rows = append(g.Rows, []string{k.Name, k.Levels[k.Default], strings.Join(k.Levels, ", ")})
	}
	g.Write(s)
	if len(p.Restarts) > 0 {
		ui.PrintLine(s, "each switch restarts %s", strings.Join(p.Restarts, " and "))
	}
}
