package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"fettle.dev/fettle/internal/journal"
	"fettle.dev/fettle/internal/report"
	"fettle.dev/fettle/internal/rule"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/spell"
	"fettle.dev/fettle/internal/tune"
	"fettle.dev/fettle/internal/ui"
)

// FixResult is the JSON form of fettle fix.
type FixResult struct {
	Schema string `json:"schema"` // fettle/fix/v1
	// Plan is what the journal can take back; nil where nothing is of that sort.
	Plan *tune.Plan `json:"plan,omitempty"`
	// Applied is what came of it; nil where nothing was asked to be changed.
	Applied *tune.Applied `json:"applied,omitempty"`
	// ByHand is what somebody else's tool or a person has to do.
	ByHand []report.ByHand `json:"by_hand"`
	// Findings are what the fixed rules say afterwards.
	Findings []rule.Finding `json:"findings"`
}

type fixOptions struct {
	yes       bool
	platforms []string
}

func fixCommand(a *app) *cobra.Command {
	var o fixOptions
	c := &cobra.Command{
		Use: "fix [ID...]", Short: "Mend what check has found: the plan first, then through the journal",
		Long: `Shows what would make the rules pass, of the rules named or of all that have
failed, and asks before it writes. What fettle writes can be undone with fettle
undo. For what belongs to another tool it prints the entries, and the command
that applies them.`,
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return a.completeRules(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(c *cobra.Command, args []string) error { return a.fix(c.Context(), args, o) },
	}
	f := c.Flags()
	f.BoolVarP(&o.yes, "yes", "y", false, "write without asking")
	f.StringSliceVar(&o.platforms, "platform", nil, "only the rules of these platforms (default: all that this machine is)")
	return c
}

func (a *app) completeRules() []string {
	c, err := a.catalogue()
	if err != nil {
		return nil
	}
	var ids []string
	for _, r := range c.Rules() {
		if r.Fix != nil {
			ids = append(ids, r.ID+"\t"+r.Title)
		}
	}
	return ids
}

func (a *app) fix(ctx context.Context, ids []string, o fixOptions) error {
	if err := a.mustBeLive(); err != nil {
		return err
	}
	m, err := a.machine(ctx)
	if err != nil {
		return err
	}
	c, err := catalogue(m.host)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if c.Rule(id) == nil {
			return ui.Hinted(ui.Usage, fmt.Errorf("no rule has the id %q%s", id, spell.Suggest(id, ruleIDs(c))), "fettle rules list shows them")
		}
	}
	if err := knownPlatforms(o.platforms); err != nil {
		return err
	}
	findings := m.bad(ctx, c, ids, o.platforms)
	res := FixResult{Schema: "fettle/fix/v1", ByHand: []report.ByHand{}, Findings: []rule.Finding{}}
	var changes []setting.Change
	for _, f := range findings {
		if f.Fix == nil {
			res.ByHand = append(res.ByHand, report.ByHand{ID: f.ID, Instance: f.Instance, Text: "no program can mend it: " + f.Why})
			continue
		}
		more, err := changesOf(f)
		if err != nil {
			return err
		}
		changes = append(changes, more...)
		if f.Fix.Artefact != "" || f.Fix.Command != "" || f.Fix.Text != "" {
			res.ByHand = append(res.ByHand, report.ByHand{ID: f.ID, Instance: f.Instance, Artefact: f.Fix.Artefact, Entries: f.Fix.Entries, Command: f.Fix.Command, Text: f.Fix.Text})
		}
	}
	if len(findings) == 0 {
		a.screen.Say("nothing to mend: fettle check --all shows what was looked at")
	}
	if len(changes) > 0 {
		err = m.fixByJournal(ctx, &res, changes, o.yes)
	}
	if res.Applied != nil {
		var fixed []string
		for _, f := range findings {
			fixed = append(fixed, f.ID)
		}
		res.Findings = m.ask(ctx, c, fixed, nil)
	}
	if a.data() {
		return a.result(res, err)
	}
	report.Fixed(a.screen, res.ByHand, res.Findings)
	return err
}

// changesOf are the settings that a finding's fix writes.
func changesOf(f rule.Finding) ([]setting.Change, error) {
	var out []setting.Change
	for _, e := range f.Fix.Changes {
		s, err := setting.Parse(e.Name)
		if err != nil {
			return nil, fmt.Errorf("%s: the fix of %s: %w", f.Rule.At, f.ID, err)
		}
		out = append(out, setting.Change{Setting: s, Want: setting.Text(e.Value), Reason: setting.Reason{Rule: f.ID, Text: f.Title}})
	}
	return out, nil
}

// ask asks the rules of the ids, or all of the platforms.
func (m *machine) ask(ctx context.Context, c *rule.Catalogue, ids, platforms []string) []rule.Finding {
	subject := m.subject(ctx, m.host, m.kinds)
	switch {
	case len(ids) > 0 && len(platforms) == 0:
		platforms = platformNames()
	case len(platforms) == 0:
		platforms, _ = subject.Of(products())
	}
	findings := c.Check(subject, platforms, c.Disabled())
	if len(ids) > 0 {
		findings = slices.DeleteFunc(findings, func(f rule.Finding) bool { return !slices.Contains(ids, f.ID) })
	}
	return findings
}

// bad are the findings that want mending. One that another one explains goes with
// that one.
func (m *machine) bad(ctx context.Context, c *rule.Catalogue, ids, platforms []string) []rule.Finding {
	return slices.DeleteFunc(m.ask(ctx, c, ids, platforms), func(f rule.Finding) bool {
		return f.State != rule.Failed && f.State != rule.Warned || f.Because != "" && !slices.Contains(ids, f.ID)
	})
}

// fixByJournal plans the changes, shows them, and applies them if somebody agrees.
func (m *machine) fixByJournal(ctx context.Context, res *FixResult, changes []setting.Change, yes bool) error {
	s, err := m.stateIfReadable()
	if err != nil {
		return err
	}
	if res.Plan, err = m.engine.PlanAsked(ctx, changes, s); err != nil {
		return err
	}
	if !m.data() {
		report.Plan(m.screen, res.Plan, false)
	}
	if res.Plan.Writes() == 0 {
		return nil
	}
	if !yes {
		agreed, err := m.agreed()
		if err != nil || !agreed {
			return err
		}
	}
	if err := mustBeRoot(); err != nil {
		return err
	}
	if _, err := m.oneTuner(ctx, false); err != nil {
		return err
	}
	began := time.Now()
	res.Applied, err = m.engine.Apply(ctx, func(ctx context.Context, s *journal.State) (*tune.Plan, error) {
		return m.engine.PlanAsked(ctx, changes, s)
	}, tune.ApplyOptions{Kind: journal.Apply, OrNothing: true})
	if res.Applied == nil {
		return err
	}
	err = m.verdict(res.Applied, err)
	if !m.data() {
		report.Applied(m.screen, res.Applied, time.Since(began))
	}
	return err
}

// agreed asks the person at the terminal; where there is none, nothing is
// written.
func (a *app) agreed() (bool, error) {
	if !term.IsTerminal(int(os.Stdin.Fd())) {
		return false, ui.Hinted(ui.Refused, errors.New("nothing is changed: there is nobody to ask"), "--yes writes without asking")
	}
	fmt.Fprint(a.screen.Err, "Write these values? fettle undo takes them back. [y/N] ")
	line, err := bufio.NewReader(os.Stdin).ReadString('\n')
	if err != nil && line == "" {
		return false, ui.Exit(ui.Interrupted, errors.New("nothing is changed"))
	}
	if answer := strings.ToLower(strings.TrimSpace(line)); answer != "y" && answer != "yes" {
		a.screen.Say("nothing is changed")
		return false, nil
	}
	return true, nil
}
