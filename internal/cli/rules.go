package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/audit"
	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/guide/findings"
	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/host"
	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
)

// RuleList is the JSON form of fettle rules list and show.
type RuleList struct {
	Schema   string           `json:"schema"` // fettle/rules/v1
	Headline ui.Headline      `json:"headline"`
	Rules    []*rule.Rule     `json:"rules"`
	Tables   []*rule.Table    `json:"tables"`
	Evidence []*rule.Evidence `json:"evidence"`
}

const idsHelp = `Without arguments it takes all rules. An ID may be a quoted pattern: 'S*'. A FILE
(NAME.yaml) may be in any directory. It is read as if it were installed, instead of an
installed file of the same name.`

func rulesCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "rules", Short: "List, show and test the rules of fettle check",
		Long: `Lists, shows and tests fettle's rules and the administrator's rules in ` + audit.OwnRules + `.`,
		Args: cliutil.KnownVerb, RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(rulesUpdateCommands(a)...)
	c.AddCommand(
		&cobra.Command{
			Use: "list [PLATFORM...]", Short: "List the rules, tables and evidence of the catalog",
			RunE: func(_ *cobra.Command, args []string) error { return a.rulesList(args) },
		},
		&cobra.Command{
			Use: "show ID...", Short: "Show rules, tables and evidence by ID, with sources", Args: cobra.MinimumNArgs(1),
			RunE: func(_ *cobra.Command, args []string) error { return a.rulesShow(args) },
		},
		&cobra.Command{
			Use: "lint [ID|FILE...]", Short: "Check rules for mistakes",
			Long: "Checks rules for mistakes, without running their examples.\n\n" + idsHelp,
			RunE: func(c *cobra.Command, args []string) error { return a.rulesTest(c.Context(), args, false) },
		},
		&cobra.Command{
			Use: "test [ID|FILE...]", Short: "Run the examples and fixes of rules",
			Long: "Runs the examples of rules, and tries their fixes on simulated machines.\n\n" + idsHelp,
			RunE: func(c *cobra.Command, args []string) error { return a.rulesTest(c.Context(), args, true) },
		},
	)
	return c
}

func (a *app) catalogue(need *rule.Needed) (*rule.Catalogue, error) {
	h, err := a.host()
	if err != nil {
		return nil, err
	}
	own, err := a.ownRules(h)
	if err != nil {
		return nil, err
	}
	return audit.CatalogueOf(own, need)
}

func (a *app) rulesList(platforms []string) error {
	c, err := a.catalogue(nil)
	if err != nil {
		return err
	}
	if platforms, err = audit.Known(platforms); err != nil {
		return err
	}
	list := RuleList{Schema: "fettle/rules/v1", Rules: []*rule.Rule{}, Tables: []*rule.Table{}, Evidence: []*rule.Evidence{}}
	for _, r := range c.Rules() {
		if len(platforms) == 0 || slices.ContainsFunc(r.Platforms, func(p string) bool { return slices.Contains(platforms, p) }) {
			list.Rules = append(list.Rules, r)
		}
	}
	slices.SortStableFunc(list.Rules, func(a, b *rule.Rule) int {
		return cmp.Or(cmp.Compare(a.Platforms[0], b.Platforms[0]), fact.Natural(a.ID, b.ID))
	})
	if len(platforms) == 0 {
		list.Tables, list.Evidence = append(list.Tables, c.Tables()...), append(list.Evidence, c.Evidence()...)
	}
	list.headline("", len(platforms) == 0)
	if a.data() {
		return ui.Data(a.screen, list, ui.Done)
	}
	ui.PrintHeadline(a.screen, &list.Headline)
	findings.PrintRules(a.screen, list.Rules, list.Tables, list.Evidence)
	return nil
}

// headline counts the rules in the list.
func (l *RuleList) headline(before string, all bool) {
	h := &l.Headline
	parts := []string{}
	if n := len(l.Rules); n > 0 || !all {
		parts = append(parts, h.Count("rules", n, "rule"))
	}
	if n := len(l.Tables); n > 0 && all {
		parts = append(parts, h.Count("tables", n, "table"))
	}
	if n := len(l.Evidence); n > 0 && all {
		parts = append(parts, h.Value("pieces_of_evidence", float64(n), internaltext.CountPlural(uint64(n), "measurement that explains rules", "measurements that explain rules")))
	}
	h.Line("%s%s", before, strings.Join(parts, ", "))
}

func (a *app) rulesShow(ids []string) error {
	c, _, _, err := a.catalogueWith(ids)
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
			return ui.Hinted(ui.Usage, fmt.Errorf("no rule, table or measurement has the id %q%s", id, internaltext.Suggest(id, audit.IDs(c))), "fettle rules list shows all ids")
		}
	}
	list.headline(strings.Join(ids, ", ")+": ", true)
	if a.data() {
		return ui.Data(a.screen, list, ui.Done)
	}
	ui.PrintHeadline(a.screen, &list.Headline)
	fmt.Fprintln(a.screen.Out)
	for _, r := range list.Rules {
		findings.PrintRule(a.screen, r)
	}
	for _, t := range list.Tables {
		findings.PrintTable(a.screen, t)
	}
	for _, e := range list.Evidence {
		findings.PrintEvidence(a.screen, e)
	}
	return nil
}

// pickRules returns the rules with matching ids, or all rules without ids.
func pickRules(c *rule.Catalogue, ids []string) ([]*rule.Rule, error) {
	if len(ids) == 0 {
		return c.Rules(), nil
	}
	wanted := map[string]bool{}
	for _, id := range ids {
		found := false
		for _, r := range c.Rules() {
			ok, err := path.Match(id, r.ID)
			if err != nil {
				return nil, ui.Exit(ui.Usage, fmt.Errorf("%q is not a pattern: %w", id, err))
			}
			if ok || r.ID == id {
				wanted[r.ID], found = true, true
			}
		}
		switch {
		case found:
		case slices.Contains(audit.IDs(c), id):
			return nil, ui.Hinted(ui.Usage, fmt.Errorf("%s is a table or a measurement, so it has no examples", id), "fettle rules show "+id+" shows it")
		case strings.ContainsAny(id, "*?["):
			return nil, ui.Hinted(ui.Usage, fmt.Errorf("no rule id matches %q", id), "fettle rules list shows all ids")
		default:
			return nil, noRule(c, id)
		}
	}
	return slices.DeleteFunc(c.Rules(), func(r *rule.Rule) bool { return !wanted[r.ID] }), nil
}

// noRule returns the error for an unknown id.
func noRule(c *rule.Catalogue, id string) error {
	if strings.Contains(id, "/") {
		return ui.Hinted(ui.Usage, fmt.Errorf("%s: the name of a rule file must end in .yaml", id), "fettle rules list shows the ids of rules")
	}
	return ui.Hinted(ui.Usage, fmt.Errorf("no rule has the id %q%s", id, internaltext.Suggest(id, audit.IDs(c))), "fettle rules list shows all ids")
}

// rulesTest compiles rules and runs their examples.
func (a *app) rulesTest(ctx context.Context, ids []string, examples bool) error {
	c, files, ids, err := a.catalogueWith(ids)
	if err != nil {
		return err
	}
	var picked []*rule.Rule
	if len(ids) > 0 || len(files) == 0 {
		if picked, err = pickRules(c, ids); err != nil {
			return err
		}
	}
	for _, r := range c.Rules() {
		if slices.Contains(files, r.At.File) && !slices.Contains(picked, r) {
			picked = append(picked, r)
		}
	}
	var problems []error
	ran, mended := 0, 0
	for _, r := range picked {
		if err := c.Compile(r); err != nil {
			problems = append(problems, err)
			continue
		}
		if examples {
			problems = append(problems, c.TestExamples(ctx, r)...)
			ran += len(r.Examples)
			n, more := tryFixes(ctx, c, r)
			mended, problems = mended+n, append(problems, more...)
			if err := ctx.Err(); err != nil {
				return err
			}
		} else if err := r.LackOfExamples(); err != nil {
			problems = append(problems, err)
		}
	}
	if err := errors.Join(problems...); err != nil {
		return err
	}
	rules := counted(len(picked), "rule", "rules")
	switch {
	case examples:
		ui.PrintLine(a.screen, "%s: %s; %s of kernel values and custom-hiera.yaml tested and undone", rules, counted(ran, "example holds", "examples hold"), counted(mended, "fix", "fixes"))
	case len(ids)+len(files) > 0:
		fmt.Fprintf(a.screen.Out, "%s: no mistakes\n", rules)
	default:
		fmt.Fprintf(a.screen.Out, "%s, %s, %s of evidence: no mistakes\n", rules, internaltext.Count(len(c.Tables()), "table"), internaltext.Count(len(c.Evidence()), "piece"))
	}
	return nil
}

// counted returns a number with its noun in the singular or plural.
func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// catalogueWith returns the catalog with the rule files among words added. They replace the
// administrator's files of the same name. ids are the other words.
func (a *app) catalogueWith(words []string) (c *rule.Catalogue, files, ids []string, err error) {
	h, err := a.host()
	if err != nil {
		return nil, nil, nil, err
	}
	own, err := a.ownRules(h)
	if err != nil {
		return nil, nil, nil, err
	}
	for _, word := range words {
		if path.Ext(word) != ".yaml" {
			ids = append(ids, word)
			continue
		}
		full, err := filepath.Abs(word)
		if err != nil {
			return nil, nil, nil, err
		}
		text, err := host.Live().Files.ReadFile(full)
		if err != nil {
			return nil, nil, nil, ui.Exit(ui.Usage, err)
		}
		own = slices.DeleteFunc(own, func(f rule.File) bool { return path.Base(f.Name) == path.Base(word) })
		own = append(own, rule.File{Name: word, Text: text})
		files = append(files, word)
	}
	if len(ids) > 0 {
		c, err = audit.CatalogueWith(own, ids)
	} else {
		c, err = audit.CatalogueOf(own, nil)
	}
	return c, files, ids, err
}
