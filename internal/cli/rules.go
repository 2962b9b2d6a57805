package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/report"
	"fettle.dev/fettle/internal/rule"
	"fettle.dev/fettle/internal/spell"
	"fettle.dev/fettle/internal/ui"
)

// RuleList is the JSON form of fettle rules list and show.
type RuleList struct {
	Schema   string           `json:"schema"` // fettle/rules/v1
	Rules    []*rule.Rule     `json:"rules"`
	Tables   []*rule.Table    `json:"tables"`
	Evidence []*rule.Evidence `json:"evidence"`
}

func rulesCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "rules", Short: "Show and test the rules that check asks",
		Long: `The rules of fettle, and those of the administrator in ` + ownRules + `.`,
		Args: cobra.NoArgs, RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(
		&cobra.Command{
			Use: "list [PLATFORM...]", Short: "List the rules, tables and evidence of the catalogue", ValidArgs: platformNames(),
			RunE: func(_ *cobra.Command, args []string) error { return a.rulesList(args) },
		},
		&cobra.Command{
			Use: "show ID...", Short: "Show rules, or what else the catalogue has under an id, with their sources", Args: cobra.MinimumNArgs(1),
			RunE: func(_ *cobra.Command, args []string) error { return a.rulesShow(args) },
		},
		&cobra.Command{
			Use: "lint", Short: "Look for mistakes in the rules, without asking a machine", Args: cobra.NoArgs,
			RunE: func(c *cobra.Command, _ []string) error { return a.rulesTest(c.Context(), false) },
		},
		&cobra.Command{
			Use: "test", Short: "Run the examples of the rules, and their fixes on an invented machine", Args: cobra.NoArgs,
			RunE: func(c *cobra.Command, _ []string) error { return a.rulesTest(c.Context(), true) },
		},
	)
	return c
}

func (a *app) catalogue() (*rule.Catalogue, error) {
	h, err := a.host()
	if err != nil {
		return nil, err
	}
	return catalogue(h)
}

func (a *app) rulesList(platforms []string) error {
	c, err := a.catalogue()
	if err != nil {
		return err
	}
	if err := knownPlatforms(platforms); err != nil {
		return err
	}
	list := RuleList{Schema: "fettle/rules/v1", Rules: []*rule.Rule{}, Tables: []*rule.Table{}, Evidence: []*rule.Evidence{}}
	for _, r := range c.Rules() {
		if len(platforms) == 0 || slices.ContainsFunc(r.Platforms, func(p string) bool { return slices.Contains(platforms, p) }) {
			list.Rules = append(list.Rules, r)
		}
	}
	if len(platforms) == 0 {
		list.Tables, list.Evidence = append(list.Tables, c.Tables()...), append(list.Evidence, c.Evidence()...)
	}
	if a.data() {
		return report.Data(a.screen, list, ui.Done)
	}
	report.Rules(a.screen, list.Rules, list.Tables, list.Evidence)
	return nil
}

func (a *app) rulesShow(ids []string) error {
	c, err := a.catalogue()
	if err != nil {
		return err
	}
	list := RuleList{Schema: "fettle/rules/v1", Rules: []*rule.Rule{}, Tables: []*rule.Table{}, Evidence: []*rule.Evidence{}}
	for _, id := range ids {
		found := false
		if r := c.Rule(id); r != nil {
			list.Rules, found = append(list.Rules, r), true
		}
		for _, t := range c.Tables() {
			if t.Name == id || slices.Contains(t.IDs, id) {
				list.Tables, found = append(list.Tables, t), true
			}
		}
		for _, e := range c.Evidence() {
			if e.ID == id || slices.Contains(e.Explains, id) {
				list.Evidence, found = append(list.Evidence, e), true
			}
		}
		if !found {
			return ui.Hinted(ui.Usage, fmt.Errorf("nothing in the catalogue has the id %q%s", id, spell.Suggest(id, ruleIDs(c))), "fettle rules list shows them")
		}
	}
	if a.data() {
		return report.Data(a.screen, list, ui.Done)
	}
	for _, r := range list.Rules {
		report.Rule(a.screen, r)
	}
	for _, t := range list.Tables {
		report.Table(a.screen, t)
	}
	for _, e := range list.Evidence {
		report.Evidence(a.screen, e)
	}
	return nil
}

func ruleIDs(c *rule.Catalogue) []string {
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

// rulesTest looks at every rule, and runs its examples.
func (a *app) rulesTest(ctx context.Context, examples bool) error {
	c, err := a.catalogue()
	if err != nil {
		return err
	}
	var problems []error
	ran, mended := 0, 0
	for _, r := range c.Rules() {
		if err := c.Compile(r); err != nil {
			problems = append(problems, err)
			continue
		}
		if examples {
			problems = append(problems, c.TestExamples(r)...)
			ran += len(r.Examples)
			n, more := tryFixes(ctx, c, r)
			mended, problems = mended+n, append(problems, more...)
		}
	}
	if err := errors.Join(problems...); err != nil {
		return err
	}
	if examples {
		fmt.Fprintf(a.screen.Out, "%d rules: %d examples hold, %d fixes, of the kernel's values and of custom-hiera.yaml, mend what was found and are taken back\n", len(c.Rules()), ran, mended)
	} else {
		fmt.Fprintf(a.screen.Out, "%d rules, %d tables, %d pieces of evidence: no mistakes\n", len(c.Rules()), len(c.Tables()), len(c.Evidence()))
	}
	return nil
}
