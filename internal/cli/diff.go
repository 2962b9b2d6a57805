package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/override"
	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/tune"
	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
)

type diffOptions struct {
	tune.Listing
	tune.Request
	update, sysctl bool
	compliance     string // result of a scan
}

func diffCommand(a *app) *cobra.Command {
	var o diffOptions
	var saving *savedOptions
	c := &cobra.Command{
		Use: "diff [PROFILE...]", Short: "Show what a profile would change on this machine",
		Long: `Shows each value before and after, with the profile's line, and changes nothing.
Without PROFILE it uses the profile from fettle recommend. The JSON output is a plan;
fettle tune --plan FILE applies exactly this plan.`,
		RunE: func(c *cobra.Command, args []string) error {
			if o.update && len(args) > 0 {
				return ui.Without(errors.New("want profiles or --update, not both"), "--update")
			}
			if o.Save, o.Set = saving.request(o.Set); len(args) > 0 && len(o.Set) > 0 {
				return ui.Without(errors.New("want profiles or --set, not both; to combine them, add --save"), "--set")
			}
			if o.sysctl && a.screen.Format != ui.Table {
				return ui.Without(fmt.Errorf("--sysctl prints a sysctl.d file; leave out --output %s", a.output), "--output")
			}
			return a.diff(c.Context(), args, o)
		},
	}
	c.Flags().BoolVar(&o.update, "update", false, "compare the active profiles with their newer definitions")
	c.Flags().BoolVarP(&o.All, "all", "a", false, "also list values that do not change")
	c.Flags().BoolVar(&o.Details, "details", false, "also list values that do not apply, could not be determined or were left out, and why")
	c.Flags().BoolVar(&o.sysctl, "sysctl", false, "print a sysctl.d file (if only sysctls change)")
	saving = savedFlags(c, &o.Set)
	cliutil.Exclusive(c, "update", "set")
	cliutil.Exclusive(c, "update", "save")
	complianceFlag(c, &o.compliance)
	return c
}

// complianceFlag adds --compliance.
func complianceFlag(c *cobra.Command, file *string) {
	c.Flags().StringVar(file, "compliance", "", "also keep the values that a compliance scan requires: its result file, ARF or XCCDF; fettle import compliance makes this permanent")
}

func (a *app) diff(ctx context.Context, names []string, o diffOptions) error {
	m, err := a.machine(ctx)
	if err != nil {
		return err
	}
	if err := a.keepRequired(m, o.compliance); err != nil {
		return err
	}
	read := m.ReadStateIfAllowed
	if o.update {
		read = m.ReadState // only the journal records what is in force
	}
	s, err := read()
	if err != nil {
		return err
	}
	if o.update {
		_, sel, err := m.InForce(ctx, s)
		if err != nil {
			return err
		}
		if sel == nil {
			return ui.Hinted(ui.Failed, errors.New("no profile is active"), "name a profile: fettle diff PROFILE")
		}
		names = sel.Profiles
	}
	if len(o.Set) > 0 {
		return a.diffSet(ctx, m, s, o)
	}
	asked := names
	if o.Save != nil {
		if names, _, err = m.Save(ctx, s, names, *o.Save); err != nil {
			return err
		}
	}
	if len(names) == 0 {
		if names, err = m.Recommended(ctx); err != nil {
			return err
		}
		a.screen.Say("no profile named: comparing with the recommended profile %s (fettle recommend shows why)", strings.Join(names, " "))
	}
	sel, err := tune.SelectionOf(s.InForce())
	if err != nil {
		return err
	}
	p, err := m.Load(ctx, false, tune.WithPostLoaded(tune.WithSaved(sel, names), m.PostLoaded())...)
	if err != nil {
		return err
	}
	plan, err := m.Engine.PlanProfile(ctx, p, s)
	if err != nil {
		return err
	}
	for _, pr := range plan.Problems {
		a.screen.Say("%s", pr)
	}
	plan.InForce = m.InForceNow(s, p)
	left := refusals(p)
	if a.data() || o.sysctl {
		a.sayRefusals(left)
	}
	plan.Headline = plan.Summarize(shortRefusals(left), o.Listing)
	if a.root != "" && !plan.Determined() {
		err = a.undetermined()
	}
	switch {
	case o.sysctl && err == nil:
		return a.sysctlFile(plan)
	case a.data():
		plan.By = a.caller().String()
		return a.result(plan, err)
	}
	tune.PrintPlan(a.screen, plan, o.Listing)
	if o.Details {
		a.printRefusals(left)
	}
	if op := override.NodeTuning(m.Host); op != nil {
		fmt.Fprintln(a.screen.Out)
		a.printOperator(op)
	} else if plan.Writes() > 0 && err == nil {
		a.printApply(p.Names, asked, o)
	}
	return err
}

// diffSet shows what tune --set would change.
func (a *app) diffSet(ctx context.Context, m *tune.Machine, s *journal.State, o diffOptions) error {
	planner, _, err := m.Planner(ctx, o.Request)
	if err != nil {
		return err
	}
	plan, err := planner(ctx, s)
	if err != nil {
		return err
	}
	plan.Headline = plan.Summarize(nil, o.Listing)
	if a.data() {
		plan.By = a.caller().String()
		return a.result(plan, nil)
	}
	tune.PrintPlan(a.screen, plan, o.Listing)
	return nil
}

// printApply prints the command that applies the plan of profiles. asked are those of the command
// line.
func (a *app) printApply(names, asked []string, o diffOptions) {
	args := append([]string{"tune"}, names...)
	if o.update {
		args = []string{"tune", "--update"}
	}
	if o.Save != nil {
		args = o.Save.Args(asked)
	}
	if o.compliance != "" {
		args = append(args, "--compliance", o.compliance)
	}
	a.printToApply(a.next(args...), internaltext.CommandLine(append([]string{"fettle"}, args...)))
}

// printToApply prints the command that applies a plan: on this machine, or for a copy on the
// machine it was made from.
func (a *app) printToApply(here, there string) {
	if a.root != "" {
		fmt.Fprintln(a.screen.Out, "\nto apply it on that machine:")
		ui.PrintCommand(a.screen, there)
		return
	}
	fmt.Fprintln(a.screen.Out, "\nto apply it:")
	ui.PrintCommand(a.screen, here)
}

// next returns the command line of another verb for the same machine.
func (a *app) next(args ...string) string {
	words := []string{"fettle"}
	if a.root != "" {
		words = append(words, "--root", a.root)
	}
	if a.stateFlag != "" {
		words = append(words, "--state-dir", a.stateFlag)
	}
	for _, d := range a.profileDirs {
		words = append(words, "--profile-dir", d)
	}
	return internaltext.CommandLine(append(words, args...))
}

// sysctlFile prints a plan as a sysctl.d file. It returns an error for other settings.
func (a *app) sysctlFile(p *tune.Plan) error {
	var other []string
	var b strings.Builder
	fmt.Fprintf(&b, "# %s, as planned by fettle on %s\n", strings.Join(p.Profiles, " "), p.Created.Format("2006-01-02"))
	steps := slices.SortedStableFunc(slices.Values(p.Steps), func(x, y tune.Step) int { return x.Stage - y.Stage })
	for _, st := range steps { // in the order of writing
		if st.Verdict == plugin.Unsupported || st.Action == tune.Release {
			continue
		}
		if st.Setting.Kind != "sysctl" {
			other = append(other, st.Setting.String())
			continue
		}
		if st.Action == tune.None {
			fmt.Fprintf(&b, "# %s: %s, %s\n", st.Setting.Name, st.Verdict, st.Why)
			continue
		}
		fmt.Fprintf(&b, "# %s\n%s = %s\n", st.Reason, st.Setting.Name, strings.Join(strings.Fields(st.Want.Text), " "))
	}
	if len(other) > 0 {
		return ui.Hinted(ui.Refused, fmt.Errorf("a sysctl.d file cannot contain %s", summarise(other)), internaltext.CommandLine(append([]string{"fettle", "tune"}, p.Profiles...))+" applies all values")
	}
	_, err := fmt.Fprint(a.screen.Out, b.String())
	return err
}

func summarise(names []string) string {
	if len(names) > 3 {
		return internaltext.Sprintf("%s and %d more", strings.Join(names[:3], ", "), len(names)-3)
	}
	return strings.Join(names, ", ")
}

func readsChange(text string) error {
	_, err := tune.ParseChange(text)
	return err
}
