package cli

import (
	"context"
	"fmt"
	"slices"

	"fettle.dev/fettle/internal/audit"
	"fettle.dev/fettle/internal/guide/findings"
	"fettle.dev/fettle/internal/guide/platform"
	"fettle.dev/fettle/internal/guide/rule"
	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
)

// Explanation is the JSON form of fettle check --explain.
type Explanation struct {
	Schema   string           `json:"schema"` // fettle/explain/v1
	Rule     *rule.Rule       `json:"rule"`
	Evidence []*rule.Evidence `json:"evidence"` // measurements of the sources that explain it
	Tables   []*rule.Table    `json:"tables"`   // with its id
	// Findings are the rule's results on this machine.
	Findings []rule.Finding `json:"findings"`
}

// explain prints everything about one rule.
func (a *app) explain(ctx context.Context, c *rule.Catalogue, m *platform.Subject, o checkOptions) error {
	id := o.explain
	r := c.Rule(id)
	if r == nil && slices.Contains(ruleIDs(c), id) {
		return a.rulesShow([]string{id}) // a table, or a measurement
	}
	if r == nil {
		return ui.Hinted(ui.Usage, fmt.Errorf("no rule has the id %q%s", id, internaltext.Suggest(id, ruleIDs(c))), "fettle rules list shows them; fettle rules show has tables and evidence too")
	}
	x := Explanation{Schema: "fettle/explain/v1", Rule: r, Evidence: []*rule.Evidence{}, Tables: []*rule.Table{}, Findings: []rule.Finding{}}
	for _, e := range c.Evidence() {
		if slices.Contains(e.Explains, id) {
			x.Evidence = append(x.Evidence, e)
		}
	}
	for _, t := range c.Tables() {
		if slices.Contains(t.IDs, id) {
			x.Tables = append(x.Tables, t)
		}
	}
	for _, f := range c.Check(ctx, m, r.Platforms, c.Disabled()) {
		if f.ID == id {
			x.Findings = append(x.Findings, f)
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	audit.SayLimits(a.screen, m, nil, "--logs all")
	if a.data() {
		return a.result(x, nil)
	}
	if a.screen.Format != ui.Table && a.screen.Format != ui.Markdown {
		return ui.Instead(ui.Usage, fmt.Errorf("--explain has no format %s: want table, json, yaml or markdown", a.screen.Format), "", "--output=json")
	}
	shown := findings.NewAudit(audit.Hostname(m.Host), m.Host.Clock.Now().UTC(), r.Platforms, x.Findings)
	shown.Copied, shown.From = a.root != "", a.root
	findings.PrintExplained(a.screen, shown)
	if !o.ruleText {
		return nil
	}
	fmt.Fprintln(a.screen.Out)
	findings.PrintRule(a.screen, r)
	for _, e := range x.Evidence {
		fmt.Fprintln(a.screen.Out)
		findings.PrintEvidence(a.screen, e)
	}
	for _, t := range x.Tables {
		fmt.Fprintln(a.screen.Out)
		findings.PrintTable(a.screen, t)
	}
	return nil
}

// completeIDs completes the ids of rules.
func (a *app) completeIDs() []string {
	c, err := a.catalogue()
	if err != nil {
		return nil
	}
	var ids []string
	for _, r := range c.Rules() {
		ids = append(ids, r.ID+"\t"+r.Title)
	}
	return ids
}
