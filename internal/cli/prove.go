package cli

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/measure/prove"
	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
)

// ProveResult is the JSON form of fettle prove: the record of the run.
type ProveResult struct {
	*evidence.Run
}

var errNoWork = errors.New("want the work after --, or --live for work that goes on here anyhow")

// proveOptions are what is asked for; the evidence keeps them, so that an experiment
// can be resumed and made again.
type proveOptions struct {
	Profiles  []string `json:"profiles,omitempty"`
	Set       []string `json:"set,omitempty"`
	Plan      string   `json:"plan,omitempty"`
	ChangeCmd string   `json:"change_command,omitempty"`
	UndoCmd   string   `json:"undo_command,omitempty"`
	Dir       string   `json:"directory"` // in which commands are started

	Metric     string   `json:"metric"`
	Unit       string   `json:"unit,omitempty"`
	More       bool     `json:"more_is_better,omitempty"`
	Percentile float64  `json:"percentile"` // below 0: the last number
	Guards     []string `json:"guards,omitempty"`
	Caps       []string `json:"caps,omitempty"`

	Bench     string        `json:"bench,omitempty"`
	Fio       string        `json:"fio,omitempty"`
	Live      bool          `json:"live,omitempty"`
	Window    time.Duration `json:"window_ns,omitempty"`
	Settle    time.Duration `json:"settle_ns,omitempty"`
	Covariate string        `json:"covariate,omitempty"`
	Pattern   string        `json:"pattern,omitempty"`
	LogFormat string        `json:"log_format,omitempty"`
	LogConfig []string      `json:"log_config,omitempty"`
	TokenFile string        `json:"prometheus_token_file,omitempty"`

	Margin  string        `json:"margin"`
	Alpha   float64       `json:"alpha"`
	Budget  time.Duration `json:"budget_ns"`
	Timeout time.Duration `json:"timeout_ns"`
	Quads   int           `json:"quads"`
	Placebo int           `json:"placebo"`
	Washout int           `json:"washout"`
	Seed    uint64        `json:"seed"`
	Anyway  bool          `json:"anyway,omitempty"`

	expect string
	keep   bool
	resume string
	more   further // with resume
	// windowed: --window is the length of a window, not hours of the day.
	windowed bool
}

func proveCommand(a *app) *cobra.Command {
	var o proveOptions
	d := prove.Defaults(prove.Metric{Name: "time"})
	c := &cobra.Command{
		Use: "prove (--profile X | --set S=V | --plan FILE | --change-cmd APPLY --undo-cmd UNDO) (-- COMMAND... | --bench NAME | --live)", Short: "Measure whether a change helps this work on this machine, with an interval, and undo it",
		Long: `Runs the command again and again, with the change and without, in an order that a
coin decides: ABBA or BAAB. Whatever the machine does meanwhile, an effect is not
made up by it. Each switch goes through the journal, and the machine is as it was
when fettle ends, also by Ctrl-C or kill -9. The verdict is one of four: faster or
slower, with an interval that holds at whatever moment one looks; no effect above
the margin; cannot tell yet.

With --live nothing is run: the change is switched on and off under the work that
goes on here anyhow, window by window, and its logs, its Prometheus or the kernel's
pressure tell the difference.`,
		Annotations: map[string]string{moreFormats: string(benchfmtFormat)},
		Args: func(c *cobra.Command, args []string) error {
			switch {
			case o.resume != "":
			case o.Live && len(args) > 0:
				return ui.Without(errors.New("--live measures what runs here anyhow: it takes no command"), "--live")
			case o.Bench != "" && len(args) > 0:
				return ui.Without(errors.New("--bench is the work: it takes no command"), "--bench")
			case o.Live || o.Bench != "" || len(args) > 0 && c.ArgsLenAtDash() == 0:
			case len(args) == 0:
				return ui.Retry(ui.Usage, errNoWork, "", "--", "make", "test")
			case c.ArgsLenAtDash() < 0:
				return ui.OtherWord(errNoWork, args[0], "--", args[0])
			default:
				return ui.WithoutWord(errNoWork, args[0])
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) (err error) {
			for _, name := range []string{"profile", "set", "plan", "change-cmd", "undo-cmd", "metric", "unit", "expect", "resume", "margin", "bench", "fio", "covariate", "pattern", "log-format", "log-config", "prometheus-token"} {
				if f := c.Flags().Lookup(name); f.Changed && (f.Value.String() == "" || f.Value.String() == "[]") {
					return ui.Without(fmt.Errorf("--%s is empty", name), "--"+name)
				}
			}
			if o.resume != "" {
				// What it is about was decided before its first run.
				taken := map[string]bool{"budget": true, "quads": true, "resume": true, "expect": true, "keep": true, "anyway": true, "output": true, "state-dir": true, "reason": true, "window": !o.windowed}
				var more []string
				c.Flags().Visit(func(f *pflag.Flag) {
					if !taken[f.Name] {
						more = append(more, "--"+f.Name)
					}
				})
				if len(args) > 0 {
					more = append(more, "another work")
				}
				if c.Flags().Changed("budget") {
					o.more.budget = o.Budget
				}
				if c.Flags().Changed("quads") {
					o.more.quads = o.Quads
				}
				if len(more) > 0 {
					return ui.Hinted(ui.Usage, fmt.Errorf("--resume goes on as it was begun: it takes no %s", strings.Join(more, ", ")), "run: "+internaltext.CommandLine([]string{"fettle", "prove", "--resume", o.resume}))
				}
			}
			if o.resume == "" {
				if err := o.suits(c.Flags()); err != nil {
					return ui.Exit(ui.Usage, err)
				}
			}
			if o.Dir, err = os.Getwd(); err != nil {
				return err
			}
			if !c.Flags().Changed("seed") {
				o.Seed = rand.Uint64N(1 << 53) // exact in every reader of JSON
			}
			return a.prove(c.Context(), o, args)
		},
	}
	f := c.Flags()
	f.StringArrayVar(&o.Profiles, "profile", nil, "the change: a profile; repeatable, later ones over earlier ones")
	f.StringArrayVar(&o.Set, "set", nil, "the change: one setting, SETTING=VALUE; repeatable")
	f.StringVar(&o.Plan, "plan", "", "the change: a plan that fettle diff --output json wrote")
	f.StringVar(&o.ChangeCmd, "change-cmd", "", "the change: a command for sh that makes it; fettle's journal does not know what it does")
	f.StringVar(&o.UndoCmd, "undo-cmd", "", "the command that takes --change-cmd back; it also has to succeed where nothing is to be taken back")
	f.StringVar(&o.Metric, "metric", "time", "what decides: time, cpu-time, max-memory, or NAME=REGEXP for a number that the command prints (its first group); with --live pressure:io, logs:FILE:p99, prometheus:URL:EXPR")
	f.StringVar(&o.Unit, "unit", "", "unit of --metric: with s (less is better) and 1/s (more is better) the verdict is faster or slower, with others better or worse")
	f.BoolVar(&o.More, "more", false, "more of --metric is better")
	f.Float64Var(&o.Percentile, "percentile", -1, "of the many numbers that REGEXP finds in one run, this percentile; else the last number")
	f.StringArrayVar(&o.Guards, "guard", nil, "guard rail METRIC:LIMIT, as max-memory:10% or p99=p99 ([0-9.]+):20%: the experiment ends once that is worse for sure; repeatable")
	f.StringArrayVar(&o.Caps, "stop-above", nil, "METRIC:VALUE, as max-memory:2000000000 or pressure:memory:20: the experiment ends at once when a run or a window has more; repeatable")
	f.StringVar(&o.Bench, "bench", "", "the work: one cell of a bench, as disk:randrw, disk:stream-read@/srv, memory:thp-random, postgres:clients-8, or etcd:put=bench, which writes beneath the keys bench/")
	f.StringVar(&o.Fio, "fio", "", "with --bench disk: the fio to run (default: the installed one)")
	f.BoolVar(&o.Live, "live", false, "measure work that goes on here anyhow, in windows of time with the change and without")
	o.Window = 10 * time.Minute
	f.Var(&bothWindows{a, &o}, "window", "with --live: length of a window; each is up to a tenth longer or shorter; as HH:MM-HH:MM: refuse outside these hours of the local clock")
	f.DurationVar(&o.Settle, "settle", 0, "with --live: time after each switch that does not count (default: a fifth of --window)")
	f.StringVar(&o.Covariate, "covariate", "", "with --live: what the metric depends on beside the change, and the change has no influence on: rate (of the requests in the metric's log), or a metric")
	f.StringVar(&o.Pattern, "pattern", "", "with --live: REGEXP whose first group is the duration in a line of a log that is none of requests")
	f.StringVar(&o.LogFormat, "log-format", "", "with --live: the logs' format, where it is not to be found out, as --format of fettle logs")
	f.StringArrayVar(&o.LogConfig, "log-config", nil, "with --live: the server's configuration, which says the logs' formats, as --config of fettle logs; repeatable")
	f.StringVar(&o.TokenFile, "prometheus-token", "", "with --live: file with the bearer token for Prometheus")
	f.StringVar(&o.Margin, "margin", "2%", "smaller effects do not matter")
	f.Float64Var(&o.Alpha, "alpha", d.Alpha, "chance of a wrong verdict")
	f.DurationVar(&o.Budget, "budget", 30*time.Minute, "no run begins after this time (with --live: as long as all quads take)")
	f.DurationVar(&o.Timeout, "timeout", 0, "a run that takes longer has failed (default: the budget, at least a minute), and a --change-cmd or --undo-cmd too (default: 10m)")
	f.IntVar(&o.Quads, "quads", d.Most, "quads at the most; a quad is four runs that count")
	f.IntVar(&o.Placebo, "placebo", d.Placebo, "quads of the placebo, which tells the noise")
	f.IntVar(&o.Washout, "washout", d.Washout, "runs that do not count after each switch, at least; the placebo may find that more are needed")
	f.Uint64Var(&o.Seed, "seed", 0, "seed of the order (default: a new one; the evidence has it)")
	f.StringVar(&o.expect, "expect", "", "exit with 3 unless the verdict is this: faster, slower, better, worse or no-effect")
	f.BoolVar(&o.keep, "keep", false, "apply the change for good if it is better")
	f.StringVar(&o.resume, "resume", "", "go on with an experiment that was cut off, by its name (fettle runs list) or last; or, by its ID, with one that has ended and cannot tell yet: --budget is the time that it gets then, --quads the most with those that it has")
	f.BoolVar(&o.Anyway, "anyway", false, "measure also where the machine is busy or the margin out of reach")
	o.limits(f)
	return c
}

func (a *app) prove(ctx context.Context, o proveOptions, work []string) (err error) {
	if err := a.mustBeLive(); err != nil {
		return err
	}
	if err := mustBeRoot(); err != nil {
		return err
	}
	m, err := a.machine(ctx)
	if err != nil {
		return err
	}
	want := expected[o.expect]
	p := &proof{machine: m, o: o, body: &prove.Evidence{Schema: prove.Schema, Method: prove.Method, Work: work}}
	a.holdOut(p.over.Load, p.leave)
	if o.resume != "" {
		if err := p.takeUp(); err != nil {
			return err
		}
		if p.underway != nil {
			defer p.underway.Close()
		}
	}
	err = p.prepare(ctx)
	if p.closing != nil {
		defer func() {
			if closed := p.closing(); closed != nil {
				err = errors.Join(ui.Exit(ui.Incomplete, closed), err)
			}
		}()
	}
	if err != nil {
		return err
	}
	ending, err := p.run(ctx)
	if ending == "" {
		return err // nothing was measured
	}
	err = p.verdict(ending, err, want)
	if err == nil && o.keep && p.body.Word == prove.Better {
		if at := slices.IndexFunc(p.body.Guards, func(g prove.Guarded) bool { return g.State != "within" }); at >= 0 {
			err = ui.Exit(ui.GateNotMet, fmt.Errorf("not kept: of guard rail %s it is not sure yet that it holds", p.body.Guards[at].Name))
		} else {
			err = p.keep(ctx)
		}
	}
	if p.body.Unanswered() && p.underway.Run.ID != "" {
		a.screen.Say("fettle prove --resume %s --budget 30m goes on with it", p.underway.Run.ID)
	}
	if a.data() {
		return a.result(ProveResult{p.underway.Run}, err)
	}
	if a.screen.Format == benchfmtFormat {
		a.screen.Say("%s", p.body.Text)
		return errors.Join(err, prove.Benchfmt(a.screen.Out, []*evidence.Run{p.underway.Run}))
	}
	if len(p.visits) > 0 {
		prove.Print(a.screen, p.underway.Run, p.body)
	}
	return err
}
