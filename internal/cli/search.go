package cli

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/cliutil/loadcli"
	"fettle.dev/fettle/internal/measure/experiment"
	"fettle.dev/fettle/internal/measure/prove"
	"fettle.dev/fettle/internal/measure/search"
	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
)

// searchOptions holds the options of a search as parsed from flags.
type searchOptions struct {
	experiment.SearchOptions
	dryRun bool
}

func searchCommand(a *app) *cobra.Command {
	o := &searchOptions{}
	d := prove.Defaults(prove.Metric{Name: "time"})
	c := &cobra.Command{
		Use: "search (--space NAME | --try SETTING=V,V...) (-- COMMAND... | --bench NAME)", Short: "Search for better values of several settings, and prove them",
		Long: `Measures the command with combinations of the given values, and looks for the one with
the best result. Every fourth run has the machine's present values, so drift of the
machine does not count. A combination that fails, exceeds --stop-above or twice takes
five times as long is not tried again, and neither are combinations that change the same
settings even more. The best combination is then tested as by fettle prove: only that
result counts, because the best of many noisy runs looks better than it is. If a gain is
unlikely, the search ends early.

The machine is restored when fettle ends, also after Ctrl-C or kill -9.`,
		Args: o.checkWork,
		RunE: func(c *cobra.Command, args []string) (err error) {
			if o.Dir, err = os.Getwd(); err != nil {
				return err
			}
			if !c.Flags().Changed("seed") {
				o.Seed = rand.Uint64N(1 << 53) // below 2^53: exact in every JSON reader
			}
			return a.search(c.Context(), o, args)
		},
	}
	f := c.Flags()
	f.StringArrayVar(&o.Try, "try", nil, "setting with the values to try, SETTING=VALUE,VALUE,...; the present value is always tried; repeatable")
	f.StringVar(&o.Space, "space", "", "settings that fettle knows, with values for this machine: memory, disk:NAME, postgresql, puma[:SERVICE]")
	f.StringVar(&o.Metric, "metric", "time", "what is compared: time, cpu-time, max-memory, instructions (hardware counter), energy (RAPL), NAME=REGEXP for a number that the command prints, or gobench or hyperfine as for fettle prove")
	f.StringVar(&o.Unit, "unit", "", "unit of --metric, if the command prints it")
	f.BoolVar(&o.More, "higher-is-better", false, "higher values of --metric are better")
	f.Float64Var(&o.Percentile, "percentile", -1, "use this percentile, 0 to 100, of the numbers that REGEXP finds in a run (default: use the last number)")
	f.StringArrayVar(&o.Caps, "stop-above", nil, "do not try a combination again if METRIC exceeded VALUE, as METRIC:VALUE, such as max-memory:2000000000; repeatable")
	f.StringVar(&o.Bench, "bench", "", "measure this benchmark instead of COMMAND: disk:randrw, disk:stream-read@/srv, memory:thp-random, postgres:clients-8")
	f.StringVar(&o.Fio, "fio", "", "with --bench disk: path of the fio program (default fio in PATH)")
	f.StringVar(&o.Margin, "margin", "2%", "smallest gain that matters, in percent")
	f.Float64Var(&o.Alpha, "alpha", d.Alpha, "probability of a wrong verdict of the proof, 0.001 to 0.2")
	f.IntVar(&o.Runs, "runs", 60, "maximum number of runs of the search, without the proof")
	f.DurationVar(&o.Budget, "budget", time.Hour, "time for the search (60 %) and the proof (40 %)")
	f.DurationVar(&o.Timeout, "timeout", 0, "time limit of a run (default the budget, at least a minute)")
	f.IntVar(&o.Washout, "warmup-runs", d.Washout, "warm-up runs after each switch")
	f.Uint64Var(&o.Seed, "seed", 0, "seed of the random choices (default a new one, recorded)")
	f.StringVar(&o.Resume, "resume", "", "resume an interrupted search, by its name (fettle runs list) or last")
	f.StringVar(&o.TestSystem, "test-system", "", "allow settings that restart programs at each switch, if `NAME` is this machine's name")
	f.BoolVar(&o.Keep, "keep", false, "keep the values if they are proved to be better")
	f.BoolVar(&o.Anyway, "force", false, "measure although the server of --bench has other clients; do not wait for an idle machine")
	f.BoolVar(&o.dryRun, "dry-run", false, "show the settings, their values and the time, and measure nothing")
	o.Blocks = d.Most
	cliutil.Between(f, "percentile", 0.0, 100, 99)
	cliutil.Percent(f, "margin", "2%")
	cliutil.Reads(f, "try", "vm.swappiness=10,30", experiment.CheckTry)
	cliutil.Once(f, "space", "a search has one shipped space, to which --try adds settings")
	cliutil.Once(f, "metric", "a search compares one metric; --stop-above limits others")
	cliutil.Reads(f, "space", "disk:sda", experiment.ParseSpace)
	cliutil.Between(f, "alpha", 0.001, 0.2, 0.05)
	cliutil.Between(f, "runs", search.FewestRuns, search.MostRuns, 60)
	cliutil.Between(f, "budget", time.Minute, loadcli.MaxRun, time.Hour)
	cliutil.Between(f, "timeout", time.Millisecond, loadcli.MaxRun, 10*time.Minute)
	cliutil.Between(f, "warmup-runs", 0, 20, 1)
	cliutil.Between[uint64](f, "seed", 0, 1<<63, 1)
	cliutil.Check(c, func(args []string) error { return o.check(c, args) })
	return c
}

// checkWork rejects a missing command, and a command in addition to other work.
func (o *searchOptions) checkWork(c *cobra.Command, args []string) error {
	switch {
	case o.Resume != "":
	case o.Bench != "" && len(args) > 0:
		return ui.Without(errors.New("--bench is the work to measure; leave out --bench or the command"), "--bench")
	case o.Bench != "" || len(args) > 0 && c.ArgsLenAtDash() == 0:
	case len(args) == 0:
		return &ui.Error{Code: ui.Usage, Err: errors.New("nothing to measure; give a command after --, or --bench"), Remedy: &ui.Remedy{Options: []string{"--", "make", "-B"}, Example: true}}
	case c.ArgsLenAtDash() < 0:
		return ui.OtherWord(errNoWork, args[0], "--", args[0])
	default:
		return ui.WithoutWord(errNoWork, args[0])
	}
	return nil
}

// check rejects flags that exclude each other.
func (o *searchOptions) check(c *cobra.Command, args []string) error {
	f := c.Flags()
	if o.Resume != "" {
		for _, name := range []string{"space", "try", "metric", "unit", "higher-is-better", "percentile", "stop-above", "bench", "fio", "margin", "alpha", "runs", "budget", "timeout", "warmup-runs", "seed", "test-system", "dry-run"} {
			if f.Changed(name) {
				return ui.Without(fmt.Errorf("--resume continues with the original options; leave out --%s", name), "--"+name)
			}
		}
		if len(args) > 0 {
			return ui.Hinted(ui.Usage, errors.New("--resume continues with the original command; leave it out"), "run: "+internaltext.CommandLine([]string{"fettle", "search", "--resume", o.Resume}))
		}
		return nil
	}
	if len(o.Try) == 0 && o.Space == "" {
		return ui.Retry(ui.Usage, errors.New("no settings to search; want --space or --try"), "", "--try=vm.swappiness=10,30,100")
	}
	for _, name := range ofMetric {
		if o.Bench != "" && f.Lookup(name) != nil && f.Changed(name) {
			return ui.Without(fmt.Errorf("--%s does not work with --bench: each benchmark has one fixed metric", name), "--"+name)
		}
	}
	if f.Changed("fio") && o.Bench == "" {
		return ui.Without(errors.New("--fio needs --bench disk:CELL"), "--fio")
	}
	return nil
}

func (a *app) search(ctx context.Context, o *searchOptions, work []string) error {
	if !o.dryRun {
		if err := a.mustBeRoot(); err != nil {
			return err
		}
	}
	m, err := a.machine(ctx)
	if err != nil {
		return err
	}
	s := &experiment.Search{Experiment: &experiment.Experiment{Machine: m, Screen: a.screen, By: a.by(), Watchdog: a.watchdog(), Settle: a.settle}}
	if o.dryRun {
		a.warnState()
		planned, err := s.Plan(ctx, o.SearchOptions, work)
		if err != nil {
			return err
		}
		if a.data() {
			return a.result(planned, nil)
		}
		planned.Print(a.screen)
		return nil
	}
	a.ignoreSignals(s.Restored, s.Leave)
	r, err := s.Run(ctx, o.SearchOptions, work)
	switch {
	case r == nil:
		return err
	case a.data():
		return a.result(RunResult{r.Body.Headline(), r.Run}, err)
	}
	return a.printRun(r.Run, r.Run.ID, r.Body, err)
}
