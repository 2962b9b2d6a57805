package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/logs"
	"fettle.dev/fettle/internal/logs/format"
	"fettle.dev/fettle/internal/logs/request"
	"fettle.dev/fettle/internal/logs/source"
	"fettle.dev/fettle/internal/report"
	"fettle.dev/fettle/internal/ui"
)

type logsOptions struct {
	by, paths                    []string
	learn                        string
	where, since, until          string
	sort, format, unit, duration string
	top, slowest, groups         int
	workers                      int
	noPercentiles, follow        bool
	save, sinceLast              string
	config                       []string
	configured                   *logsConfig // what config says
}

func logsCommand(a *app) *cobra.Command {
	var o logsOptions
	c := &cobra.Command{
		Use: "logs [FILE...]", Short: "Find out of request logs who asked for what, and where the time went",
		Long: `Reads logs of Apache, nginx, HAProxy, Puppet Server, Foreman and JSON lines, plain or
compressed (gzip, zstd, bzip2); of a directory all files; - is the standard input. The
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
	f.BoolVar(&o.noPercentiles, "no-percentiles", false, "leave percentiles out: a third faster, and less memory")
	o.common(f)
	f.StringVar(&o.save, "save", "", "write what the logs say into a file too, for fettle logs merge: all groups, exactly")
	f.BoolVarP(&o.follow, "follow", "f", false, "read what is written from now on, through rotation, until Ctrl-C")
	f.StringVar(&o.sinceLast, "since-last", "", "only what was written since the last time: FILE remembers how far the logs were read")
	c.AddCommand(logsMergeCommand(a), logsCompareCommand(a))
	return c
}

// common are the options of reading logs.
func (o *logsOptions) common(f *pflag.FlagSet) {
	f.StringArrayVar(&o.paths, "path", nil, "paths that are one: /hosts/:id, /static/*; repeatable; the dimension is route")
	f.StringVar(&o.learn, "paths", "", "auto: learn from the beginning of the logs which segments of paths name one of many")
	f.StringVar(&o.where, "where", "", `only these requests: 'status >= 500 and indirector == "catalog"'`)
	f.StringVar(&o.since, "since", "", "only requests from then on: 2026-11-20, 2026-11-20T13:00, with a zone, or 2h for that long ago")
	f.StringVar(&o.until, "until", "", "only requests before then")
	f.StringVar(&o.sort, "sort", "total", "order of the groups, the largest first: "+strings.Join(logs.Sorts, ", "))
	f.IntVar(&o.top, "top", 10, "how many groups of each grouping are shown; 0 is all")
	f.StringVar(&o.format, "format", "", "the logs' format: apache:LOGFORMAT, nginx:LOG_FORMAT, haproxy:LOG-FORMAT, logback:PATTERN as the server has it, or a name (combined, puppetserver, foreman, ...)")
	f.StringArrayVar(&o.config, "config", nil, "the server's configuration, which says the logs' formats: /etc/apache2, /etc/httpd, /etc/nginx, /etc/haproxy, /etc/puppetlabs/puppetserver, or a main file; repeatable")
	f.StringVar(&o.unit, "unit", "", "unit of the duration, where the format says another: ns, us, ms or s")
	f.StringVar(&o.duration, "duration", "", "member of JSON lines that is the duration; --unit says its unit")
	f.IntVar(&o.groups, "groups", 1_000_000, "the most groups of a grouping; what comes beyond is added up as one, and said")
	f.IntVar(&o.workers, "workers", 0, "how many read at a time (default: a processor each)")
}

// headSize is how much of the beginning of a log tells its format, in bytes.
const headSize = 64 << 10

var durationUnits = map[string]int64{"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}

func (a *app) logs(ctx context.Context, o logsOptions, paths []string) error {
	asked, err := o.asked(time.Now())
	if err != nil {
		return ui.Exit(ui.Usage, err)
	}
	h, err := a.logsHost()
	if err != nil {
		return err
	}
	if o.configured, err = newLogsConfig(h, o.config); err != nil {
		return err
	}
	if len(paths) == 0 && o.configured != nil {
		if paths, err = o.configured.files(a.sayOnce); err != nil {
			return err
		}
	}
	if len(paths) == 0 {
		return ui.Hinted(ui.Usage, errors.New("no log is named"), "fettle logs FILE..., - is the standard input; or fettle logs --config /etc/apache2")
	}
	found, err := source.Find(h, paths)
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
	formats, err := o.formats(set)
	if err != nil {
		return err
	}
	if o.learn != "" {
		if err := logs.Learn(asked.Routes, set, formats); err != nil {
			return err
		}
	}
	if len(asked.By) == 0 && asked.Routes != nil {
		asked.By = [][]string{{"method", "route"}, {"requestor"}, {"status"}}
	}
	if len(asked.By) == 0 {
		if asked.By, err = logs.Usual(set, formats); err != nil {
			return err
		}
	}
	if o.follow {
		return a.follow(ctx, h, o, asked, paths, set, formats)
	}
	if asked.Workers == 0 {
		asked.Workers = runtime.GOMAXPROCS(0)
	}
	if slices.ContainsFunc(formats, (*format.Format).Joined) {
		asked.Workers = 1 // a request's lines have to be read in their order
	}
	res, err := logs.Read(ctx, set, formats, asked)
	if ctx.Err() != nil {
		return ui.Exit(ui.Interrupted, errors.New("interrupted"))
	}
	if res == nil {
		return ui.Exit(ui.Usage, err)
	}
	if err == nil { // half of a log is no part
		err = o.keep(res)
	}
	err = a.sayLogs(res.Report(o.sort, o.top), err)
	if err == nil && o.sinceLast != "" {
		err = keepPositions(o.sinceLast, set)
	}
	return err
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
func (a *app) sayLogs(r *logs.Report, err error) error {
	if a.data() {
		return a.result(r, err)
	}
	switch a.screen.Format {
	case csvFormat:
		return errors.Join(err, report.LogsCSV(a.screen.Out, r))
	case openMetricsFormat:
		return errors.Join(err, report.LogsOpenMetrics(a.screen.Out, r))
	case htmlFormat:
		return errors.Join(err, report.LogsHTML(a.screen.Out, r))
	}
	report.Logs(a.screen, r)
	return err
}

// csvFormat is the format of spreadsheets.
const csvFormat ui.Format = "csv"

// logsFormats are the further formats of logs.
const logsFormats = string(csvFormat + " " + openMetricsFormat + " " + htmlFormat)

func logsMergeCommand(a *app) *cobra.Command {
	var o logsOptions
	c := &cobra.Command{
		Use: "merge PART...", Short: "Put together what logs on several machines say: the parts that --save wrote",
		Long: `The result is exactly what reading all the logs at once would give. The parts have to be
grouped alike.`,
		Args: cobra.MinimumNArgs(1), Annotations: map[string]string{moreFormats: logsFormats},
		RunE: func(_ *cobra.Command, args []string) error { return a.logsMerge(o, args) },
	}
	f := c.Flags()
	f.StringVar(&o.sort, "sort", "total", "order of the groups, the largest first: "+strings.Join(logs.Sorts, ", "))
	f.IntVar(&o.top, "top", 10, "how many groups of each grouping are shown; 0 is all")
	f.StringVar(&o.save, "save", "", "write the whole into a file too, to be merged further")
	return c
}

func (a *app) logsMerge(o logsOptions, paths []string) error {
	o.groups = 1
	if _, err := o.asked(time.Now()); err != nil {
		return ui.Exit(ui.Usage, err)
	}
	var all *logs.Result
	for _, p := range paths {
		part, err := loadPart(p)
		if err == nil && all != nil {
			err = all.Merge(part)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
		if all == nil {
			all = part
		}
	}
	return a.sayLogs(all.Report(o.sort, o.top), o.keep(all))
}

// keep writes the part that --save asks for.
func (o logsOptions) keep(r *logs.Result) error {
	if o.save == "" {
		return nil
	}
	var text bytes.Buffer
	if err := r.Save(&text); err != nil {
		return err
	}
	if err := replace(o.save, text.Bytes(), logs.PartBegins, "part of fettle logs"); err != nil {
		return fmt.Errorf("--save: %w", err)
	}
	return nil
}

func loadPart(path string) (*logs.Result, error) {
	file, err := host.OpenRegular(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return logs.Load(file)
}

// asked is what the options ask for, but for the dimensions of a log that names none.
func (o logsOptions) asked(now time.Time) (logs.Options, error) {
	out := logs.Options{Percentiles: !o.noPercentiles, Groups: o.groups, Workers: o.workers, Slowest: o.slowest, Where: o.where}
	for _, by := range o.by {
		names := strings.Split(by, ",")
		for i := range names {
			if names[i] = strings.TrimSpace(names[i]); names[i] == "" {
				return out, fmt.Errorf("--by %s: a dimension between the commas has no name", by)
			}
		}
		out.By = append(out.By, names)
	}
	var err error
	if out.Since, err = moment("--since", o.since, now); err != nil {
		return out, err
	}
	if out.Until, err = moment("--until", o.until, now); err != nil {
		return out, err
	}
	if len(o.paths) > 0 || o.learn != "" {
		if out.Routes, err = request.ParseRoutes(o.paths); err != nil {
			return out, err
		}
	}
	switch {
	case o.learn != "" && o.learn != "auto":
		return out, fmt.Errorf("--paths %s: want auto; --path names one", o.learn)
	case !out.Since.IsZero() && !out.Until.IsZero() && !out.Since.Before(out.Until):
		return out, fmt.Errorf("--since %s is not before --until %s", o.since, o.until)
	case !slices.Contains(logs.Sorts, o.sort):
		return out, fmt.Errorf("--sort %s: want one of %s", o.sort, strings.Join(logs.Sorts, ", "))
	case o.noPercentiles && strings.HasPrefix(o.sort, "p"):
		return out, fmt.Errorf("--sort %s wants percentiles, and --no-percentiles none", o.sort)
	case o.top < 0 || o.slowest < 0 || o.slowest > 10_000:
		return out, errors.New("--top: want 0 or more; --slowest: want 0 to 10000")
	case o.groups < 1 || o.groups > 100_000_000:
		return out, errors.New("--groups: want 1 to 100000000")
	case o.workers < 0 || o.workers > 1024:
		return out, errors.New("--workers: want 0 to 1024")
	case o.unit != "" && durationUnits[o.unit] == 0:
		return out, fmt.Errorf("--unit %s: want ns, us, ms or s", o.unit)
	case o.follow && (o.sinceLast != "" || o.save != "" || o.until != ""):
		return out, errors.New("--follow goes on from now: it does not go with --since-last, --save or --until")
	case o.format != "" && len(o.config) > 0:
		return out, errors.New("--format and --config both say the format: give one")
	case o.duration != "" && o.unit == "":
		return out, fmt.Errorf("--duration %s: --unit says in what", o.duration)
	}
	return out, nil
}

// moment reads a time: a date, a date and a time of day, either with a zone or in this
// machine's, or how long ago.
func moment(option, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d > 0 {
		return now.Add(-d), nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02 15:04", "2006-01-02"} {
		if t, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%s %s: want a time as 2026-11-20, 2026-11-20T13:00 or 2026-11-20T13:00:00+01:00, or 2h for that long ago", option, text)
}

// formats finds each log's format: what was said, or what its first lines are.
func (o logsOptions) formats(set *source.Set) ([]*format.Format, error) {
	var out []*format.Format
	jsonUnits := map[string]int64{}
	if o.duration != "" {
		jsonUnits[o.duration] = durationUnits[o.unit]
	}
	for i, l := range set.Logs {
		var f *format.Format
		var err error
		if o.format != "" {
			if f, err = format.Parse(o.format); err != nil {
				return nil, ui.Exit(ui.Usage, fmt.Errorf("--format: %w", err))
			}
		} else {
			head, readErr := set.Head(i, headSize)
			if readErr != nil {
				return nil, readErr
			}
			if len(bytes.TrimSpace(head)) == 0 {
				out = append(out, nil) // just begun: its format is that of the others
				continue
			}
			if o.configured != nil {
				f, err = o.configured.format(l.Path, head)
				if err != nil {
					return nil, err
				}
			} else if f, err = format.Detect(head, jsonUnits); err != nil {
				return nil, ui.Hinted(ui.Failed, fmt.Errorf("%s: %w", l.Path, err), "--format says how its lines are written, as the server's configuration has it")
			}
		}
		if d := f.Field(format.FieldDuration); o.unit != "" {
			if d < 0 {
				return nil, ui.Exit(ui.Usage, fmt.Errorf("--unit %s: %s: %s has no duration", o.unit, l.Path, f.Name))
			}
			f.Fields[d].Unit = durationUnits[o.unit]
		}
		out = append(out, f)
	}
	known := slices.IndexFunc(out, func(f *format.Format) bool { return f != nil })
	if known < 0 {
		return nil, ui.Exit(ui.Failed, fmt.Errorf("%s: has no line", set.Logs[0].Path))
	}
	for i := range out {
		if out[i] == nil {
			out[i] = out[known]
		}
	}
	return out, nil
}
