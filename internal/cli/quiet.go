package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/measure/experiment"
	"fettle.dev/fettle/internal/measure/prove"
	"fettle.dev/fettle/internal/measure/quiet"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

type quietOptions struct {
	quiet.Options
	dryRun, all bool
}

func quietCommand(a *app) *cobra.Command {
	var o quietOptions
	c := &cobra.Command{
		Use: "quiet [-- COMMAND...]", Short: "Make measurements repeatable; run a command in this state",
		Long: `Brings the machine into a state in which measurements repeat: a fixed frequency, one
thread per core, the same addresses in each run, no periodic jobs, and interrupts, kernel
threads and other processes off the measured CPUs. Each value is shown before, read back,
and restored exactly when the command ends, also after kill -9 or a reboot. Without
COMMAND the state stays until fettle undo. The noise is measured before, in the quiet
state, and after. The exit code is that of the command.`,
		Args: quietArgs,
		RunE: func(c *cobra.Command, args []string) error { return a.quiet(c.Context(), o, args) },
	}
	cpusFlag(c, &o.CPUs)
	c.Flags().BoolVar(&o.dryRun, "dry-run", false, "show the values and change nothing")
	c.Flags().BoolVar(&o.all, "all", false, "also show values that are already set, and one row per CPU")
	c.AddCommand(quietCheckCommand(a))
	return a.writes(c)
}

func cpusFlag(c *cobra.Command, cpus *string) {
	c.Flags().StringVar(cpus, "cpus", "", "list of CPUs to measure on, such as 2-3 (default all but the first core)")
	cliutil.Reads(c.Flags(), "cpus", "2-3", func(word string) error {
		set, err := unit.ParseCPUList(word)
		if err == nil && set.IsEmpty() {
			err = errors.New("want at least one CPU")
		}
		return err
	})
}

func quietArgs(c *cobra.Command, args []string) error {
	err := errors.New("the command to run must follow --")
	switch {
	case len(args) == 0 && c.ArgsLenAtDash() == 0:
		return ui.Hinted(ui.Usage, errors.New("no command after --"), "for example: fettle quiet -- make bench; without -- the quiet state stays until fettle undo")
	case len(args) == 0 || c.ArgsLenAtDash() == 0:
		return nil
	case c.ArgsLenAtDash() < 0:
		return ui.OtherWord(err, args[0], "--", args[0])
	}
	return ui.WithoutWord(err, args[0])
}

func quietCheckCommand(a *app) *cobra.Command {
	var o quiet.Options
	c := &cobra.Command{
		Use: "check", Short: "Show why measurements here are noisy, worst first",
		Long: `Measures for some seconds how much the speed of a CPU varies, and what takes its time:
other tasks, interrupts, the hypervisor. It also lists the settings that make measurements
vary, and the timers that elapse soon. It changes nothing.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.quietCheck(c.Context(), o) },
	}
	cpusFlag(c, &o.CPUs)
	return c
}

// noisePhase returns the length of one measurement of the noise.
func (a *app) noisePhase() time.Duration { return max(a.settle*2/3, 30*time.Millisecond) }

func (a *app) quietCheck(ctx context.Context, o quiet.Options) error {
	m, err := a.machineAsIs(ctx)
	if err != nil {
		return err
	}
	o.Clock = true
	s, plan, err := quietPlan(ctx, m, o)
	if err != nil {
		return err
	}
	if a.root == "" {
		a.screen.Status("measuring for %s", unit.FormatSeconds(a.noisePhase().Seconds()))
	}
	c, err := quiet.Look(ctx, m.Host, s, plan, a.noisePhase(), a.root == "")
	a.screen.Status("")
	if ctx.Err() != nil {
		return errInterrupted
	}
	if err != nil {
		return err
	}
	if a.data() {
		return a.result(c, nil)
	}
	c.Print(a.screen)
	return nil
}

// quietPlan returns the quiet state of a machine and the plan for it.
func quietPlan(ctx context.Context, m *tune.Machine, o quiet.Options) (*quiet.State, *tune.Plan, error) {
	s, err := quiet.Prepare(ctx, m.Host, o)
	if err != nil {
		return nil, nil, err
	}
	state, err := m.ReadStateIfAllowed()
	if err != nil {
		return nil, nil, err
	}
	plan, err := s.Planner(m.Engine)(ctx, state)
	return s, plan, err
}

func (a *app) quiet(ctx context.Context, o quietOptions, command []string) error {
	if !o.dryRun {
		if err := a.mustBeLive(); err != nil {
			return err
		}
	}
	if len(command) > 0 {
		if err := (&prove.Command{Args: command}).Check(ctx); err != nil {
			return ui.Exit(ui.Usage, err)
		}
	}
	m, err := a.machine(ctx)
	if err != nil {
		return err
	}
	o.Clock = len(command) > 0
	s, plan, err := quietPlan(ctx, m, o.Options)
	if err != nil {
		return err
	}
	r := quiet.NewResult(m.Host, s, plan)
	listing := tune.Listing{All: o.all}
	if o.dryRun {
		a.warnState()
		r.Summarize()
		if a.data() {
			return a.result(r, nil)
		}
		r.PrintBefore(a.screen, listing)
		return nil
	}
	if err := a.mustBeRoot(); err != nil {
		return err
	}
	if err := quiet.Refuse(m.Host); err != nil {
		return err
	}
	if err := refuseSecondQuiet(m); err != nil {
		return err
	}
	if tuners, err := m.OtherTuners(ctx, plan.Writing); err != nil || len(tuners) > 0 {
		if err == nil {
			err = tune.OtherTunerInForce(tuners[0], "fettle tune PROFILE --take-over")
		}
		return err
	}
	if len(command) == 0 {
		return a.stayQuiet(ctx, m, s, r, listing)
	}
	talk := ui.NewScreen(a.screen.Err, a.screen.Err) // standard output is the command's
	talk.Wide = a.screen.Wide
	if !a.data() {
		r.PrintBefore(talk, listing)
	}
	a.screen.Say("takes %s and the time of the command", unit.FormatSeconds(4*a.noisePhase().Seconds()))
	q := &experiment.Quiet{Machine: m, Watchdog: a.watchdog(), State: s, Result: r, Phase: a.noisePhase(), Out: os.Stdout, Screen: a.screen}
	if a.data() {
		q.Out = os.Stderr
	}
	a.ignoreSignals(q.Restored, q.Leave)
	err = q.Run(ctx, command)
	r.Summarize()
	if a.data() {
		return a.result(r, err)
	}
	r.PrintAfter(talk)
	return err
}

// refuseSecondQuiet returns an error if the machine is in a quiet state, or an experiment runs: the
// noise without the state could not be measured, and the experiment would be disturbed.
func refuseSecondQuiet(m *tune.Machine) error {
	if x := tune.Holder(m.StateDir); x != nil {
		return experiment.Busy(x)
	}
	state, err := m.State()
	if err != nil {
		return err
	}
	if tx := quiet.Standing(m.Host, state); tx > 0 {
		return ui.Hinted(ui.Refused, fmt.Errorf("the machine is quiet already (transaction %d); nothing changed", tx),
			fmt.Sprintf("fettle undo %d ends this state; to measure in this state, run the command without fettle quiet on the measured CPUs (taskset)", tx))
	}
	return nil
}

// stayQuiet applies the quiet state until fettle undo.
func (a *app) stayQuiet(ctx context.Context, m *tune.Machine, s *quiet.State, r *quiet.Result, l tune.Listing) error {
	if !a.data() {
		r.PrintBefore(a.screen, l)
	}
	if _, err := m.Recover(ctx); err != nil { // as fettle tune
		return err
	}
	res, err := m.Apply(ctx, s.Planner(m.Engine), tune.ApplyOptions{Kind: journal.Apply, OrNothing: true})
	if res == nil {
		return err
	}
	if err == nil && res.Result != journal.ResultRolledBack {
		err = quiet.Act(m.Host)
	}
	r.Transaction, r.Plan = res.Tx, res.Plan
	r.Summarize()
	if err = res.Err(err); ui.Code(err) == ui.Partial {
		err = ui.Hinted(ui.Partial, errors.New("the kernel rejected some values; the others are set"), fmt.Sprintf("fettle undo %d restores them", res.Tx))
	}
	if a.data() {
		return a.result(r, err)
	}
	r.PrintAfter(a.screen)
	return err
}
