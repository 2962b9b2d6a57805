package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/cliutil/loadcli"
	"fettle.dev/fettle/internal/measure/experiment"
	"fettle.dev/fettle/internal/measure/prove"
	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
)

// proveOptions holds the options of an experiment as parsed from flags.
type proveOptions struct {
	experiment.Options
	metrics  []string
	windowed bool          // --window is the length of a window, not a range of hours
	shortest time.Duration // shortest allowed window
}

// Flags that are valid only for certain kinds of work.
var (
	ofLive    = []string{"window", "settle", "covariate", "pattern", "log-format", "log-config", "prometheus-token"}
	ofCommand = []string{"percentile", "timeout", "warmup-runs"}
	ofMetric  = []string{"metric", "unit", "higher-is-better", "percentile", "timeout", "guard", "stop-above"}
)

// limits adds checks of the flags' values.
func (o *proveOptions) limits(f *pflag.FlagSet) {
	cliutil.Between(f, "percentile", 0.0, 100, 99)
	cliutil.Percent(f, "margin", "2%")
	cliutil.Reads(f, "set", "vm.swappiness=10", readsChange)
	cliutil.Between(f, "alpha", 0.001, 0.2, 0.05)
	cliutil.Between(f, "blocks", prove.FewestBlocks, 100_000, 80)
	cliutil.Between(f, "warmup-runs", 0, 20, 1)
	cliutil.Between(f, "settle", 0, loadcli.MaxRun, time.Minute)
	cliutil.Between(f, "budget", time.Second, loadcli.MaxRun, 30*time.Minute)
	cliutil.Between(f, "timeout", time.Millisecond, loadcli.MaxRun, 10*time.Minute)
	cliutil.Between[uint64](f, "seed", 0, 1<<63, 1)
	cliutil.OneOf(f, "expect", experiment.Expectations()...)
}

// checkWork rejects a command in addition to other work, and a command without -- before it.
func (o *proveOptions) checkWork(c *cobra.Command, args []string) error {
	switch {
	case o.Resume != "":
	case (o.A == "") != (o.B == ""):
		return ui.Hinted(ui.Usage, errors.New("want both --a and --b"), "for example: fettle prove --a 'gzip -k -f data' --b 'zstd -k -f data'")
	case (o.ARef == "") != (o.BRef == ""):
		return ui.Hinted(ui.Usage, errors.New("want both --a-ref and --b-ref"), "for example: fettle prove --a-ref HEAD~1 --b-ref HEAD --build make -- ./program")
	case (o.A != "" || o.B != "") && len(args) > 0:
		return &ui.Error{Code: ui.Usage, Err: errors.New("--a and --b are the commands to measure; leave out the command"), Remedy: &ui.Remedy{NoCommand: true}}
	case o.A != "" || o.B != "":
	case o.Live && len(args) > 0:
		return ui.Without(errors.New("--live measures work that already runs; leave out --live or the command"), "--live")
	case o.Bench != "" && len(args) > 0:
		return ui.Without(errors.New("--bench is the work to measure; leave out --bench or the command"), "--bench")
	case o.Live || o.Bench != "" || len(args) > 0 && c.ArgsLenAtDash() == 0:
	case len(args) == 0:
		return &ui.Error{Code: ui.Usage, Err: errNoWork, Remedy: &ui.Remedy{Options: []string{"--", "make", "-B"}, Example: true}}
	case c.ArgsLenAtDash() < 0:
		return ui.OtherWord(errNoWork, args[0], "--", args[0])
	default:
		return ui.WithoutWord(errNoWork, args[0])
	}
	return nil
}

// check rejects flags that exclude each other. It sets options that depend on the work.
func (o *proveOptions) check(f *pflag.FlagSet, args []string) error {
	if o.Resume != "" {
		return o.checkResume(f, args)
	}
	o.splitMetrics()
	o.WashoutGiven = f.Changed("warmup-runs")
	if err := o.suits(f); err != nil {
		return err
	}
	ways := o.ways()
	switch {
	case len(ways) == 0 && o.UndoCmd == "" && o.B == "" && o.BRef == "":
		return ui.Retry(ui.Usage, errNoChange, "", "--set=vm.swappiness=10")
	case len(ways) > 1:
		return ui.Without(errNoChange, append(ways[1:], halves(ways[0])...)...)
	case o.Build != "" && o.ARef == "":
		return ui.Without(errors.New("--build needs --a-ref and --b-ref"), "--build")
	case (o.A != "" || o.ARef != "") && o.Keep:
		return ui.Without(errors.New("--keep needs a change, and a comparison of two commands or commits changes nothing"), "--keep")
	case (o.A != "" || o.ARef != "") && (o.Live || o.Bench != ""):
		return ui.Without(errors.New("a comparison of two commands or commits measures commands; leave out --live and --bench"), "--live", "--bench")
	case (o.ChangeCmd == "") != (o.UndoCmd == ""):
		return ui.Hinted(ui.Usage, errors.New("want both --change-cmd and --undo-cmd"), "for example: fettle prove --change-cmd 'sysctl -w vm.swappiness=10' --undo-cmd 'sysctl -w vm.swappiness=60' -- make test")
	case o.ChangeCmd != "" && o.Keep:
		return ui.Without(errors.New("--keep does not work with --change-cmd; run that command by hand afterwards"), "--keep")
	}
	return nil
}

// splitMetrics sets the metrics. They may be separated by commas, except for those with a regular
// expression or a query, which may contain commas.
func (o *proveOptions) splitMetrics() {
	var all []string
	for _, text := range o.metrics {
		names := strings.Split(text, ",")
		if slices.ContainsFunc(names, func(name string) bool {
			_, builtin := prove.Builtin(name)
			_, _, benchmark := prove.BenchmarkMetric(name)
			return !builtin && !benchmark
		}) {
			names = []string{text}
		}
		all = append(all, names...)
	}
	o.Metric, o.Also = all[0], all[1:]
}

// halves returns the flags that only another way of specifying a change needs.
func halves(way string) []string {
	return slices.DeleteFunc([]string{"--undo-cmd", "--b", "--b-ref", "--build"}, func(flag string) bool {
		return way == map[string]string{"--undo-cmd": "--change-cmd", "--b": "--a"}[flag]
	})
}

var errNoChange = errors.New("want exactly one of --profile, --set, --plan, --change-cmd, --a, --a-ref")

// ways returns the given flags that specify a change.
func (o *proveOptions) ways() (out []string) {
	for _, way := range []struct {
		name  string
		given bool
	}{{"--profile", len(o.Profiles) > 0}, {"--set", len(o.Set) > 0}, {"--plan", o.Plan != ""}, {"--change-cmd", o.ChangeCmd != ""}, {"--a", o.A != ""}, {"--a-ref", o.ARef != ""}} {
		if way.given {
			out = append(out, way.name)
		}
	}
	return out
}

// checkResume rejects options that cannot change after the first run of an experiment.
func (o *proveOptions) checkResume(f *pflag.FlagSet, args []string) error {
	allowed := []string{"budget", "blocks", "resume", "expect", "keep", "force", "output", "state-dir", "reason"}
	if !o.windowed {
		allowed = append(allowed, "window")
	}
	var more []string
	f.Visit(func(f *pflag.Flag) {
		if !slices.Contains(allowed, f.Name) {
			more = append(more, "--"+f.Name)
		}
	})
	if len(args) > 0 {
		more = append(more, "the command")
	}
	if f.Changed("budget") {
		o.Further.Budget = o.Budget
	}
	if f.Changed("blocks") {
		o.Further.Blocks = o.Blocks
	}
	if len(more) > 0 {
		return ui.Hinted(ui.Usage, fmt.Errorf("--resume continues with the original options; leave out %s", strings.Join(more, ", ")), "run: "+internaltext.CommandLine([]string{"fettle", "prove", "--resume", o.Resume}))
	}
	return nil
}

// suits returns an error for flags that do not apply to the work. It sets the options that
// depend on the work.
func (o *proveOptions) suits(f *pflag.FlagSet) error {
	if f.Changed("fio") && !strings.HasPrefix(o.Bench, "disk:") {
		return ui.Without(errors.New("--fio needs --bench disk:CELL"), "--fio")
	}
	foreign, why := ofLive, "needs --live"
	switch {
	case o.Live && o.Bench != "":
		return ui.Without(errors.New("want --bench or --live, not both"), "--live")
	case o.Bench != "":
		foreign, why = append(ofMetric, ofLive...), "does not work with --bench: each benchmark has one fixed metric"
	case o.Live:
		foreign, why = ofCommand, "works with a command, not with --live"
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
		return ui.Retry(ui.Usage, errors.New("--live needs --metric: pressure:io, logs:FILE:p99 or prometheus:URL:EXPRESSION"), "", "--metric=pressure:io")
	}
	if o.Unit != "" && o.Pattern == "" && !strings.HasPrefix(o.Metric, "prometheus:") {
		return ui.Without(errors.New("--unit works with --pattern or a Prometheus metric only; other metrics have fixed units"), "--unit")
	}
	if o.LogFormat != "" && len(o.LogConfig) > 0 || o.Pattern != "" && (o.LogFormat != "" || len(o.LogConfig) > 0) {
		return ui.Without(errors.New("want only one of --pattern, --log-format and --log-config"), "--log-format", "--log-config")
	}
	if !f.Changed("settle") {
		o.Settle = o.Window / 5
	}
	if o.Window < o.shortest || o.Settle < 0 || o.Settle > 10*o.Window {
		return ui.Without(errors.New("--window and --settle must be at least 1s, and --settle at most ten times --window"), "--settle")
	}
	o.Washout = 0 // --settle replaces it
	if !f.Changed("budget") {
		o.Budget = o.AllBlocks()
	}
	return nil
}
