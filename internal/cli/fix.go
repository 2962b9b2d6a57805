package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/audit"
	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/plugin/table"
	"fettle.dev/fettle/internal/engine/tune"
	guidefindings "fettle.dev/fettle/internal/guide/findings"
	"fettle.dev/fettle/internal/guide/platform"
	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/guide/sizing"
	"fettle.dev/fettle/internal/host"
	components "fettle.dev/fettle/internal/product/table"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/ui"
)

// FixResult is the JSON form of fettle fix.
type FixResult struct {
	Schema string `json:"schema"` // fettle/fix/v1
	// Headline describes the changes that were made, and those to be made by hand.
	Headline ui.Headline `json:"headline"`
	// Plan has the changes that undo can revert. It is nil without such changes.
	Plan *tune.Plan `json:"plan,omitempty"`
	// Applied is the transaction, or nil if there was none.
	Applied *tune.Applied `json:"applied,omitempty"`
	// ByHand are the changes that another tool or a person must make.
	ByHand []guidefindings.ByHand `json:"by_hand"`
	// Findings are the results of the fixed rules after the change.
	Findings []rule.Finding `json:"findings"`
	// Written lists the files written below the directory of --write.
	Written *sizing.Written `json:"written,omitempty"`
	// Health contains the results of the platforms' own checks after the change.
	Health []guidefindings.Health `json:"health,omitempty"`
}

type fixOptions struct {
	yes, dry  bool
	platforms []string
	write     string
	force     bool
}

func fixCommand(a *app) *cobra.Command {
	var o fixOptions
	c := &cobra.Command{
		Use: "fix [ID...]", Short: "Fix what check found (shows the plan, asks, can be undone)",
		Long: `Shows the changes that make failed rules pass, and asks before it writes. With IDs it
changes only the values of these rules. fettle undo reverts the changes. Changes for
another tool are printed with the command that applies them. --write DIR writes files
for other tools, and sysctl.d and tmpfiles.d files for the next boot. --write also
works for a recorded machine (--root). After a change on a Satellite, fettle runs Satellite's
health check.`,
		RunE: func(c *cobra.Command, args []string) error {
			return a.fix(c.Context(), args, o)
		},
	}
	f := c.Flags()
	f.BoolVarP(&o.yes, "yes", "y", false, "do not ask for confirmation")
	f.BoolVar(&o.dry, "dry-run", false, "show the changes, and change nothing")
	f.StringVar(&o.write, "write", "", "below this directory, also write files for other tools, and sysctl.d and tmpfiles.d files for the next boot")
	f.BoolVar(&o.force, "force", false, "overwrite files that fettle did not write")
	f.StringSliceVar(&o.platforms, "platform", nil, "fix only the rules of these platforms (default all detected platforms)")
	cliutil.Requires(c, "--write", "force")
	cliutil.Exclusive(c, "dry-run", "yes")
	cliutil.Exclusive(c, "dry-run", "write")
	return c
}

func (a *app) completeRules() []string {
	c, err := a.catalogue(&rule.Needed{Platforms: audit.Platforms()})
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
	if a.root != "" && o.write == "" {
		return ui.Retry(ui.Usage, errReadOnlyRoot, "use --write DIR to write files for the copied machine", "--write=fettle-fix")
	}
	if err := cliutil.WritableDir("--write", o.write); err != nil {
		return err
	}
	t, err := a.toFix(ctx, ids)
	if err != nil {
		return err
	}
	if ids, err = t.withParts(ids); err != nil {
		return err
	}
	for _, id := range ids {
		if t.rules.Rule(id) == nil && slices.Contains(audit.IDs(t.rules), id) {
			return ui.Hinted(ui.Usage, fmt.Errorf("%s is a table or a measurement, not a rule; nothing to fix", id), "fettle rules show "+id+" shows it")
		}
		if t.rules.Rule(id) == nil {
			return noRule(t.rules, id)
		}
	}
	if o.platforms, err = audit.Known(o.platforms); err != nil {
		return err
	}
	findings, err := t.bad(ctx, ids, o.platforms)
	if err := cmp.Or(err, ctx.Err()); err != nil {
		return err
	}
	if t.machine == nil {
		withhold(findings)
	}
	for _, said := range agree(findings) {
		a.screen.Say("%s", said)
	}
	res := FixResult{Schema: "fettle/fix/v1", ByHand: []guidefindings.ByHand{}, Findings: []rule.Finding{}}
	changes, err := sortOut(findings, &res)
	if err != nil {
		return err
	}
	if len(findings) == 0 {
		a.screen.Say("nothing to fix; fettle check --all lists all checks")
	}
	if o.write != "" {
		if res.Written, err = a.writeFixes(o.write, findings, o.force); err != nil {
			return err
		}
	}
	if len(changes) > 0 && t.machine != nil {
		if o.write == "" && slices.ContainsFunc(changes, func(c setting.Change) bool {
			return t.kinds[c.Setting.Kind] != nil && t.kinds[c.Setting.Kind].Lifetime() == setting.Runtime
		}) {
			a.screen.Say("kernel values last until the next boot; to keep them, write files with --write DIR")
		}
		err = a.fixByJournal(ctx, t.machine, &res, changes, o)
	}
	if res.Applied != nil {
		var fixed []string
		for _, f := range findings {
			fixed = append(fixed, f.ID)
		}
		if again, err2 := t.ask(ctx, fixed, nil); err2 == nil && ctx.Err() == nil {
			res.Findings = again
		}
		switch {
		case err != nil:
		case ctx.Err() != nil:
			err = errors.New("interrupted: values written, rules not checked again; run fettle check to check, or fettle undo to restore the values")
		case waits(res.Applied):
			a.screen.Say("the changes are not active yet, so the findings remain; see below how to activate them")
		default:
			res.Health, err = t.health(ctx)
		}
	}
	res.Headline = res.headline()
	if a.data() {
		return a.result(res, err)
	}
	if res.Plan == nil || res.Applied != nil { // else the plan was printed and nothing changed
		ui.PrintHeadline(a.screen, &res.Headline)
	}
	guidefindings.PrintFixed(a.screen, res.ByHand, res.Findings)
	guidefindings.PrintHealth(a.screen, res.Health)
	guidefindings.PrintWritten(a.screen, res.Written)
	return err
}

// headline counts written values, files, changes by hand, and fixed rules that pass now.
func (res *FixResult) headline() (h ui.Headline) {
	values := 0
	if res.Applied != nil && res.Plan != nil {
		values = res.Plan.Writes()
	}
	parts := []string{h.Count("values_written", values, "value") + " written"}
	if res.Written != nil {
		parts[0] = h.Count("files_written", len(res.Written.Files), "file") + " written"
		delete(h.Figures, "values_written")
	}
	if n := len(res.Findings); n > 0 {
		pass := 0
		for _, f := range res.Findings {
			if f.State == rule.Passed {
				pass++
			}
		}
		parts = append(parts, fmt.Sprintf("%s of %s now", h.Count("findings_pass", pass, ""), h.Count("findings", n, "finding"))+" pass")
	}
	if n := guidefindings.ManualSteps(res.ByHand); n > 0 {
		parts = append(parts, h.Count("by_hand", n, "step")+" to do by hand")
	}
	h.Line("%s", strings.Join(parts, ", "))
	return h
}

// writeFixes writes files for the findings below a directory. It keeps the lines that earlier
// runs wrote, and reports them.
func (a *app) writeFixes(dir string, findings []rule.Finding, force bool) (*sizing.Written, error) {
	path, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	files := host.Mounted(path).Files
	before, err := files.ReadFile("/" + sizing.Record)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
		return nil, fmt.Errorf("%s: %w", filepath.Join(path, sizing.Record), err)
	}
	artefacts, kept, err := sizing.Artefacts(findings, string(before), func(name string) bool {
		_, err := files.Lstat("/" + name)
		return err == nil
	})
	if err != nil {
		return nil, err
	}
	out, err := sizing.WriteDir(dir, "", artefacts, force)
	if err != nil {
		return nil, err
	}
	out.Files = slices.DeleteFunc(out.Files, func(f sizing.WrittenFile) bool { return f.Name == sizing.Record })
	for _, name := range slices.Sorted(maps.Keys(kept)) {
		a.screen.Say("%s keeps lines of an earlier fettle fix --write: %s; to drop them, use another directory or move the file away", filepath.Join(dir, name), strings.Join(kept[name], ", "))
	}
	return out, nil
}

// fixTarget is the machine to fix. On a copy, fix can only write files.
type fixTarget struct {
	*app
	host    *host.Host
	kinds   setting.Kinds
	own     []rule.File     // the administrator's rules
	rules   *rule.Catalogue // nil until the platforms are known
	machine *tune.Machine   // nil for a copy
}

func (a *app) toFix(ctx context.Context, ids []string) (*fixTarget, error) {
	t := &fixTarget{app: a}
	var err error
	if a.root == "" {
		if t.machine, err = a.machine(ctx); err != nil {
			return nil, err
		}
		t.host, t.kinds = t.machine.Host, t.machine.Kinds
	} else {
		if t.host, err = a.host(); err != nil {
			return nil, err
		}
		t.kinds = table.Kinds(t.host)
	}
	if t.own, err = a.ownRules(t.host); err == nil && len(ids) > 0 {
		t.rules, err = audit.CatalogueWith(t.own, ids)
	}
	return t, err
}

// withParts replaces the id of a group of rules, O16, by the ids of its rules that can be fixed:
// O16.vm.max_map_count.
func (t *fixTarget) withParts(ids []string) (out []string, err error) {
	for _, id := range ids {
		before := len(out)
		if t.rules.Rule(id) == nil {
			if t.rules, err = audit.CatalogueOf(t.own, nil); err != nil {
				return nil, err
			}
			for _, r := range t.rules.Rules() {
				if r.Fix != nil && strings.HasPrefix(r.ID, id+".") {
					out = append(out, r.ID)
				}
			}
		}
		if len(out) == before {
			out = append(out, id)
		}
	}
	return out, nil
}

// health runs the health checks of this machine's platforms after a change.
func (t *fixTarget) health(ctx context.Context) (out []guidefindings.Health, err error) {
	names, _ := t.subject(ctx, t.host, t.kinds, nil).Of(nil)
	for _, p := range platform.All {
		if p.Health == nil || !slices.Contains(names, p.Name) {
			continue
		}
		h := guidefindings.Health{Platform: p.Name, Command: strings.Join(p.Health, " ")}
		if !host.HasProgram(t.host, p.Health[0]) {
			t.screen.Say("%s not found: the health of this %s was not checked", p.Health[0], p.Name)
			continue
		}
		t.screen.Say("%s: this takes minutes", h.Command)
		res, rerr := t.host.Exec.Run(ctx, host.Command{Argv: p.Health})
		if rerr != nil {
			return out, rerr
		}
		h.Passed, h.Output = res.ExitCode == 0, string(res.Stdout)+string(res.Stderr)
		out = append(out, h)
		if !h.Passed {
			err = ui.Hinted(ui.Failed, fmt.Errorf("%s reports a problem (exit %d)", h.Command, res.ExitCode), "if the new values are the cause, restore the old ones: fettle undo")
		}
	}
	return out, err
}

// ask checks the rules with the given ids, or without ids all rules of the platforms.
func (t *fixTarget) ask(ctx context.Context, ids, platforms []string) ([]rule.Finding, error) {
	subject := t.subject(ctx, t.host, t.kinds, nil)
	switch {
	case len(ids) > 0 && len(platforms) == 0:
		platforms = audit.Platforms()
	case len(platforms) == 0:
		var unknown map[string]string
		platforms, unknown = subject.Of(audit.Products())
		for _, f := range platform.Undetermined(unknown) {
			t.screen.Say("%s; to check its rules anyway, use --platform %s", f.Reason, f.Instance)
		}
	}
	if t.rules == nil {
		var err error
		if t.rules, err = audit.CatalogueOf(t.own, &rule.Needed{Platforms: platforms}); err != nil {
			return nil, err
		}
	}
	rules := t.rules
	if len(ids) > 0 {
		rules = rules.With(ids...)
	}
	findings := rules.Check(ctx, subject, platforms, rules.Disabled())
	audit.SayLimits(t.screen, subject, findings, "fettle check --logs all")
	if len(ids) > 0 {
		findings = slices.DeleteFunc(findings, func(f rule.Finding) bool { return !slices.Contains(ids, f.ID) })
	}
	return findings, nil
}

// bad returns the findings to fix. A finding that another one explains is omitted, because
// fixing the other one suffices. It is included if it needs a higher value of the same setting.
func (t *fixTarget) bad(ctx context.Context, ids, platforms []string) ([]rule.Finding, error) {
	all, err := t.ask(ctx, ids, platforms)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(f rule.Finding) bool { return f.State != rule.Failed && f.State != rule.Warned })
	for i := range all {
		if all[i].Because != "" {
			all[i].Fix = all[i].Own
		}
	}
	asked := func(f rule.Finding) bool { return f.Because == "" || slices.Contains(ids, f.ID) }
	set := map[string]bool{}
	for _, f := range all {
		if asked(f) && f.Fix != nil {
			for _, c := range f.Fix.Changes {
				set[c.Name] = true
			}
		}
	}
	return slices.DeleteFunc(all, func(f rule.Finding) bool {
		return !asked(f) && (f.Fix == nil || !slices.ContainsFunc(f.Fix.Changes, func(c rule.Entry) bool { return set[c.Name] }))
	}), nil
}

// fixByJournal plans the changes, shows them, and applies them after confirmation.
func (a *app) fixByJournal(ctx context.Context, m *tune.Machine, res *FixResult, changes []setting.Change, o fixOptions) error {
	s, err := m.ReadStateIfAllowed()
	if err != nil {
		return err
	}
	if res.Plan, err = m.PlanAsked(ctx, changes, s); err != nil {
		return err
	}
	res.Plan.Headline = res.Plan.Summarize(nil, tune.Listing{Details: true})
	if !a.data() {
		tune.PrintPlan(a.screen, res.Plan, tune.Listing{Details: true})
	}
	if res.Plan.Writes() == 0 {
		return nil
	}
	if o.dry {
		return contested(ctx, m, res.Plan)
	}
	if !o.yes {
		agreed, err := a.screen.Confirm(ctx, "Write these values? fettle undo restores the old ones.")
		if err != nil || !agreed {
			return err
		}
	}
	if err := a.mustBeRoot(); err != nil {
		return err
	}
	if err := contested(ctx, m, res.Plan); err != nil {
		return err
	}
	began := time.Now()
	res.Applied, err = m.Apply(ctx, func(ctx context.Context, s *journal.State) (*tune.Plan, error) {
		return m.PlanAsked(ctx, changes, s)
	}, tune.ApplyOptions{Kind: journal.Apply, OrNothing: true})
	if res.Applied == nil {
		return err
	}
	err = res.Applied.Err(err)
	if !a.data() {
		h := res.Applied.Summarize(time.Since(began))
		fmt.Fprintln(a.screen.Out)
		tune.PrintApplied(a.screen, res.Applied, &h)
	}
	return err
}

// contested returns an error if a plan writes settings that another active tuner may write
// too. Tuners do not write the files of products.
func contested(ctx context.Context, m *tune.Machine, p *tune.Plan) error {
	products := components.Kinds(m.Host)
	if !slices.ContainsFunc(p.Steps, func(st tune.Step) bool { return st.Action == tune.Write && products[st.Setting.Kind] == nil }) {
		return nil
	}
	tuners, err := m.OtherTuners(ctx, func() []setting.Setting { return p.Writing() })
	if err != nil || len(tuners) == 0 {
		return err
	}
	return tune.OtherTunerInForce(tuners[0], "fettle tune PROFILE --take-over")
}
