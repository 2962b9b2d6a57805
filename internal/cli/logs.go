package cli

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/cliutil/logscli"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/logformat"
	"fettle.dev/fettle/internal/requests/formats"
	"fettle.dev/fettle/internal/requests/logs"
	"fettle.dev/fettle/internal/requests/source"
	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
)

func logsCommand(a *app) *cobra.Command {
	var o logsOptions
	c := &cobra.Command{
		Use: "logs [FILE...]", Short: "Analyze request logs: who asked for what, what took long",
		Long: `Analyzes request logs. For each group of requests it shows count, total time and its
share, mean, standard deviation, extremes and percentiles (within 0.8 %). Lines that are
not requests are counted and shown.

Formats: Apache, nginx, HAProxy, Envoy, Istio, Traefik, AWS load balancers, Puppet
Server, PuppetDB, Foreman, Rails and JSON lines. They may have the prefix of syslog or a
container runtime, and be compressed (gzip, zstd, bzip2). A directory means all of its
files, - means standard input. The format is detected from the first lines. With
--config the format and the names of the files are read from the server's configuration.
The output names the format.`,
		Annotations: map[string]string{moreFormats: logscli.Formats},
		RunE: func(c *cobra.Command, args []string) error {
			o.Shown = logs.Shown{Groups: c.Flags().Changed("top"), Slowest: c.Flags().Changed("slowest")}
			return a.logs(c.Context(), o, args)
		},
	}
	f := c.Flags()
	o.Grouping(c)
	o.common(c)
	f.StringVar(&o.Save, "save", "", "also write all groups into this file, for fettle logs merge")
	f.BoolVarP(&o.follow, "follow", "f", false, "show new requests as they are logged, through rotation, until Ctrl-C")
	f.StringVar(&o.sinceLast, "since-last", "", "read only what is new since the last call; this file records the position")
	cliutil.Excludes(c, "follow", "following continues from now", "since-last", "save", "until")
	c.AddCommand(logsMergeCommand(a), logsCompareCommand(a), logsExportCommand(a), logsPuppetReportsCommand(a), logsWorkerCommand(a))
	return c
}

func (a *app) logs(ctx context.Context, o logsOptions, paths []string) error {
	asked, err := o.asked(time.Now())
	if err != nil {
		return ui.Exit(ui.Usage, err)
	}
	if err := cmp.Or(o.MaySave(), cliutil.Writable("--since-last", o.sinceLast)); err != nil {
		return err
	}
	h, found, err := a.findLogs(&o, &paths)
	if err != nil {
		return err
	}
	if o.sinceLast != "" {
		if found, err = a.sinceLast(o.sinceLast, found); err != nil {
			return err
		}
	}
	set := source.NewSet(found)
	set.WholeLines = o.sinceLast != ""
	logFormats, err := awaited(ctx, func() ([]*logformat.Format, error) { return o.Find(set) })
	begun := o.follow && errors.Is(err, formats.ErrNoLine)
	if begun {
		set, logFormats, err = a.firstLine(ctx, h, o, paths)
	}
	if err != nil {
		return err
	}
	if asked.By, err = awaited(ctx, func() ([][]string, error) { return groupings(asked, o.Learn != "", set, logFormats) }); err != nil {
		return err
	}
	if o.follow {
		return a.follow(ctx, h, o, asked, paths, set, logFormats, begun)
	}
	if asked.Workers == 0 {
		asked.Workers = runtime.GOMAXPROCS(0)
	}
	if slices.ContainsFunc(logFormats, (*logformat.Format).Joined) {
		asked.Workers = 1 // the lines of a request must be read in order
	}
	asked.OverTime = a.screen.Format == ui.HTML
	stop := a.screen.Percent("reading", set.Progress)
	res, err := awaited(ctx, func() (*logs.Result, error) { return logs.Read(ctx, set, logFormats, asked) })
	stop()
	if ctx.Err() != nil {
		return errInterrupted
	}
	if res == nil {
		return ui.Exit(ui.Usage, err)
	}
	if err == nil && o.sinceLast == "" {
		err = logscli.NoRequest(res)
	}
	err = o.Finish(a.screen, res, err)
	if o.sinceLast != "" {
		err = errors.Join(err, keepPositions(o.sinceLast, set))
	}
	return err
}

// findLogs finds the logs to read, and the host that has them. Without paths, it sets those in the
// server's configuration.
func (a *app) findLogs(o *logsOptions, paths *[]string) (*host.Host, []source.Log, error) {
	h, err := a.logsHost()
	if err != nil {
		return nil, nil, err
	}
	o.Say = a.screen.SayOnce
	if o.Config, err = formats.ReadConfig(h, "--config", o.config); err != nil {
		return nil, nil, err
	}
	if len(*paths) == 0 && o.Config != nil {
		if *paths, err = o.Config.Files(a.screen.SayOnce); err != nil {
			return nil, nil, err
		}
	}
	if len(*paths) == 0 {
		return nil, nil, ui.Hinted(ui.Usage, errors.New("no log given"), "for example: fettle logs /var/log/httpd/access_log\nuse - for standard input, or fettle logs --config /etc/apache2 for the logs in a server's configuration")
	}
	found, err := source.FindIn(h, a.root, *paths)
	if here := (*source.NotInCopyError)(nil); errors.As(err, &here) && here.Exists {
		return nil, nil, ui.Hinted(ui.Usage, err, internaltext.CommandLine([]string{"fettle", "logs", here.Path})+" reads this machine's file")
	}
	return h, found, err
}

var errInterrupted = ui.Exit(ui.Interrupted, errors.New("interrupted"))

// awaited returns the result of f, or an error when ctx ends. It then leaves f running,
// because a read from a pipe cannot be interrupted.
func awaited[T any](ctx context.Context, f func() (T, error)) (T, error) {
	type found struct {
		what T
		err  error
	}
	done := make(chan found, 1)
	go func() {
		what, err := f()
		done <- found{what, err}
	}()
	select {
	case r := <-done:
		return r.what, r.err
	case <-ctx.Done():
		var none T
		return none, errInterrupted
	}
}

// groupings returns the requested dimensions, or the logs' default dimensions. If learn is
// true, it first learns routes.
func groupings(asked logs.Options, learn bool, set *source.Set, logFormats []*logformat.Format) ([][]string, error) {
	if learn {
		if err := logs.Learn(asked.Routes, set, logFormats); err != nil {
			return nil, err
		}
	}
	if len(asked.By) > 0 {
		return asked.By, nil
	}
	return logs.Default(asked.Routes, set, logFormats)
}

// logsHost returns the host of the logs. Without --root, a path may be any file of this machine.
func (a *app) logsHost() (*host.Host, error) {
	if a.root == "" {
		return host.Live(), nil
	}
	return a.host()
}

// logsOptions are the options of the verbs of logs.
type logsOptions struct {
	logscli.Options
	workers   int
	follow    bool
	sinceLast string
	config    []string
}

// common adds the flags for reading logs.
func (o *logsOptions) common(c *cobra.Command) {
	o.Common(c)
	o.configured(c)
	c.Flags().IntVar(&o.workers, "workers", 0, "number of parallel readers (default one for each CPU)")
	cliutil.Between(c.Flags(), "workers", 0, 1024, 2)
}

// configured adds the flag for the format in a server's configuration.
func (o *logsOptions) configured(c *cobra.Command) {
	c.Flags().StringArrayVar(&o.config, "config", nil, "server configuration with the log format: /etc/apache2, /etc/httpd, /etc/nginx, /etc/haproxy, /etc/puppetlabs/puppetserver, or a main file; repeatable")
	cliutil.Exclusive(c, "format", "config")
}

// asked returns the options for reading logs. The default dimensions are not yet included.
func (o logsOptions) asked(now time.Time) (logs.Options, error) {
	out, err := o.Asked(now)
	out.Workers = o.workers
	return out, err
}
