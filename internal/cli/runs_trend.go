package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/measure/experiment"
	"fettle.dev/fettle/internal/measure/trend"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

type trendOptions struct {
	series, margin, since, expect string
	over, step, token             string
	query                         trend.Query
	textfile                      textfile
}

func runsTrendCommand(a *app) *cobra.Command {
	var o trendOptions
	c := &cobra.Command{
		Use: "trend [FILE | prometheus:URL:EXPR]...", Short: "Find when repeated measurements changed, and what else did",
		Long: `Finds lasting changes in measurements that were repeated over time: when, how much,
and what changed on the machine then (transactions, packages, kernel, boot, settings).
Without FILE it reads the runs of this machine: the same benchmark, load or command of
an experiment (without its change) is a series. FILE has records of runs (fettle runs
export), the output of go test -bench, or JSON of JMH; name files in the order of time.
prometheus:URL:EXPR asks a Prometheus. At least 7 measurements are needed, 3 of them
after the change. If no series changes, the probability that a change is reported is at
most 5 %, also for users who look after each measurement.`,
		Annotations: map[string]string{moreFormats: string(cliutil.OpenMetrics)},
		RunE: func(c *cobra.Command, args []string) error {
			return o.textfile.run(c.Context(), "trend", func() error { return a.runsTrend(c.Context(), args, &o) })
		},
	}
	f := c.Flags()
	f.StringVar(&o.series, "series", "", "only series whose name contains this `TEXT`")
	f.StringVar(&o.margin, "margin", "2%", "smallest change that matters, in percent")
	f.StringVar(&o.since, "since", "", "compare with the level of this long ago, such as 14d; all measurements are used")
	f.StringVar(&o.expect, "expect", "", "exit with 3 unless this is met: no-worse (no series is worse than at --since; without --since, than before its first change)")
	f.StringVar(&o.over, "over", "14d", "with prometheus:URL:EXPR: read the values of this time until now")
	f.StringVar(&o.step, "step", "", "with prometheus:URL:EXPR: time between two values, which replaces $window in EXPR (default a 200th of --over)")
	f.StringVar(&o.query.Unit, "unit", "", "with prometheus:URL:EXPR: unit of the values")
	f.BoolVar(&o.query.More, "higher-is-better", false, "with prometheus:URL:EXPR: higher values are better")
	f.StringVar(&o.token, "prometheus-token", "", "with prometheus:URL:EXPR: file with the bearer token for Prometheus")
	o.textfile.flag(c)
	cliutil.Percent(f, "margin", "2%")
	cliutil.OneOf(f, "expect", trend.NoWorse)
	for name, example := range map[string]string{"since": "14d", "over": "14d", "step": "1h"} {
		cliutil.Reads(f, name, example, func(word string) error {
			if age, err := unit.ParseDuration(word, 0); err != nil || age < time.Second {
				return errors.New("want a time such as 14d or 1h")
			}
			return nil
		})
	}
	cliutil.Check(c, func(args []string) error {
		for _, name := range []string{"over", "step", "unit", "higher-is-better", "prometheus-token"} {
			if f.Changed(name) && !slices.ContainsFunc(args, isTrendQuery) {
				return ui.Without(fmt.Errorf("--%s needs an argument prometheus:URL:EXPR", name), "--"+name)
			}
		}
		return nil
	})
	return c
}

func isTrendQuery(arg string) bool { return strings.HasPrefix(arg, trend.QueryPrefix) }

func (a *app) runsTrend(ctx context.Context, args []string, o *trendOptions) error {
	now := a.live().Clock.Now()
	var with trend.Options
	with.Margin, _ = unit.ParsePercent(o.margin) // the options have validated this and the times
	o.query.Over, _ = unit.ParseDuration(o.over, 0)
	o.query.Step, _ = unit.ParseDuration(o.step, 0)
	if age, err := unit.ParseDuration(o.since, 0); err == nil {
		with.Since = now.Add(-age)
	}
	var samples []trend.Sample
	var err error
	if len(args) > 0 {
		samples, err = o.read(ctx, args, now)
	} else {
		samples, with.Machine, err = a.ownSamples(ctx)
	}
	if err != nil {
		return err
	}
	first := samples[0].Name
	samples = slices.DeleteFunc(samples, func(s trend.Sample) bool { return !strings.Contains(s.Name, o.series) })
	if len(samples) == 0 {
		return ui.Instead(ui.Usage, fmt.Errorf("--series %q: no series has this in its name", o.series), "", "--series="+first)
	}
	r := trend.Analyze(samples, with)
	err = r.Gate(o.expect)
	o.textfile.metrics = func(w io.Writer) error { return r.OpenMetrics(w, now) }
	switch {
	case a.data():
		return a.result(r, err)
	case a.screen.Format == cliutil.OpenMetrics:
		return errors.Join(err, r.OpenMetrics(a.screen.Out, now))
	case a.screen.Page != nil:
		r.Page(a.screen)
		return err
	}
	r.Print(a.screen)
	if next := r.Next(); next != nil && len(args) == 0 {
		ui.PrintLine(a.screen, "to compare the runs before and after the change:")
		ui.PrintCommand(a.screen, a.next(next...))
	}
	return err
}

// read reads the measurements of files and queries.
func (o *trendOptions) read(ctx context.Context, args []string, now time.Time) (all []trend.Sample, err error) {
	if o.token != "" {
		content, err := os.ReadFile(o.token)
		if err != nil {
			return nil, fmt.Errorf("--prometheus-token: %w", err)
		}
		o.query.Token = string(content)
	}
	for _, arg := range args {
		var samples []trend.Sample
		if isTrendQuery(arg) {
			samples, err = o.query.Samples(ctx, arg, now)
		} else {
			samples, err = trend.ReadFile(arg)
		}
		switch {
		case errors.Is(err, trend.ErrQuery):
			return nil, ui.Exit(ui.Usage, err)
		case err != nil:
			return nil, experiment.Damaged(err)
		}
		all = append(all, samples...)
	}
	if len(all) == 0 {
		return nil, ui.Exit(ui.Failed, errors.New("the files contain no measurements"))
	}
	return all, nil
}

// ownSamples reads the runs of this machine, and its history.
func (a *app) ownSamples(ctx context.Context) ([]trend.Sample, *trend.Machine, error) {
	if err := a.mustBeLive(); err != nil {
		return nil, nil, err
	}
	m, err := a.machineAsIs(ctx)
	if err != nil {
		return nil, nil, err
	}
	runs, err := experiment.Store(m).All()
	if runs == nil && err != nil {
		return nil, nil, m.Unreadable(err)
	}
	if err != nil {
		a.screen.Say("run ignored: %v", err)
	}
	all, failed := trend.OfRuns(runs)
	for _, err := range failed {
		a.screen.Say("run ignored: %v", err)
	}
	if len(all) == 0 {
		return nil, nil, experiment.ErrNoRuns
	}
	history, unread := trend.History(m.Host, m.StateDir)
	for _, err := range unread {
		a.screen.Say("not read: %v", err)
	}
	return all, history, nil
}
