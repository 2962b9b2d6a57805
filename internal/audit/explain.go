package audit

import (
	"context"
	"fmt"
	"slices"

	"fettle.dev/fettle/internal/guide/findings"
	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/ui"
)

// Explanation is the JSON form of fettle check --explain.
type Explanation struct {
	Schema   string           `json:"schema"` // fettle/explain/v1
	Headline ui.Headline      `json:"headline"`
	Rule     *rule.Rule       `json:"rule"`
	Evidence []*rule.Evidence `json:"evidence"` // the source's measurements that explain the rule
	Tables   []*rule.Table    `json:"tables"`   // each with its id
	// Findings are the rule's results on this machine.
	Findings []rule.Finding `json:"findings"`
}

// Explain returns everything about a rule of the request's catalog.
func (r *Request) Explain(ctx context.Context, of *rule.Rule) (*Explanation, error) {
	x := &Explanation{Schema: "fettle/explain/v1", Rule: of, Evidence: []*rule.Evidence{}, Tables: []*rule.Table{}, Findings: []rule.Finding{}}
	for _, e := range r.Catalogue.Evidence() {
		if slices.Contains(e.Explains, of.ID) {
			x.Evidence = append(x.Evidence, e)
		}
	}
	for _, t := range r.Catalogue.Tables() {
		if slices.Contains(t.IDs, of.ID) {
			x.Tables = append(x.Tables, t)
		}
	}
	for _, f := range r.Catalogue.With(of.ID).Check(ctx, r.Subject, of.Platforms, r.Catalogue.Disabled()) {
		if f.ID == of.ID {
			x.Findings = append(x.Findings, f)
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	SayLimits(r.Screen, r.Subject, nil, r.WholeLogs)
	x.Headline = findings.ExplainHeadline(of, x.Findings)
	return x, nil
}

// PrintExplanation prints the rule's findings as a table or Markdown. If ruleText is set, it
// prints the rule's text too.
func (r *Request) PrintExplanation(x *Explanation, ruleText bool) error {
	s, h := r.Screen, r.Subject.Host
	if s.Format != ui.Table && s.Format != ui.Markdown {
		return ui.Instead(ui.Usage, fmt.Errorf("--explain: unknown format %s; want table, json, yaml or markdown", s.Format), "", "--output=json")
	}
	a := findings.NewAudit(h.Hostname(), h.Clock.Now().UTC(), x.Rule.Platforms, x.Findings)
	a.Program, a.Copied, a.From = s.Name, r.Root != "", r.Root
	ui.PrintHeadline(s, &x.Headline)
	fmt.Fprintln(s.Out)
	findings.PrintExplained(s, a, !ruleText)
	if !ruleText {
		return nil
	}
	fmt.Fprintln(s.Out)
	findings.PrintRule(s, x.Rule)
	for _, e := range x.Evidence {
		fmt.Fprintln(s.Out)
		findings.PrintEvidence(s, e)
	}
	for _, t := range x.Tables {
		fmt.Fprintln(s.Out)
		findings.PrintTable(s, t)
	}
	return nil
}

// IDs returns the ids of the rules, tables and evidence of a catalog.
func IDs(c *rule.Catalogue) []string {
	var ids []string
	for _, r := range c.Rules() {
		ids = append(ids, r.ID)
	}
	for _, t := range c.Tables() {
		ids = append(append(ids, t.Name), t.IDs...)
	}
	for _, e := range c.Evidence() {
		ids = append(ids, e.ID)
	}
	return ids
}
