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

var errNoWork = errors.New("nothing to measure; give a command after --, or --live for work that already runs on this machine")

func proveCommand(a *app) *cobra.Command {
	o := &proveOptions{shortest: a.shortest}
	d := prove.Defaults(prove.Metric{Name: "time"})
	c := &cobra.Command{
		Use: "prove (--profile X | --set S=V | --plan FILE | --change-cmd APPLY --undo-cmd UNDO) (-- COMMAND... | --bench NAME | --live) | --a CMD --b CMD | --a-ref REF --b-ref REF -- COMMAND...", Short: "Prove by measurement that a change helps (A/B test)",
		Long: `Measures whether a change helps. It runs the command repeatedly, with and without the
change, in random order (AB or BA), so background load cannot favor a side. Each
switch goes through the journal. The machine is restored when fettle ends, also after
Ctrl-C or kill -9. The verdict is faster, slower, no effect above the margin, or cannot
tell yet. The interval in the verdict is valid however often you look.

With --live it runs nothing, but switches the change on and off while this machine does
its usual work. It compares the time windows with the change and those without it. The
metric is from a request log, a Prometheus query, or the kernel's pressure stall
information (PSI).`,
		Annotations: map[string]string{moreFormats: string(benchfmtFormat + " " + hyperfineFormat)},
		Args:        o.checkWork,
		RunE: func(c *cobra.Command, args []string) (err error) {
			if o.Dir, err = os.Getwd(); err != nil {
				return err
			}
			if !c.Flags().Changed("seed") {
				o.Seed = rand.Uint64N(1 << 53) // below 2^53: exact in every JSON reader
			}
			return a.prove(c.Context(), o.Options, args)
		},
	}
	f := c.Flags()
	f.StringArrayVar(&o.Profiles, "profile", nil, "change to test: a profile; repeatable, later ones take precedence")
	f.StringArrayVar(&o.Set, "set", nil, "change to test: one setting, SETTING=VALUE; repeatable")
	f.StringVar(&o.Plan, "plan", "", "change to test: file with a plan from fettle diff --output json")
	f.StringVar(&o.ChangeCmd, "change-cmd", "", "change to test: a shell command that makes the change; needs --undo-cmd")
	f.StringVar(&o.UndoCmd, "undo-cmd", "", "shell command that undoes --change-cmd; must also succeed if there is nothing to undo")
	f.StringVar(&o.A, "a", "", "command A, a shell command: compares A and B instead of testing a change; needs --b")
	f.StringVar(&o.B, "b", "", "command B; the verdict is about B, compared with A")
	f.StringVar(&o.ARef, "a-ref", "", "commit A of the git repository in this directory: compares A and B with COMMAND instead of testing a change; needs --b-ref")
	f.StringVar(&o.BRef, "b-ref", "", "commit B; the verdict is about B, compared with A")
	f.StringVar(&o.Build, "build", "", "with --a-ref: shell command that builds each commit once, before the measurement")
	f.StringArrayVar(&o.metrics, "metric", []string{"time"}, "what is compared: time, cpu-time, max-memory, instructions (hardware counter), energy (RAPL), or NAME=REGEXP for a number that the command prints, gobench[:NAME[:UNIT]] for the output of go test -bench, hyperfine[:COMMAND] for that of hyperfine --style none --export-json /dev/stdout; with --live pressure:io, logs:FILE:p99, prometheus:URL:EXPR; repeatable, each with a verdict of its own")
	f.StringVar(&o.Unit, "unit", "", "unit of the first --metric; with s and 1/s the verdicts are faster and slower, otherwise better and worse")
	f.BoolVar(&o.More, "higher-is-better", false, "higher values of the first --metric are better")
	f.Float64Var(&o.Percentile, "percentile", -1, "use this percentile, 0 to 100, of the numbers that REGEXP finds in a run (default: use the last number)")
	f.StringArrayVar(&o.Guards, "guard", nil, "stop once METRIC is worse by more than LIMIT, as METRIC:LIMIT, such as max-memory:10% or 'p99=p99 ([0-9.]+):20%'; repeatable")
	f.StringArrayVar(&o.Caps, "stop-above", nil, "stop at once when METRIC exceeds VALUE, as METRIC:VALUE, such as max-memory:2000000000 or pressure:memory:20; repeatable")
	f.StringVar(&o.Bench, "bench", "", "measure this benchmark instead of COMMAND: disk:randrw, disk:stream-read@/srv, memory:thp-random, postgres:clients-8, etcd:put=bench")
	f.StringVar(&o.Fio, "fio", "", "with --bench disk: path of the fio program (default fio in PATH)")
	f.BoolVar(&o.Live, "live", false, "measure work that already runs on this machine, in time windows with and without the change")
	o.Window = 10 * time.Minute
	f.Var(&bothWindows{a, o}, "window", "with --live: length of a time window, such as 10m (varied by up to a tenth); or hours of local time, HH:MM-HH:MM; outside of these hours nothing is changed")
	f.DurationVar(&o.Settle, "settle", 0, "with --live: warm-up time after each switch, not counted (default a fifth of --window)")
	f.StringVar(&o.Covariate, "covariate", "", "with --live: quantity that affects the metric but is not affected by the change: rate (of requests in the log), or a metric")
	f.StringVar(&o.Pattern, "pattern", "", "with --live: regular expression for unsupported log formats; its first group is the duration")
	f.StringVar(&o.LogFormat, "log-format", "", "with --live: log format, as for fettle logs --format (default detected)")
	f.StringArrayVar(&o.LogConfig, "log-config", nil, "with --live: server configuration with the log format, as for fettle logs --config; repeatable")
	f.StringVar(&o.TokenFile, "prometheus-token", "", "with --live: file with the bearer token for Prometheus")
	f.StringVar(&o.Margin, "margin", "2%", "smallest effect that matters, in percent")
	f.Float64Var(&o.Alpha, "alpha", d.Alpha, "probability of a wrong verdict, 0.001 to 0.2")
	f.DurationVar(&o.Budget, "budget", 30*time.Minute, "start no further run after this time, such as 30m; with --live: total time of all blocks")
	f.DurationVar(&o.Timeout, "timeout", 0, "time limit of a run (default the budget, at least a minute), and of --change-cmd and --undo-cmd (default 10m)")
	f.IntVar(&o.Blocks, "blocks", d.Most, "maximum number of blocks of two runs")
	f.IntVar(&o.Washout, "warmup-runs", d.Washout, "minimum number of warm-up runs after each switch; fettle makes more if the machine needs longer to settle; without this flag, --a and --a-ref make none if the budget is too short")
	f.Uint64Var(&o.Seed, "seed", 0, "seed of the random order (default a new one, recorded)")
	f.StringVar(&o.Expect, "expect", "", "exit with 3 unless this is the verdict: faster, slower, better, worse, no-effect; no-slower and no-worse fail only if B or the change is surely worse, possibly by more than the margin")
	f.BoolVar(&o.Keep, "keep", false, "keep the change if it is better")
	f.StringVar(&o.Resume, "resume", "", "resume an interrupted experiment, by its name (fettle runs list) or last; or continue an undecided experiment, by its ID, for the time in --budget")
	f.StringVar(&o.TestSystem, "test-system", "", "allow a change that restarts programs at each switch, if `NAME` is this machine's name")
	f.BoolVar(&o.Anyway, "force", false, "measure although another tuner runs (with --change-cmd), the log of --live is idle, or the server of --bench has other clients; do not wait for an idle machine")
	o.limits(f)
	cliutil.Check(c, func(args []string) error { return o.check(c.Flags(), args) })
	return c
}

func (a *app) prove(ctx context.Context, o experiment.Options, work []string) error {
	if !o.Comparison() && o.Resume == "" { // a resumed change needs root for its first write
		if err := a.mustBeRoot(); err != nil {
			return err
		}
	}
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
		return a.result(RunResult{r.Body.Headline(), r.Run}, err)
	case exporters[a.screen.Format] != nil:
		a.screen.Say("%s", r.Body.Text)
		return errors.Join(err, exporters[a.screen.Format](a.screen.Out, []*evidence.Run{r.Run}))
	case r.Samples > 0:
		return a.printRun(r.Run, r.Run.ID, r.Body, err)
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
			// A signal that ends the session also ends the experiment, which then restores the
			// machine. The watchdog must outlive it.
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
	c.Flags().BoolVar(&ready, "ready", false, "write to file descriptor 3 once signals no longer end this process")
	c.Flags().DurationVar(&deadline, "deadline", 0, "deadline of the experiment's transactions, as time since boot")
	c.Flags().StringVar(&undoCmd, "undo-cmd", "", "command that undoes the change")
	c.Flags().StringVar(&dir, "dir", "/", "working directory of --undo-cmd")
	return c
}
