package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/engine/why"
	"fettle.dev/fettle/internal/measure/experiment"
	"fettle.dev/fettle/internal/ui"
)

// maxDrifted limits the number of drifted values that status shows.
const maxDrifted = 5

func statusCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Show the active profile and warnings", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.status(c.Context()) },
	}
}

func (a *app) status(ctx context.Context) error {
	m, err := a.machineAsIs(ctx)
	if err != nil {
		return err
	}
	s, err := m.ReadState()
	if err != nil {
		return err
	}
	accepted, sel, err := m.InForce(ctx, s)
	if err != nil {
		return err
	}
	var present *profile.Profile
	if sel != nil {
		l := m.Loader
		l.Answers = accepted.Answers // what programs answered is compared as accepted
		if present, err = l.Load(ctx, sel.Names()...); err != nil {
			a.screen.Say("the profiles in force cannot be read: %v", err)
		}
	}
	st, err := m.Engine.Status(ctx, s, accepted, present)
	if err != nil {
		return err
	}
	st.UnderWay = m.InProgress
	why.NameWriters(m, st.Drifted)
	if a.data() {
		return ui.Data(a.screen, st, ui.Done)
	}
	out := a.screen.Out
	if len(st.Profiles) == 0 {
		fmt.Fprintln(out, "no selection in force")
	} else {
		post := ""
		if st.PostLoaded != "" {
			post = " with the post-loaded profile " + st.PostLoaded
		}
		fmt.Fprintf(out, "in force: %s (%s)%s, since %s, transaction %d\n", strings.Join(st.Profiles, " "), st.Mode, post, st.Since.Local().Format("2006-01-02 15:04:05"), st.Tx)
		if !st.ThisBoot {
			fmt.Fprintln(out, "! not applied since this boot: fettle tune --update applies it again")
		}
		if st.Newer != nil && *st.Newer > 0 {
			fmt.Fprintf(out, "! newer definition: %d values differ; fettle diff --update shows them, fettle tune --update accepts them\n", *st.Newer)
		}
	}
	tune.PrintSetAlone(a.screen, st.Asked, maxDrifted)
	fmt.Fprintln(out, dynamicTuning(st.Dynamic))
	if len(st.Live) > 0 {
		fmt.Fprintf(out, "to undo: %s\n", tune.TransactionWords(st.Live))
	}
	if st.ExperimentUndo != "" {
		fmt.Fprintf(out, "! %s: run %s, or fettle prove --resume last\n", experiment.LeftBehind, ui.Printable(st.ExperimentUndo))
	}
	if x := st.Experiment; x != nil && x.Restoring {
		fmt.Fprintf(out, "! an experiment has ended, and its watchdog (process %d) is still undoing its change %s\n", x.PID, ui.Printable(x.Undo))
	} else if x != nil {
		fmt.Fprintf(out, "! an experiment is under way (process %d): it switches values\n", x.PID)
	}
	for _, t := range st.Trials {
		if t.Experiment && st.Experiment == nil {
			fmt.Fprintf(out, "! transaction %d is of an experiment that was killed together with its watchdog: fettle undo %d takes it back, as does the next fettle tune; or fettle prove --resume last\n", t.Tx, t.Tx)
			continue
		}
		if t.Experiment {
			fmt.Fprintf(out, "! transaction %d is of that experiment, which takes it back\n", t.Tx)
			continue
		}
		if t.Overdue {
			fmt.Fprintf(out, "! transaction %d is overdue: its trial ended at %s, and nothing has taken it back yet; the next fettle tune or undo does, or the next boot where fettle's unit is enabled\n", t.Tx, t.Until.Local().Format("2006-01-02 15:04:05"))
			continue
		}
		fmt.Fprintf(out, "! transaction %d is on trial until %s: fettle confirm keeps it\n", t.Tx, t.Until.Local().Format("15:04:05"))
	}
	for i, c := range st.Drifted {
		if i == maxDrifted {
			fmt.Fprintf(out, "! %d more have drifted: fettle verify shows them\n", len(st.Drifted)-i)
			break
		}
		fmt.Fprintf(out, "! %s is %s, wanted %s: %s\n", tune.SettingWords(c.Setting), ui.Printable(c.Now.String()), ui.Printable(c.Want.String()), c.Why)
	}
	nothing := "matches nothing that the selection sets"
	if len(st.Profiles) == 0 {
		nothing = "matches nothing on this machine"
	}
	for i, c := range st.Rejected {
		if i == maxDrifted {
			fmt.Fprintf(out, "! %d more were rejected: fettle verify shows them\n", len(st.Rejected)-i)
			break
		}
		place := tune.SettingWords(c.Setting)
		if c.Setting.Kind == plugin.OptionKind {
			place = plugin.ShowOption(c.Setting)
		}
		fmt.Fprintf(out, "! %s = %s was rejected: %s\n", place, ui.Printable(c.Want.String()), ui.Printable(c.Why))
	}
	for _, k := range st.KeepUnmatched {
		fmt.Fprintf(out, "! %s: %s %s\n", k, k.Pattern, nothing)
	}
	return nil
}

// dynamicTuning reports as text whether values follow the load, and which setting decides that.
func dynamicTuning(d tune.Dynamic) string {
	from := ""
	if d.From != "" {
		from = " (" + d.From + ")"
	}
	switch {
	case !d.On:
		return "dynamic tuning: off" + from
	case !d.Daemon:
		return "! dynamic tuning: on" + from + ", but fettle's daemon, which does it, does not run"
	}
	return fmt.Sprintf("dynamic tuning: on%s, every %g s", from, d.Interval)
}
