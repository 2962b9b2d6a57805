package experiment

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"fettle.dev/fettle/internal/fact/power"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/logformat"
	"fettle.dev/fettle/internal/measure/prove"
	provelive "fettle.dev/fettle/internal/measure/prove/live"
	"fettle.dev/fettle/internal/requests/formats"
	"fettle.dev/fettle/internal/ui"
)

// work is the work that an experiment measures.
type work interface {
	prove.Workload
	// Check returns an error if the work cannot be measured. It is called before anything is changed.
	Check(context.Context) error
}

// makeWork creates the work and its design.
func (p *Experiment) makeWork(ctx context.Context, mark string) error {
	switch {
	case p.o.Live:
		return p.windows()
	case p.o.Bench != "":
		return p.benchRuns(ctx, mark)
	}
	return p.commandRuns(mark)
}

// commands are two commands that are compared, or one command in two directories.
type commands struct{ a, b *prove.Command }

func (c commands) Check(ctx context.Context) error {
	if err := c.a.Check(ctx); err != nil {
		return err
	}
	return c.b.Check(ctx)
}

func (c commands) Measure(ctx context.Context, s prove.Step) (prove.Measurement, error) {
	if s.Arm == prove.With {
		return c.b.Measure(ctx, s)
	}
	return c.a.Measure(ctx, s)
}

// unchanged is the change of an experiment that compares two commands: the machine stays as it is.
type unchanged struct{}

func (unchanged) Apply(context.Context) error            { return nil }
func (unchanged) Undo(context.Context) error             { return nil }
func (unchanged) Holds(context.Context, prove.Arm) error { return nil }

// commandRuns creates the work for a command. Each sample runs it once.
func (p *Experiment) commandRuns(mark string) (err error) {
	o := &p.o
	if strings.HasSuffix(o.Unit, "/s") {
		o.More = true // a rate
	}
	var printed []prove.Printed
	p.design, err = o.design(func(text string, decides bool) (m prove.Metric, err error) {
		if m, reads, is := prove.BenchmarkMetric(text); is {
			if decides && (o.Unit != "" || o.More) {
				return m, fmt.Errorf("--unit and --higher-is-better do not apply to %s, whose output has the unit", text)
			}
			if reads.Percentile = -1; decides {
				reads.Percentile = o.Percentile
			}
			printed = append(printed, reads)
			return m, nil
		}
		name, pattern, prints := strings.Cut(text, "=")
		m, builtin := prove.Builtin(name)
		switch {
		case !prints && !builtin:
			return m, errors.New("want time, cpu-time, max-memory, instructions, energy, NAME=REGEXP for a number that the command prints, or gobench or hyperfine for a benchmark's output")
		case !prints && decides && (o.Unit != "" || o.More || o.Percentile >= 0):
			return m, fmt.Errorf("--unit, --higher-is-better and --percentile apply only to a metric that the command prints; %s has a fixed unit", text)
		case !prints:
			return m, nil
		case builtin || name == "":
			return m, errors.New("want NAME=REGEXP; the name must not be time, cpu-time, max-memory, instructions or energy")
		}
		m = prove.Metric{Name: name}
		percentile := -1.0
		if decides {
			m.Unit, m.More, percentile = o.Unit, o.More, o.Percentile
		}
		if !(percentile <= 100) {
			return m, errors.New("want a --percentile from 0 to 100")
		}
		re, err := compile(pattern)
		printed = append(printed, prove.Printed{Name: name, Number: re, Percentile: percentile})
		return m, err
	})
	if err != nil {
		return err
	}
	var late error
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout(o.Budget)
		late = fmt.Errorf("one run takes longer than %v; an interval takes five runs or more, so use a larger --budget or shorter work", o.Timeout)
	}
	if p.design.Measures("instructions") {
		c, err := host.CountInstructions()
		if err != nil {
			return ui.Exit(ui.Failed, err)
		}
		c.Close()
	}
	var energy prove.Energy
	if p.design.Measures("energy") {
		if energy = power.OpenEnergy(p.Host); energy.Why() != "" {
			return fmt.Errorf("cannot measure energy on this machine: %s", energy.Why())
		}
	}
	command := func(args []string, dir string) *prove.Command {
		return &prove.Command{Args: args, Metrics: printed, Timeout: o.Timeout, Late: late, Dir: dir, Clock: p.Host.Clock, Mark: mark, Memory: p.design.Measures("max-memory"), Energy: energy, Instructions: p.design.Measures("instructions")}
	}
	switch {
	case o.ARef != "": // checkOut sets the directories
		p.work = commands{command(p.body.Work, ""), command(p.body.Work, "")}
	case o.A != "":
		p.work = commands{command([]string{"/bin/sh", "-c", o.A}, o.Dir), command([]string{"/bin/sh", "-c", o.B}, o.Dir)}
	default:
		p.work = command(p.body.Work, o.Dir)
	}
	return nil
}

// windows creates the work for running work. Each sample is a window of time.
func (p *Experiment) windows() (err error) {
	o := &p.o
	set := provelive.Set{Host: p.Host, Unit: o.Unit, WindowS: int(o.Window.Seconds())}
	if !o.Anyway {
		set.Recent = max(4*o.Window, 10*time.Minute)
	}
	if o.Pattern != "" {
		if set.Pattern, err = compile(o.Pattern); err != nil {
			return fmt.Errorf("--pattern %s: %w", o.Pattern, err)
		}
	}
	if set.Format, err = o.logFormat(p.Host); err != nil {
		return err
	}
	if o.TokenFile != "" {
		token, err := os.ReadFile(o.TokenFile)
		if err != nil {
			return fmt.Errorf("--prometheus-token: %w", err)
		}
		set.Token = string(token)
	}
	var deciding prove.Metric
	p.design, err = o.design(func(text string, decides bool) (m prove.Metric, err error) {
		if text == provelive.Rate {
			return set.Covariate(text, deciding)
		}
		m, err = set.Metric(text)
		if decides {
			if strings.HasPrefix(text, "prometheus:") {
				m.Unit, m.More = o.Unit, o.More || strings.HasSuffix(o.Unit, "/s")
			}
			deciding = m
		}
		return m, err
	})
	if err != nil {
		return err
	}
	p.design.Live = &prove.Live{WindowS: o.Window.Seconds(), SettleS: o.Settle.Seconds()}
	p.work = &provelive.Window{Length: o.Window, Settle: o.Settle, Sources: set.Sources(), Seed: o.Seed, Exceeded: p.design.Exceeded, Clock: p.Host.Clock,
		Tell: func(why error) { p.Screen.Say("waiting: %v", why) }}
	return nil
}

// logFormat returns a function that returns the formats of logs. It is nil if formats are to be
// detected.
func (o *Options) logFormat(h *host.Host) (func(path string, text []byte) (*logformat.Format, error), error) {
	switch {
	case o.LogFormat != "":
		if _, err := logformat.Parse(o.LogFormat); err != nil {
			return nil, fmt.Errorf("--log-format: %w", err)
		}
		return func(string, []byte) (*logformat.Format, error) { return logformat.Parse(o.LogFormat) }, nil
	case len(o.LogConfig) > 0:
		c, err := formats.ReadConfig(h, "--log-config", o.LogConfig)
		if err != nil {
			return nil, err
		}
		return c.Format, nil
	}
	return nil, nil
}
