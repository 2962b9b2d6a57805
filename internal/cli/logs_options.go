package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/requests/formats"
	"fettle.dev/fettle/internal/requests/logs"
	"fettle.dev/fettle/internal/ui"
)

type logsOptions struct {
	formats.Finder
	by, paths             []string
	learn                 string
	where, since, until   string
	sort                  string
	top, slowest, groups  int
	workers               int
	noPercentiles, follow bool
	save, sinceLast       string
	config                []string
	shown                 logs.Shown
}

// common adds the flags for reading logs.
func (o *logsOptions) common(c *cobra.Command) {
	f := c.Flags()
	f.StringArrayVar(&o.paths, "path", nil, "pattern of paths to count as one route: /hosts/:id, /static/*; repeatable; see --by route")
	f.StringVar(&o.learn, "paths", "", "auto: detect path segments that are IDs, using the first lines of the logs")
	o.selects(c)
	f.StringVar(&o.sort, "sort", "total", "order of the groups, the largest first: "+strings.Join(logs.Sorts, ", "))
	f.IntVar(&o.top, "top", 10, "number of groups shown; 0 for all")
	o.lines(c)
	cliutil.Reads(f, "path", "/hosts/:id", func(word string) error { _, err := logs.ParseRoutes([]string{word}); return err })
	cliutil.OneOf(f, "paths", "auto")
	cliutil.OneOf(f, "sort", logs.Sorts...)
	cliutil.Between(f, "top", 0, 100_000_000, 20)
	f.IntVar(&o.groups, "groups", 1_000_000, "maximum groups kept; the rest is summed as \"other\"")
	f.IntVar(&o.workers, "workers", 0, "number of parallel readers (default one for each CPU)")
	cliutil.Between(f, "groups", 1, 100_000_000, 1_000_000)
	cliutil.Between(f, "workers", 0, 1024, 2)
}

// selects adds the flags for selecting requests.
func (o *logsOptions) selects(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&o.where, "where", "", `only requests for which this is true, such as 'status >= 500 and indirector == "catalog"'`)
	f.StringVar(&o.since, "since", "", "only requests since this time: 2026-11-20, 2026-11-20 13:00 (local time), 2026-11-20 13:00:00Z (UTC), or 2h for two hours ago")
	f.StringVar(&o.until, "until", "", "only requests before this time, as for --since")
	cliutil.Reads(f, "since", "2h", readsMoment)
	cliutil.Reads(f, "until", "1h", readsMoment)
}

// lines adds the flags for parsing lines.
func (o *logsOptions) lines(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&o.Format, "format", "", "log format of the server's configuration: apache:LOGFORMAT, nginx:LOG_FORMAT, haproxy:LOG-FORMAT, envoy:TEXT_FORMAT, logback:PATTERN; or a name: combined, haproxy, puppetserver, foreman, ... (default detected)")
	f.StringArrayVar(&o.config, "config", nil, "server configuration with the log format: /etc/apache2, /etc/httpd, /etc/nginx, /etc/haproxy, /etc/puppetlabs/puppetserver, or a main file; repeatable")
	f.StringVar(&o.Unit, "unit", "", "unit of the duration: ns, us, ms or s (default from the format)")
	f.StringVar(&o.Duration, "duration", "", "for JSON lines: name of the member that contains the duration; needs --unit")
	cliutil.OneOf(f, "unit", "ms", "s", "us", "ns")
	cliutil.Exclusive(c, "format", "config")
}

// byDimension rejects a list of dimensions with an empty name.
func byDimension(word string) error {
	if slices.Contains(strings.Split(strings.ReplaceAll(word, " ", ""), ","), "") {
		return errors.New("empty dimension between commas")
	}
	return nil
}

func readsMoment(word string) error {
	_, err := moment(word, time.Now())
	return err
}

// asked returns the options for reading logs. The default dimensions are not yet included.
func (o logsOptions) asked(now time.Time) (logs.Options, error) {
	out := logs.Options{Percentiles: !o.noPercentiles, Groups: o.groups, Workers: o.workers, Slowest: o.slowest, Where: o.where}
	for _, by := range o.by {
		names := strings.Split(by, ",")
		for i := range names {
			names[i] = strings.TrimSpace(names[i])
		}
		if !slices.ContainsFunc(out.By, func(had []string) bool { return slices.Equal(had, names) }) {
			out.By = append(out.By, names)
		}
	}
	var err error
	if out.Since, err = moment(o.since, now); err != nil {
		return out, err
	}
	if out.Until, err = moment(o.until, now); err != nil {
		return out, err
	}
	if len(o.paths) > 0 || o.learn != "" {
		if out.Routes, err = logs.ParseRoutes(o.paths); err != nil {
			return out, err
		}
	}
	switch {
	case !out.Since.IsZero() && !out.Until.IsZero() && !out.Since.Before(out.Until):
		return out, ui.Without(fmt.Errorf("--since %s is not before --until %s", o.since, o.until), "--until")
	case o.noPercentiles && strings.HasPrefix(o.sort, "p"):
		return out, ui.Without(fmt.Errorf("--sort %s needs percentiles; leave out --no-percentiles", o.sort), "--no-percentiles")
	case o.Duration != "" && o.Unit == "":
		return out, &ui.Error{Code: ui.Usage, Err: fmt.Errorf("--duration %s: add its unit with --unit", o.Duration), Remedy: &ui.Remedy{Options: []string{"--unit=ms"}, Example: true}}
	}
	return out, nil
}

// moment parses a time. It is a date, a date and a time of day (with a zone as in reports,
// otherwise in this machine's zone), or a duration before now.
func moment(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d > 0 {
		return now.Add(-d), nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02 15:04:05Z07:00", "2006-01-02 15:04Z07:00", "2006-01-02T15:04Z07:00", "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02 15:04", "2006-01-02"} {
		if t, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return t, nil
		}
	}
	return time.Time{}, errors.New("want a time such as 2026-11-20, 2026-11-20T13:00 or 2026-11-20T13:00:00+01:00, or an age such as 2h")
}
