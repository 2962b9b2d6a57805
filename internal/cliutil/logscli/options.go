// Package logscli is the common part of the verbs logs of both programs: flags, the file of --save,
// and the output of a report.
package logscli

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

// Options are the options of logs that both programs have.
type Options struct {
	formats.Finder
	By, Paths           []string
	Learn               string
	Where, Since, Until string
	Sort                string
	Top, Slowest        int
	Groups              int
	NoPercentiles       bool
	Save                string
	Shown               logs.Shown
}

// Grouping adds the flags for the content of a report.
func (o *Options) Grouping(c *cobra.Command) {
	f := c.Flags()
	f.StringArrayVar(&o.By, "by", nil, "group by a dimension, or by several separated by commas; repeatable (default depends on the log)")
	f.IntVar(&o.Slowest, "slowest", 5, "number of slowest requests shown")
	ByDimension(c)
	cliutil.Between(f, "slowest", 0, 10_000, 5)
	f.BoolVar(&o.NoPercentiles, "no-percentiles", false, "omit percentiles: faster, and less memory")
}

// ByDimension adds the check of --by.
func ByDimension(c *cobra.Command) { cliutil.Reads(c.Flags(), "by", "status", byDimension) }

// Common adds the flags for reading logs.
func (o *Options) Common(c *cobra.Command) {
	f := c.Flags()
	f.StringArrayVar(&o.Paths, "path", nil, "pattern of paths to count as one route: /hosts/:id, /static/*; repeatable; see --by route")
	f.StringVar(&o.Learn, "paths", "", "auto: detect path segments that are IDs, using the first lines of the logs")
	o.Selects(c)
	o.Order(c)
	o.Lines(c)
	cliutil.Reads(f, "path", "/hosts/:id", func(word string) error { _, err := logs.ParseRoutes([]string{word}); return err })
	cliutil.OneOf(f, "paths", "auto")
	f.IntVar(&o.Groups, "groups", 1_000_000, "maximum groups kept; the rest is summed as \"other\"")
	cliutil.Between(f, "groups", 1, 100_000_000, 1_000_000)
}

// Order adds the flags for the order and number of groups.
func (o *Options) Order(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&o.Sort, "sort", "total", "order of the groups, the largest first: "+strings.Join(logs.Sorts, ", "))
	f.IntVar(&o.Top, "top", 10, "number of groups shown; 0 for all")
	cliutil.OneOf(f, "sort", logs.Sorts...)
	cliutil.Between(f, "top", 0, 100_000_000, 20)
}

// Selects adds the flags for selecting requests.
func (o *Options) Selects(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&o.Where, "where", "", `only requests for which this is true, such as 'status >= 500 and indirector == "catalog"'`)
	f.StringVar(&o.Since, "since", "", "only requests since this time: 2026-11-20, 2026-11-20 13:00 (local time), 2026-11-20 13:00:00Z (UTC), or 2h for two hours ago")
	f.StringVar(&o.Until, "until", "", "only requests before this time, as for --since")
	cliutil.Reads(f, "where", "status >= 400", logs.CheckWhere)
	Moments(c)
}

// Moments adds the checks of --since and --until.
func Moments(c *cobra.Command) {
	cliutil.Reads(c.Flags(), "since", "2h", readsMoment)
	cliutil.Reads(c.Flags(), "until", "1h", readsMoment)
}

// Lines adds the flags for parsing lines.
func (o *Options) Lines(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&o.Format, "format", "", "log format of the server's configuration: apache:LOGFORMAT, nginx:LOG_FORMAT, haproxy:LOG-FORMAT, envoy:TEXT_FORMAT, logback:PATTERN; or a name: combined, haproxy, puppetserver, foreman, ... (default detected)")
	f.StringVar(&o.Unit, "unit", "", "unit of the duration: ns, us, ms or s (default from the format)")
	f.StringVar(&o.Duration, "duration", "", "for JSON lines: name of the member that contains the duration; needs --unit")
	cliutil.OneOf(f, "unit", "ms", "s", "us", "ns")
}

// byDimension rejects a list of dimensions with an empty name.
func byDimension(word string) error {
	if slices.Contains(strings.Split(strings.ReplaceAll(word, " ", ""), ","), "") {
		return errors.New("empty dimension between commas")
	}
	return nil
}

func readsMoment(word string) error {
	_, err := Moment(word, time.Now())
	return err
}

// Asked returns the options for reading logs. The default dimensions are not yet included.
func (o Options) Asked(now time.Time) (logs.Options, error) {
	out := logs.Options{Percentiles: !o.NoPercentiles, Groups: o.Groups, Slowest: o.Slowest, Where: o.Where}
	for _, by := range o.By {
		names := strings.Split(by, ",")
		for i := range names {
			names[i] = strings.TrimSpace(names[i])
		}
		if !slices.ContainsFunc(out.By, func(had []string) bool { return slices.Equal(had, names) }) {
			out.By = append(out.By, names)
		}
	}
	var err error
	if out.Since, err = Moment(o.Since, now); err != nil {
		return out, err
	}
	if out.Until, err = Moment(o.Until, now); err != nil {
		return out, err
	}
	if len(o.Paths) > 0 || o.Learn != "" {
		if out.Routes, err = logs.ParseRoutes(o.Paths); err != nil {
			return out, err
		}
	}
	switch {
	case !out.Since.IsZero() && !out.Until.IsZero() && !out.Since.Before(out.Until):
		return out, ui.Without(fmt.Errorf("--since %s is not before --until %s", o.Since, o.Until), "--until")
	case o.NoPercentiles && strings.HasPrefix(o.Sort, "p"):
		return out, ui.Without(fmt.Errorf("--sort %s needs percentiles; leave out --no-percentiles", o.Sort), "--no-percentiles")
	case o.Duration != "" && o.Unit == "":
		return out, &ui.Error{Code: ui.Usage, Err: fmt.Errorf("--duration %s: add its unit with --unit", o.Duration), Remedy: &ui.Remedy{Options: []string{"--unit=ms"}, Example: true}}
	}
	return out, nil
}

// Moment parses a time. It is a date, a date and a time of day (with a zone as in reports,
// otherwise in this machine's zone), or a duration before now. The result is in this machine's zone.
func Moment(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d > 0 {
		return now.Add(-d), nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02 15:04:05Z07:00", "2006-01-02 15:04Z07:00", "2006-01-02T15:04Z07:00", "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02 15:04", "2006-01-02"} {
		if t, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return t.Local(), nil
		}
	}
	return time.Time{}, errors.New("want a time such as 2026-11-20, 2026-11-20T13:00 or 2026-11-20T13:00:00+01:00, or an age such as 2h")
}
