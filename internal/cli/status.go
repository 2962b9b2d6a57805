package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/daemon"
	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/engine/why"
	"fettle.dev/fettle/internal/measure/experiment"
	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

// maxDrifted is the maximum number of drifted values that status lists.
const maxDrifted = 5

func statusCommand(a *app) *cobra.Command {
	var t textfile
	c := &cobra.Command{
		Use: "status", Short: "Show the active profile and warnings", Args: cobra.NoArgs,
		Annotations: map[string]string{moreFormats: string(cliutil.OpenMetrics)},
		RunE: func(c *cobra.Command, _ []string) error {
			return t.run(c.Context(), "status", func() error { return a.status(c.Context(), &t) })
		},
	}
	t.flag(c)
	return c
}

func (a *app) status(ctx context.Context, t *textfile) error {
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
		l.Answers = accepted.Answers // compare programs' answers with the accepted ones
		if present, err = l.Load(ctx, sel.Names()...); err != nil {
			a.screen.Say("cannot read the active profiles: %v", err)
		}
	}
	st, err := m.Engine.Status(ctx, s, accepted, present)
	if err != nil {
		return err
	}
	st.UnderWay, st.Copy, st.Persistent = m.InProgress, a.copied(), daemon.Persisted(m.Host)
	why.NameWriters(m, st.Drifted)
	st.Headline = st.Summarize()
	t.metrics = func(w io.Writer) error { return tune.StatusMetrics(w, st, m.Host.Clock.Now()) }
	switch {
	case a.data():
		return ui.Data(a.screen, st, ui.Done)
	case a.screen.Format == cliutil.OpenMetrics:
		return t.metrics(a.screen.Out)
	}
	a.printStatus(st)
	return nil
}

func (a *app) printStatus(st *tune.Status) {
	ui.PrintHeadline(a.screen, &st.Headline)
	say := func(format string, args ...any) { ui.PrintLine(a.screen, format, args...) }
	if len(st.Profiles) > 0 {
		for _, t := range st.Tuners {
			say("! %s %s too and sets %s: %[1]s and fettle overwrite each other's values", t.Name, t.Phase(st.TunersUnknown == ""), t.Sets)
		}
	}
	if len(st.Profiles) > 0 && !st.ThisBoot {
		say("! to apply it: fettle tune --update")
	}
	if st.Newer != nil && *st.Newer > 0 {
		verb := "differ"
		if *st.Newer == 1 {
			verb = "differs"
		}
		say("! newer definition: %s %s; to see the changes: fettle diff --update; to accept them: fettle tune --update", internaltext.Count(*st.Newer, "value"), verb)
	}
	for i, c := range st.Drifted {
		if i == maxDrifted {
			say("! %s drifted; see fettle verify", internaltext.Count(len(st.Drifted)-i, "more value"))
			break
		}
		say("! %s is %s, wanted %s: %s", tune.SettingWords(c.Setting), c.Now, c.Want, c.Why)
	}
	for i, c := range st.Rejected {
		if i == maxDrifted {
			say("! %s rejected; see fettle verify", internaltext.Count(len(st.Rejected)-i, "more value"))
			break
		}
		place := tune.SettingWords(c.Setting)
		if c.Setting.Kind == plugin.OptionKind {
			place = plugin.ShowOption(c.Setting)
		}
		say("! %s = %s was rejected: %s", place, c.Want, c.Why)
	}
	a.printExperiment(st)
	for _, t := range st.Trials {
		say("! %s", a.screen.Own(trialText(t, st.Experiment != nil)))
	}
	nothing := "matches no setting of the active profile"
	if len(st.Profiles) == 0 {
		nothing = "matches nothing on this machine"
	}
	for _, k := range st.KeepUnmatched {
		say("! %s: %s %s", k, k.Pattern, nothing)
	}
	tune.PrintSetAlone(a.screen, st.Asked, maxDrifted)
	if !st.Copy && (len(st.Profiles) > 0 || st.Dynamic.On || st.Dynamic.From != "") {
		say("%s", dynamicTuning(st.Dynamic))
	}
	if !st.Copy && st.NumaBalance != nil {
		say("%s", numaBalancing(st.NumaBalance))
	}
	switch {
	case len(st.Live) > 0:
		say("to undo: %s", tune.TransactionWords(st.Live))
	case !st.Copy:
		say("nothing to undo")
	}
	if len(st.Drifted) > 0 {
		fmt.Fprintln(a.screen.Out, "\nto see every value:")
		ui.PrintCommand(a.screen, a.next("verify"))
	}
}

func (a *app) printExperiment(st *tune.Status) {
	if st.ExperimentUndo != "" {
		ui.PrintLine(a.screen, "! %s: run %s, or fettle prove --resume last", experiment.LeftBehind, st.ExperimentUndo)
	}
	if x := st.Experiment; x != nil && x.Restoring {
		ui.PrintLine(a.screen, "! %s has ended, and its watchdog (process %d) is still undoing its change %s", x.Name(), x.PID, x.Undo)
	} else if x != nil {
		ui.PrintLine(a.screen, "! %s is running (process %d) and changes values", x.Name(), x.PID)
	}
}

// trialText describes a transaction on trial. running means an experiment is in progress.
func trialText(t tune.Trial, running bool) string {
	switch {
	case t.Experiment && !running:
		resume := ""
		if t.Verb == "prove" || t.Verb == "search" {
			resume = ", or resume it with fettle " + t.Verb + " --resume last"
		}
		return fmt.Sprintf("transaction %d belongs to %s, which was killed with its watchdog; undo it with fettle undo %d%s", t.Tx, tune.ExperimentName(t.Verb), t.Tx, resume)
	case t.Experiment:
		return fmt.Sprintf("transaction %d belongs to %s, which undoes it", t.Tx, tune.ExperimentName(t.Verb))
	case t.Overdue:
		return fmt.Sprintf("transaction %d is overdue: its trial ended at %s, but it is still in force; fettle undo, the next fettle tune or the next boot (with fettle's unit) reverts it", t.Tx, t.Until.Local().Format(why.Stamp))
	}
	return fmt.Sprintf("transaction %d is on trial until %s; to keep it: fettle confirm", t.Tx, t.Until.Local().Format("15:04:05"))
}

// dynamicTuning describes whether values follow the load, and which setting controls that.
func dynamicTuning(d tune.Dynamic) string {
	from := ""
	if d.From != "" {
		from = " (" + d.From + ")"
	}
	switch {
	case !d.On:
		return "dynamic tuning: off" + from
	case !d.Daemon:
		return "! dynamic tuning: on" + from + ", but fettle's daemon is not running"
	}
	return fmt.Sprintf("dynamic tuning: on%s, every %s s", from, unit.Digits(d.Interval))
}

// numaBalancing describes which processes the daemon moves between NUMA nodes, and which setting
// controls that.
func numaBalancing(b *tune.Balancing) string {
	text := fmt.Sprintf("numa_balance: on (%s), %s", b.From, (&profile.NumaBalance{Processes: b.Processes}).Words())
	switch {
	case b.Nodes < 2:
		return text + "; this machine has 1 NUMA node, so nothing is moved"
	case !b.Daemon:
		return "! " + text + ", but fettle's daemon is not running"
	case b.Paused:
		return text + "; paused by stop or off until the next start"
	}
	return text + fmt.Sprintf(", every %s to %s s", unit.Digits(b.Shortest), unit.Digits(b.Longest))
}
