package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"fettle.dev/fettle/internal/requests/logs"
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
	// noDurations says that only what was asked for, and when, is taken of the logs: formats
	// that differ in how long it took are one.
	noDurations bool
	// command is the command line of another verb than logs, and formatFlag its flag for the
	// format where that is another than --format: a refusal repeats them.
	command, formatFlag string
	// say is told of files of a directory that are left out; without it they are refused.
	say func(string)
}

// common are the options of reading logs.
func (o *logsOptions) common(f *pflag.FlagSet) {
	f.StringArrayVar(&o.paths, "path", nil, "paths that are one: /hosts/:id, /static/*; repeatable; the dimension is route")
	f.StringVar(&o.learn, "paths", "", "auto: learn from the beginning of the logs which segments of paths name one of many")
	f.StringVar(&o.where, "where", "", `only these requests: 'status >= 500 and indirector == "catalog"'`)
	f.StringVar(&o.since, "since", "", "only requests from then on: 2026-11-20, 2026-11-20 13:00 (this machine's zone), 2026-11-20 13:00:00Z (UTC, as it is printed), +01:00, or 2h for that long ago")
	f.StringVar(&o.until, "until", "", "only requests before then")
	f.StringVar(&o.sort, "sort", "total", "order of the groups, the largest first: "+strings.Join(logs.Sorts, ", "))
	f.IntVar(&o.top, "top", 10, "how many groups of each grouping are shown; 0 is all")
	o.lines(f)
	f.IntVar(&o.groups, "groups", 1_000_000, "the most groups of a grouping; what comes beyond is added up as one, and said")
	f.IntVar(&o.workers, "workers", 0, "how many read at a time (default: a processor each)")
}

// lines are the options that say how the lines of logs are to be read.
func (o *logsOptions) lines(f *pflag.FlagSet) {
	f.StringVar(&o.format, "format", "", "the logs' format: apache:LOGFORMAT, nginx:LOG_FORMAT, haproxy:LOG-FORMAT, envoy:TEXT_FORMAT, logback:PATTERN as the server has it, or a name (combined, haproxy, puppetserver, foreman, ...)")
	f.StringArrayVar(&o.config, "config", nil, "the server's configuration, which says the logs' formats: /etc/apache2, /etc/httpd, /etc/nginx, /etc/haproxy, /etc/puppetlabs/puppetserver, or a main file; repeatable")
	f.StringVar(&o.unit, "unit", "", "unit of the duration, where the format says another: ns, us, ms or s")
	f.StringVar(&o.duration, "duration", "", "member of JSON lines that is the duration; --unit says its unit")
}

var durationUnits = map[string]int64{"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}

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
		if !slices.ContainsFunc(out.By, func(had []string) bool { return slices.Equal(had, names) }) {
			out.By = append(out.By, names)
		}
	}
	var err error
	if out.Since, err = moment("--since", o.since, now); err != nil {
		return out, err
	}
	if out.Until, err = moment("--until", o.until, now); err != nil {
		return out, err
	}
	if len(o.paths) > 0 || o.learn != "" {
		if out.Routes, err = logs.ParseRoutes(o.paths); err != nil {
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

// moment reads a time: a date, a date and a time of day, either with a zone, as reports
// print it, or in this machine's, or how long ago.
func moment(option, text string, now time.Time) (time.Time, error) {
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
	return time.Time{}, fmt.Errorf("%s %s: want a time as 2026-11-20, 2026-11-20T13:00 or 2026-11-20T13:00:00+01:00, or 2h for that long ago", option, text)
}
