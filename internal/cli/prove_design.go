package cli

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/measure/prove"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

// expected are the words of --expect.
var expected = map[string]prove.Word{
	"faster": prove.Better, "better": prove.Better, "slower": prove.Worse, "worse": prove.Worse, "no-effect": prove.NoEffect,
}

// Options that one kind of work has, and the other has not.
var (
	ofLive    = []string{"window", "settle", "covariate", "pattern", "log-format", "log-config", "prometheus-token"}
	ofCommand = []string{"percentile", "timeout", "washout"}
	ofMetric  = []string{"metric", "unit", "more", "percentile", "timeout", "guard", "stop-above"}
)

// shortest is the length of the shortest window; only the tests set another one, where
// the work is a line a millisecond.
var shortest = time.Second

// limits says what the options take.
func (o *proveOptions) limits(f *pflag.FlagSet) {
	cliutil.Between(f, "percentile", 0.0, 100, 99)
	cliutil.Percent(f, "margin", "2%")
	cliutil.Reads(f, "set", "vm.swappiness=10", readsChange)
	cliutil.Between(f, "alpha", 0.001, 0.2, 0.05)
	cliutil.Between(f, "quads", prove.FewestQuads, 100_000, 40)
	cliutil.Between(f, "placebo", 3, 1000, 3)
	cliutil.Between(f, "washout", 0, 20, 1)
	cliutil.Between(f, "settle", 0, maxRun, time.Minute)
	cliutil.Between(f, "budget", time.Second, maxRun, 30*time.Minute)
	cliutil.Between(f, "timeout", time.Millisecond, maxRun, 10*time.Minute)
	cliutil.Between[uint64](f, "seed", 0, 1<<63, 1)
	cliutil.OneOf(f, "expect", slices.Sorted(maps.Keys(expected))...)
}

// suits refuses options that mean nothing for the work that was chosen, and sets what
// depends on it.
func (o *proveOptions) suits(f *pflag.FlagSet) error {
	if f.Changed("fio") && !strings.HasPrefix(o.Bench, "disk:") {
		return ui.Without(errors.New("--fio is for --bench disk:CELL"), "--fio")
	}
	foreign, why := ofLive, "is for --live"
	switch {
	case o.Live && o.Bench != "":
		return ui.Without(errors.New("want one of --bench and --live"), "--live")
	case o.Bench != "":
		foreign, why = append(ofMetric, ofLive...), "means nothing with --bench, whose cells have one metric"
	case o.Live:
		foreign, why = ofCommand, "is for a command, and means nothing with --live"
	}
	for _, name := range foreign {
		if f.Changed(name) && (name != "window" || o.windowed) {
			return ui.Without(fmt.Errorf("--%s %s", name, why), "--"+name)
		}
	}
	if !o.Live {
		return nil
	}
	if !f.Changed("metric") {
		return ui.Retry(ui.Usage, errors.New("--live: want a --metric: pressure:io, logs:FILE:p99 or prometheus:URL:EXPRESSION"), "", "--metric=pressure:io")
	}
	if o.Unit != "" && o.Pattern == "" && !strings.HasPrefix(o.Metric, "prometheus:") {
		return ui.Without(errors.New("--unit is for a --pattern or for Prometheus: the other metrics have their own"), "--unit")
	}
	if o.LogFormat != "" && len(o.LogConfig) > 0 || o.Pattern != "" && (o.LogFormat != "" || len(o.LogConfig) > 0) {
		return ui.Without(errors.New("--pattern, --log-format and --log-config each say how a log is read: give one"), "--log-format", "--log-config")
	}
	if !f.Changed("settle") {
		o.Settle = o.Window / 5
	}
	if o.Window < shortest || o.Settle < 0 || o.Settle > 10*o.Window {
		return ui.Without(errors.New("--window and --settle: want at least a second, and a --settle of at most ten windows"), "--settle")
	}
	o.Washout = 0 // --settle is in its place
	if !f.Changed("budget") {
		o.Budget = o.atMost()
	}
	return nil
}

// quad is about how long a quad of windows takes: in half of the cases it begins with
// a switch.
func (o *proveOptions) quad() time.Duration { return 4*o.Window + 5*o.Settle/2 }

// atMost is how long all quads of windows take, with a tenth to spare.
func (o *proveOptions) atMost() time.Duration {
	return time.Duration(o.Placebo+o.Quads) * o.quad() * 11 / 10
}

// design makes the design that the options ask for; read reads a metric, and is told
// which one decides.
func (o *proveOptions) design(read func(text string, decides bool) (prove.Metric, error)) (d prove.Design, err error) {
	metric, err := read(o.Metric, true)
	if err != nil {
		return d, ui.Without(fmt.Errorf("--metric %s: %w", o.Metric, err), "--metric")
	}
	d = prove.Defaults(metric)
	d.Alpha, d.Most, d.Placebo, d.Washout, d.Seed, d.BudgetS = o.Alpha, o.Quads, o.Placebo, o.Washout, o.Seed, o.Budget.Seconds()
	d.Least = min(d.Least, max(d.Most, 2))
	if d.Margin, err = unit.ParsePercent(o.Margin); err != nil {
		return d, ui.Instead(ui.Usage, fmt.Errorf("--margin %s: %w", o.Margin, err), "", "--margin=2%")
	}
	for _, g := range o.Guards {
		metric, limit, err := limited(g, read, unit.ParsePercent)
		if err != nil {
			return d, ui.Instead(ui.Usage, fmt.Errorf("--guard %s: %w", g, err), "", "--guard=max-memory:10%")
		}
		d.Guards = append(d.Guards, prove.Guard{Metric: metric, Most: limit})
	}
	for _, c := range o.Caps {
		metric, most, err := limited(c, read, func(text string) (float64, error) { return strconv.ParseFloat(text, 64) })
		if err != nil {
			return d, ui.Instead(ui.Usage, fmt.Errorf("--stop-above %s: %w", c, err), "", "--stop-above=max-memory:2000000000")
		}
		d.Caps = append(d.Caps, prove.Cap{Metric: metric, Most: most})
	}
	if o.Covariate != "" {
		metric, err := read(o.Covariate, false)
		if err != nil {
			return d, ui.Without(fmt.Errorf("--covariate %s: %w", o.Covariate, err), "--covariate")
		}
		d.Covariate = &metric
	}
	return d, d.Check()
}

// limited reads METRIC:LIMIT.
func limited(text string, read func(string, bool) (prove.Metric, error), limit func(string) (float64, error)) (m prove.Metric, most float64, err error) {
	at := strings.LastIndexByte(text, ':')
	if at < 0 {
		return m, 0, errors.New("want METRIC:LIMIT")
	}
	if m, err = read(text[:at], false); err != nil {
		return m, 0, err
	}
	most, err = limit(text[at+1:])
	return m, most, err
}

// ways is how many ways to change the machine were named.
func (o *proveOptions) ways() (n int) {
	for _, given := range []bool{len(o.Profiles) > 0, len(o.Set) > 0, o.Plan != "", o.ChangeCmd != ""} {
		if given {
			n++
		}
	}
	return n
}

// oneChange is the error of none or several ways to change the machine.
func (o *proveOptions) oneChange() error {
	err := errors.New("want one of: --profile, --set, --plan, --change-cmd")
	if o.ways() == 0 {
		return ui.Retry(ui.Usage, err, "", "--set=vm.swappiness=10")
	}
	var more []string
	for _, way := range []struct {
		name  string
		given bool
	}{{"--profile", len(o.Profiles) > 0}, {"--set", len(o.Set) > 0}, {"--plan", o.Plan != ""}, {"--change-cmd", o.ChangeCmd != ""}, {"--undo-cmd", o.UndoCmd != ""}} {
		if way.given {
			more = append(more, way.name)
		}
	}
	return ui.Without(err, more[1:]...)
}
