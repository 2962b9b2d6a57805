package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/audit"
	"fettle.dev/fettle/internal/guide/rule"
	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
)

// explain prints all details of one rule.
func (a *app) explain(ctx context.Context, r *audit.Request, o checkOptions) error {
	id := o.explain
	of := r.Catalogue.Rule(id)
	if of == nil && slices.Contains(audit.IDs(r.Catalogue), id) {
		return a.rulesShow([]string{id}) // a table or a measurement, not a rule
	}
	if of == nil {
		err := fmt.Errorf("no rule has the id %q%s", id, internaltext.Suggest(id, audit.IDs(r.Catalogue)))
		if near := internaltext.Nearest(id, audit.IDs(r.Catalogue)); near != "" {
			return ui.Instead(ui.Usage, err, "", "--explain="+near)
		}
		return ui.Hinted(ui.Usage, err, "fettle rules list shows all ids; fettle rules show ID also prints tables and evidence")
	}
	x, err := r.Explain(ctx, of)
	if err != nil {
		return err
	}
	if a.data() {
		return a.result(x, nil)
	}
	return r.PrintExplanation(x, o.ruleText)
}

// notRules returns an error if the id of a rule is given as a platform.
func (a *app) notRules(names []string) error {
	at := slices.IndexFunc(names, func(n string) bool { _, err := audit.Known([]string{n}); return err != nil })
	if at < 0 {
		return nil
	}
	id := strings.ToUpper(names[at])
	c, err := a.catalogue(&rule.Needed{IDs: []string{id}})
	if err != nil || c.Rule(id) == nil {
		return nil // not a rule: an unknown platform
	}
	return ui.OtherWord(fmt.Errorf("%s is a rule, not a platform", id), names[at], "--explain="+id)
}

// completeIDs completes the ids of rules.
func (a *app) completeIDs() []string {
	c, err := a.catalogue(&rule.Needed{Platforms: audit.Platforms()})
	if err != nil {
		return nil
	}
	var ids []string
	for _, r := range c.Rules() {
		ids = append(ids, r.ID+"\t"+r.Title)
	}
	return ids
}
