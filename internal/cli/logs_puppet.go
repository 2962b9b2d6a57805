package cli

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/cliutil/logscli"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/logformat"
	"fettle.dev/fettle/internal/requests/formats"
	"fettle.dev/fettle/internal/requests/logs"
	"fettle.dev/fettle/internal/requests/puppetrun"
	"fettle.dev/fettle/internal/requests/source"
	"fettle.dev/fettle/internal/ui"
)

func logsPuppetReportsCommand(a *app) *cobra.Command {
	o := logsOptions{Options: logscli.Options{Sort: logs.Sorts[0], Groups: 1}}
	var access []string
	c := &cobra.Command{
		Use: "puppet-reports DIR", Short: "Show where the time of Puppet agent runs went",
		Long: `Analyzes reports of Puppet 2.7 to 8: how long runs took, by stage, resource type and
resource. It reads the files of the server's "store" report processor,
reportdir/NODE/TIME.yaml (/opt/puppetlabs/server/data/puppetserver/reports, on Debian
/var/lib/puppetserver/reports), or an agent's last_run_report.yaml. With --access-log it
also shows how much of the time that agents wait for catalogs is spent in the server.`,
		Args: cobra.ExactArgs(1), Annotations: map[string]string{moreFormats: string(logscli.CSV)},
		RunE: func(c *cobra.Command, args []string) error {
			o.Shown.Groups = c.Flags().Changed("top")
			return a.logsPuppetReports(c.Context(), o, args[0], access)
		},
	}
	f := c.Flags()
	f.StringArrayVar(&access, "access-log", nil, "access log of the server for the same time, or a directory of logs; repeatable")
	f.StringVar(&o.Since, "since", "", "only runs whose report was stored since this time: 2026-11-20, 2026-11-20T13:00, or 2h for two hours ago")
	f.StringVar(&o.Until, "until", "", "only runs whose report was stored before this time")
	f.IntVar(&o.Top, "top", 10, "number of types, resources and nodes shown; 0 for all")
	f.IntVar(&o.workers, "workers", 0, "number of parallel readers (default one for each CPU)")
	o.Lines(c)
	o.configured(c)
	cliutil.Between(f, "top", 0, 100_000_000, 20)
	cliutil.Between(f, "workers", 0, 1024, 2)
	logscli.Moments(c)
	return c
}

func (a *app) logsPuppetReports(ctx context.Context, o logsOptions, dir string, access []string) error {
	asked, err := o.asked(time.Now())
	if err == nil && len(access) == 0 && (o.Format != "" || o.Unit != "" || o.Duration != "") {
		err = ui.Without(errors.New("--format, --unit and --duration need --access-log"), "--format", "--unit", "--duration")
	}
	if err != nil {
		return ui.Exit(ui.Usage, err)
	}
	h, err := a.logsHost()
	if err != nil {
		return err
	}
	o.Say = a.screen.SayOnce
	if o.Config, err = formats.ReadConfig(h, "--config", o.config); err != nil {
		return err
	}
	if len(access) == 0 && o.Config != nil {
		if access, err = o.Config.Files(a.screen.SayOnce); err != nil {
			return err
		}
	}
	files, err := puppetrun.Find(h, dir)
	if err != nil {
		return err
	}
	workers := o.workers
	if workers == 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	set, logFormats, err := o.find(h, access) // find errors before reading reports, which takes minutes
	if err != nil {
		return err
	}
	var done atomic.Int64
	stop := a.screen.Percent("reading reports", func() (int64, int64) { return done.Load(), int64(len(files)) })
	runs, err := puppetrun.Read(ctx, h, files, puppetrun.Options{Since: asked.Since, Until: asked.Until, Workers: workers, Tell: func(n int) { done.Store(int64(n)) }})
	stop()
	if ctx.Err() != nil {
		return ui.Exit(ui.Interrupted, errors.New("interrupted"))
	}
	if err != nil {
		return err
	}
	var served *puppetrun.Served
	var read []logs.LogRead
	var cut error
	if set != nil {
		stop := a.screen.Percent("reading the server's log", set.Progress)
		served, cut = puppetrun.ReadServed(ctx, set, logFormats, runs.Nodes(), workers)
		if stop(); ctx.Err() != nil {
			return ui.Exit(ui.Interrupted, errors.New("interrupted"))
		}
		if cut != nil {
			cut = fmt.Errorf("--access-log: %w", cut)
		}
		if served == nil {
			return cut
		}
		for i, l := range set.Logs {
			read = append(read, logs.LogOf(l, logFormats[i], set.Cut(i)))
		}
	}
	r := runs.Report(dir, served, read, o.Top)
	if r.Runs == 0 {
		err = fmt.Errorf("%s: no readable report of an agent run", dir)
		if r.Unread.Files == 0 {
			err = nil // no reports in the requested period
		}
	}
	err = errors.Join(err, cut)
	switch {
	case a.data():
		return a.result(r, err)
	case a.screen.Format == logscli.CSV:
		return errors.Join(err, puppetrun.CSV(a.screen.Out, r))
	}
	puppetrun.Print(a.screen, r, o.Shown.Groups)
	return err
}

// find returns the logs at the paths with their formats. It returns nil without paths.
func (o logsOptions) find(h *host.Host, paths []string) (*source.Set, []*logformat.Format, error) {
	if len(paths) == 0 {
		return nil, nil, nil
	}
	found, err := source.Find(h, paths)
	if err != nil {
		return nil, nil, err
	}
	set := source.NewSet(found)
	logFormats, err := o.Find(set)
	return set, logFormats, err
}
