package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/logformat"
	"fettle.dev/fettle/internal/requests/logs"
	"fettle.dev/fettle/internal/requests/source"
	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
)

func logsCommand(a *app) *cobra.Command {
	var o logsOptions
	c := &cobra.Command{
		Use: "logs [FILE...]", Short: "Find out of request logs who asked for what, and where the time went",
		Long: `Reads logs of Apache, nginx, HAProxy, Envoy, Istio, Traefik, AWS load balancers, Puppet
Server, PuppetDB, Foreman, Rails and JSON lines, also behind what syslog or a container
runtime writes, plain or compressed (gzip, zstd, bzip2); of a directory all files; - is the standard input. The
format is found out from the first lines, or read from the server's own configuration
(--config, which also says which files there are), and said. For each group of requests: how
many, how long in sum and as a share of all, mean, standard deviation, extremes and
percentiles (within 0.8 %). Lines that are of no request are counted and shown.`,
		Annotations: map[string]string{moreFormats: logsFormats},
		RunE: func(c *cobra.Command, args []string) error {
			if err := noneEmpty(c); err != nil {
				return err
			}
			return a.logs(c.Context(), o, args)
		},
	}
	f := c.Flags()
	f.StringArrayVar(&o.by, "by", nil, "group by a dimension, or by several with commas between; repeatable (default: what the log is about)")
	f.IntVar(&o.slowest, "slowest", 5, "how many of the slowest requests are shown")
	cliutil.Reads(f, "by", "status", byDimension)
	cliutil.Between(f, "slowest", 0, 10_000, 5)
	f.BoolVar(&o.noPercentiles, "no-percentiles", false, "leave percentiles out, which is faster and takes less memory")
	o.common(f)
	f.StringVar(&o.save, "save", "", "write what the logs say into a file too, for fettle logs merge: all groups, exactly")
	f.BoolVarP(&o.follow, "follow", "f", false, "read what is written from now on, through rotation, until Ctrl-C")
	f.StringVar(&o.sinceLast, "since-last", "", "only what was written since the last time: FILE remembers how far the logs were read")
	c.AddCommand(logsMergeCommand(a), logsCompareCommand(a), logsPuppetReportsCommand(a))
	return c
}

func (a *app) logs(ctx context.Context, o logsOptions, paths []string) error {
	asked, err := o.asked(time.Now())
	if err != nil {
		return ui.Exit(ui.Usage, err)
	}
	h, err := a.logsHost()
	if err != nil {
		return err
	}
	o.say = a.sayOnce
	if o.configured, err = newLogsConfig(h, "--config", o.config); err != nil {
		return err
	}
	if len(paths) == 0 && o.configured != nil {
		if paths, err = o.configured.files(a.sayOnce); err != nil {
			return err
		}
	}
	if len(paths) == 0 {
		return ui.Hinted(ui.Usage, errors.New("no log is named"), "- is the standard input; fettle logs --config /etc/apache2 reads the logs that a server's configuration names\nfor example: fettle logs /var/log/httpd/access_log")
	}
	found, err := a.findLogs(h, paths)
	if here := (*notInCopyError)(nil); errors.As(err, &here) && here.exists {
		return ui.Hinted(ui.Usage, err, internaltext.CommandLine([]string{"fettle", "logs", here.path})+" reads that one")
	}
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
	formats, err := awaited(ctx, func() ([]*logformat.Format, error) { return o.formats(set) })
	begun := o.follow && errors.Is(err, errNoLine)
	if begun {
		set, formats, err = a.firstLine(ctx, h, o, paths)
	}
	if err != nil {
		return err
	}
	if asked.By, err = awaited(ctx, func() ([][]string, error) { return groupings(asked, o.learn != "", set, formats) }); err != nil {
		return err
	}
	if o.follow {
		return a.follow(ctx, h, o, asked, paths, set, formats, begun)
	}
	if asked.Workers == 0 {
		asked.Workers = runtime.GOMAXPROCS(0)
	}
	if slices.ContainsFunc(formats, (*logformat.Format).Joined) {
		asked.Workers = 1 // a request's lines have to be read in their order
	}
	res, err := awaited(ctx, func() (*logs.Result, error) { return logs.Read(ctx, set, formats, asked) })
	if ctx.Err() != nil {
		return errInterrupted
	}
	if res == nil {
		return ui.Exit(ui.Usage, err)
	}
	if err == nil && o.sinceLast == "" && res.Nothing() {
		err = fmt.Errorf("none of %d lines could be read", res.Unread.Lines)
	}
	if how := o.another(res); how != "" {
		a.sayOnce(how)
	}
	// Of a log that was cut off that much is known, and the part says so: the next time
	// goes on from there.
	err = errors.Join(err, o.keep(res))
	rep := res.Report(o.sort, o.top)
	if a.screen.Format == csvFormat || a.screen.Format == openMetricsFormat { // which have no place for it
		for _, l := range logs.NoUnit(rep.Logs) {
			a.sayOnce(l)
		}
	}
	err = a.sayLogs(rep, err)
	if o.sinceLast != "" {
		err = errors.Join(err, keepPositions(o.sinceLast, set))
	}
	return err
}

var errInterrupted = ui.Exit(ui.Interrupted, errors.New("interrupted"))

// awaited is what f finds out, unless it is interrupted: nothing wakes one who waits for
// the other end of a pipe, and that one is left waiting.
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

// groupings are those asked for, or what logs are about. learn looks for routes first.
func groupings(asked logs.Options, learn bool, set *source.Set, formats []*logformat.Format) ([][]string, error) {
	if learn {
		if err := logs.Learn(asked.Routes, set, formats); err != nil {
			return nil, err
		}
	}
	switch {
	case len(asked.By) > 0:
		return asked.By, nil
	case asked.Routes != nil:
		return [][]string{{"method", "route"}, {"requestor"}, {"status"}}, nil
	}
	return logs.Usual(set, formats)
}

// logsHost is where logs lie: what a user names are files as ever, and with --root those
// of the machine that it stands for.
func (a *app) logsHost() (*host.Host, error) {
	if a.root == "" {
		return host.Live(), nil
	}
	return a.host()
}

// sayLogs prints what logs say; err is why it may not be all.
func (a *app) sayLogs(r *logs.Report, err error) error { return inForm(a, r, reportForms, err) }

// logsForms write a document of logs in each of the forms that it has beside data.
type logsForms[T any] struct {
	table                  func(*ui.Screen, T)
	csv, openMetrics, html func(io.Writer, T) error
}

// reportForms are those of what logs say.
var reportForms = logsForms[*logs.Report]{logs.Print, logs.CSV, logs.OpenMetrics, logs.HTML}

// inForm prints a document of logs in the form that is asked for; err is why it may not be all.
func inForm[T any](a *app, doc T, forms logsForms[T], err error) error {
	if a.data() {
		return a.result(doc, err)
	}
	switch a.screen.Format {
	case csvFormat:
		return errors.Join(err, forms.csv(a.screen.Out, doc))
	case openMetricsFormat:
		return errors.Join(err, forms.openMetrics(a.screen.Out, doc))
	case htmlFormat:
		return errors.Join(err, forms.html(a.screen.Out, doc))
	}
	forms.table(a.screen, doc)
	return err
}

// csvFormat is the format of spreadsheets.
const csvFormat ui.Format = "csv"

// logsFormats are the further formats of logs.
const logsFormats = string(csvFormat + " " + openMetricsFormat + " " + htmlFormat)
