package cli

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/fact/power"
	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

type powerOptions struct {
	interval    time.Duration
	count       int
	follow, all bool
}

func powerCommand(a *app) *cobra.Command {
	var o powerOptions
	c := &cobra.Command{
		Use: "power", Short: "Show frequency, idle states, power and interrupts of CPUs",
		Long: `Shows what the CPUs did in an interval: busy time, frequency, idle states, interrupts,
wake-ups, throttling, temperature and power, for the machine, each package and each CPU.
It also shows the governor, the energy preference (EPP), boost and the idle driver.

It reads kernel files and performance counters, but no model-specific registers (MSRs).
The last line lists the quantities that this machine does not report; they have no column.
Only root can read the power (RAPL).`,
		Annotations: map[string]string{moreFormats: string(cliutil.OpenMetrics)},
		Args:        cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if o.follow && !c.Flags().Changed("count") {
				o.count = math.MaxInt
			}
			return a.power(c.Context(), o)
		},
	}
	f := c.Flags()
	f.DurationVar(&o.interval, "interval", 2*time.Second, "length of an interval, 100ms to 1h")
	f.IntVar(&o.count, "count", 1, "number of intervals; with --follow the default is unlimited")
	f.BoolVarP(&o.follow, "follow", "f", false, "show each interval on the whole terminal until Ctrl-C, then the last one")
	f.BoolVar(&o.all, "all", false, "show all CPUs, not only the 16 busiest")
	cliutil.Reads(f, "interval", "2s", func(word string) error {
		d, err := time.ParseDuration(word)
		if err != nil || d < 100*time.Millisecond || d > time.Hour {
			return errors.New("want a time from 100ms to 1h, such as 2s")
		}
		return nil
	})
	cliutil.Between(f, "count", 1, 1_000_000, 10)
	c.AddCommand(powerRecordCommand(a))
	return c
}

func (a *app) power(ctx context.Context, o powerOptions) error {
	h, err := a.host()
	if err != nil {
		return err
	}
	m := power.Open(h)
	defer m.Close()
	if !h.Live {
		return a.printPower(m.Report(), o.all, nil)
	}
	live := o.follow && a.screen.Width > 0 && a.screen.Format == ui.Table
	total := o.interval * time.Duration(o.count)
	switch {
	case o.follow && !live:
		a.screen.Say("watching until Ctrl-C, which prints the last interval")
	case !o.follow && total > 10*time.Second:
		a.screen.Say("%s of %s: %s", internaltext.Count(o.count, "interval"), unit.FormatSeconds(o.interval.Seconds()), unit.FormatSeconds(total.Seconds()))
	}
	defer a.screen.Unframe()
	began := time.Now()
	var samples []power.Sample
	for i := range o.count {
		if !o.follow {
			a.screen.Status("interval %d of %d", i+1, o.count)
		}
		if m.Wait(ctx, o.interval) != nil {
			break
		}
		if o.follow {
			samples = nil // only the newest one is shown
		}
		samples = append(samples, m.Sample())
		if live {
			width, height := a.screen.Size()
			a.screen.Frame(power.LiveScreen(m.Report(samples...), time.Since(began), width, height))
		}
	}
	a.screen.Status("")
	a.screen.Unframe()
	if len(samples) == 0 {
		return errInterrupted
	}
	return a.printPower(m.Report(samples...), o.all, nil)
}

// printPower prints a report in the selected format. It returns err, or the error of printing.
func (a *app) printPower(r *power.Report, all bool, err error) error {
	switch {
	case a.data():
		return a.result(r, err)
	case a.screen.Format == cliutil.OpenMetrics:
		return errors.Join(power.OpenMetrics(a.screen.Out, r), err)
	}
	power.Print(a.screen, r, all)
	return err
}
