package cli

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/measure/experiment"
	"fettle.dev/fettle/internal/measure/prove"
)

var errNoWork = errors.New("want the command to measure after --, or --live for work that runs here anyway")

func proveCommand(a *app) *cobra.Command {
	o := &proveOptions{shortest: a.shortest}
	d := prove.Defaults(prove.Metric{Name: "time"})
	c := &cobra.Command{
		Use: "prove (--profile X | --set S=V | --plan FILE | --change-cmd APPLY --undo-cmd UNDO) (-- COMMAND... | --bench NAME | --live)", Short: "Measure whether a change helps this work on this machine, with an interval, and undo it",
		Long: `Runs the command again and again, with the change and without, in an random
order: ABBA or BAAB. Background load cannot look like an effect. Each switch goes through the journal, and the machine is as it was
when fettle ends, also by Ctrl-C or kill -9. The verdict is one of four: faster or
slower, with an interval that holds at whatever moment one looks; no effect above
the margin; cannot tell yet.

With --live nothing is run: the change is switched on and off under the work that
runs here anyway, window by window, and its logs, its Prometheus or the kernel's
pressure tell the difference.`,
		Annotations: map[string]string{moreFormats: string(benchfmtFormat)},
		Args:        o.checkWork,
		RunE: func(c *cobra.Command, args []string) (err error) {
			if o.Dir, err = os.Getwd(); err != nil {
				return err
			}
			if !c.Flags().Changed("seed") {
				o.Seed = rand.Uint64N(1 << 53) // exact in every reader of JSON
			}
			return a.prove(c.Context(), o.Options, args)
		},
	}
	f := c.Flags()
	f.StringArrayVar(&o.Profiles, "profile", nil, "the change: a profile; repeatable, later ones over earlier ones")
	f.StringArrayVar(&o.Set, "set", nil, "the change: one setting, SETTING=VALUE; repeatable")
	f.StringVar(&o.Plan, "plan", "", "the change: a plan that fettle diff --output json wrote")
	f.StringVar(&o.ChangeCmd, "change-cmd", "", "the change: a command for sh that makes it; fettle's journal does not know what it does")
	f.StringVar(&o.UndoCmd, "undo-cmd", "", "the command that takes --change-cmd back; it also has to succeed where nothing is to be taken back")
	f.StringVar(&o.Metric, "metric", "time", "what the verdict is about: time, cpu-time, max-memory, or NAME=REGEXP for a number that the command prints (its first group); with --live pressure:io, logs:FILE:p99, prometheus:URL:EXPR")
	f.StringVar(&o.Unit, "unit", "", "unit of --metric: with s (less is better) and 1/s (more is better) the verdict is faster or slower, with others better or worse")
	f.BoolVar(&o.More, "more", false, "more of --metric is better")
	f.Float64Var(&o.Percentile, "percentile", -1, "of the many numbers that REGEXP finds in one run, this percentile; else the last number")
	f.StringArrayVar(&o.Guards, "guard", nil, "guard rail METRIC:LIMIT, as max-memory:10% or p99=p99 ([0-9.]+):20%: the experiment ends once that is worse for sure; repeatable")
	f.StringArrayVar(&o.Caps, "stop-above", nil, "METRIC:VALUE, as max-memory:2000000000 or pressure:memory:20: the experiment ends at once when a run or a window has more; repeatable")
	f.StringVar(&o.Bench, "bench", "", "the work: one cell of a bench, as disk:randrw, disk:stream-read@/srv, memory:thp-random, postgres:clients-8, or etcd:put=bench, which writes beneath the keys bench/")
	f.StringVar(&o.Fio, "fio", "", "with --bench disk: the fio to run (default: the installed one)")
	f.BoolVar(&o.Live, "live", false, "measure work that runs here anyway, in windows of time with the change and without")
	o.Window = 10 * time.Minute
	f.Var(&bothWindows{a, o}, "window", "with --live: length of a window; each is up to a tenth longer or shorter; as HH:MM-HH:MM: refuse outside these hours of the local clock")
	f.DurationVar(&o.Settle, "settle", 0, "with --live: time after each switch that does not count (default: a fifth of --window)")
	f.StringVar(&o.Covariate, "covariate", "", "with --live: what the metric depends on and the change does not influence: rate (of the requests in the metric's log), or a metric")
	f.StringVar(&o.Pattern, "pattern", "", "with --live: REGEXP whose first group is the duration in a line of a log other than a request log")
	f.StringVar(&o.LogFormat, "log-format", "", "with --live: the logs' format, as --format of fettle logs (default: detected)")
	f.StringArrayVar(&o.LogConfig, "log-config", nil, "with --live: the server's configuration, which says the logs' formats, as --config of fettle logs; repeatable")
	f.StringVar(&o.TokenFile, "prometheus-token", "", "with --live: file with the bearer token for Prometheus")
	f.StringVar(&o.Margin, "margin", "2%", "smaller effects do not matter")
	f.Float64Var(&o.Alpha, "alpha", d.Alpha, "chance of a wrong verdict")
	f.DurationVar(&o.Budget, "budget", 30*time.Minute, "no run begins after this time (with --live: as long as all blocks take)")
	f.DurationVar(&o.Timeout, "timeout", 0, "a run that takes longer has failed (default: the budget, at least a minute), and a --change-cmd or --undo-cmd too (default: 10m)")
	f.IntVar(&o.Blocks, "blocks", d.Most, "maximum blocks; a block is four runs that count")
	f.IntVar(&o.Placebo, "placebo", d.Placebo, "blocks of the placebo, which measures the noise")
	f.IntVar(&o.Washout, "washout", d.Washout, "warm-up runs after each switch, at least; the placebo may find that more are needed")
	f.Uint64Var(&o.Seed, "seed", 0, "seed of the order (default: a new one; the evidence has it)")
	f.StringVar(&o.Expect, "expect", "", "exit with 3 unless the verdict is this: faster, slower, better, worse or no-effect")
	f.BoolVar(&o.Keep, "keep", false, "keep the change if it is better")
	f.StringVar(&o.Resume, "resume", "", "go on with an experiment that was cut off, by its name (fettle runs list) or last; or, by its ID, with one that has ended and cannot tell yet: --budget is the time that it gets then, --blocks the most with those that it has")
	f.BoolVar(&o.Anyway, "anyway", false, "measure although the machine is busy or the margin out of reach")
	o.limits(f)
	cliutil.Check(c, func(args []string) error { return o.check(c.Flags(), args) })
	return c
}

func (a *app) prove(ctx context.Context, o experiment.Options, work []string) error {
	m, err := a.machine(ctx)
	if err != nil {
		return err
	}
	p := &experiment.Experiment{Machine: m, Screen: a.screen, By: a.by(), Watchdog: a.watchdog(), Settle: a.settle}
	a.ignoreSignals(p.Restored, p.Leave)
	r, err := p.Run(ctx, o, work)
	switch {
	case r == nil:
		return err
	case a.data():
		headline := r.Body.Headline()
		return a.result(RunResult{&headline, r.Run}, err)
	case a.screen.Format == benchfmtFormat:
		a.screen.Say("%s", r.Body.Text)
		return errors.Join(err, prove.Benchfmt(a.screen.Out, []*evidence.Run{r.Run}))
	case r.Visits > 0:
		prove.Print(a.screen, r.Run, r.Body)
	}
	return err
}

// watchExperimentCommand returns the watchdog of an experiment.
func watchExperimentCommand(a *app) *cobra.Command {
	var deadline time.Duration
	var undoCmd, dir string
	var ready bool
	c := &cobra.Command{
		Use: "watch-experiment", Hidden: true, Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			// A signal that ends the session also ends the experiment, which restores the
			// machine itself; the watchdog outlives it.
			ctx := context.WithoutCancel(c.Context())
			signal.Ignore(syscall.SIGHUP, os.Interrupt, syscall.SIGTERM, syscall.SIGQUIT)
			m, err := a.machineAsIs(ctx)
			if err != nil {
				return err
			}
			if ready {
				if err := tune.ReportReady(); err != nil {
					return err
				}
			}
			return experiment.Watch(ctx, m, deadline, undoCmd, dir)
		},
	}
	c.Flags().BoolVar(&ready, "ready", false, "report on descriptor 3 when no signal can end it any more")
	c.Flags().DurationVar(&deadline, "deadline", 0, "deadline of the experiment's transactions, as time since boot")
	c.Flags().StringVar(&undoCmd, "undo-cmd", "", "command that undoes the change")
	c.Flags().StringVar(&dir, "dir", "/", "where it is started")
	return c
}
