package size

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"fettle.dev/fettle/internal/guide/sizing"
	"fettle.dev/fettle/internal/guide/sizing/server"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/logformat"
	"fettle.dev/fettle/internal/requests/formats"
	"fettle.dev/fettle/internal/requests/logs"
	"fettle.dev/fettle/internal/requests/source"
	"fettle.dev/fettle/internal/ui"
)

// sizeLog holds the logs for a sizing.
type sizeLog struct {
	found   []source.Log
	options formats.Finder
	cut     *cutLogs // logs that were not read to their ends, or nil
}

// cutLogs is the error for logs that could not be read to their ends. The part read counts,
// and the result mentions it.
type cutLogs struct {
	error
	logs []logs.LogRead
}

func (c *cutLogs) Unwrap() error { return c.error }

// whole returns a *cutLogs, or nil if the logs were read to their ends.
func (l *sizeLog) whole() error {
	if l.cut == nil {
		return nil
	}
	return l.cut
}

// sizeGroups is the maximum number of groups in a sizing's log. The rest is summed as one.
const sizeGroups = 300_000

// logTaken is the hint for a log that does not exist or is empty.
const logTaken = "--log takes a request log, or a directory of request logs"

// logsHost returns the host of the logs. Without --root, a path may be any file of this machine.
func (p *Program) logsHost() (*host.Host, error) {
	if *p.Root == "" {
		return host.Live(), nil
	}
	return p.host()
}

// openSizeLog finds the logs of a sizing.
func (p *Program) openSizeLog(h *host.Host, l sizing.Log) (*sizeLog, error) {
	var found []source.Log
	var errs []error
	for _, path := range l.Paths {
		from := h
		if !filepath.IsAbs(path) { // a relative path is on this machine
			from = host.Live()
		}
		some, err := source.FindIn(from, *p.Root, []string{path})
		if here := (*source.NotInCopyError)(nil); errors.As(err, &here) && here.Exists {
			p.Screen.SayOnce(fmt.Sprintf("--log %s: not found in %s (--root); reading this machine's file instead", path, *p.Root))
			some, err = source.Find(host.Live(), []string{path})
		}
		found, errs = append(found, some...), append(errs, err)
	}
	err := errors.Join(errs...)
	if here := (*source.NotInCopyError)(nil); err != nil && !errors.As(err, &here) {
		err = ui.Hinted(ui.Usage, err, logTaken)
	}
	if err != nil {
		return nil, err
	}
	return &sizeLog{found: found, options: formats.Finder{Format: l.Format, Unit: l.Unit, Command: p.Call, Say: p.Screen.SayOnce}}, nil
}

// read reads the logs. by returns the dimensions for the logs' formats. A truncated log is not
// an error here; whole reports it.
func (l *sizeLog) read(ctx context.Context, by func([]*logformat.Format) [][]string, where string, percentiles bool) (*logs.Result, []*logformat.Format, error) {
	set := source.NewSet(l.found)
	logFormats, err := l.options.Find(set)
	if errors.Is(err, formats.ErrNoLine) {
		err = ui.Hinted(ui.Usage, err, logTaken)
	}
	if err != nil {
		return nil, nil, err
	}
	for i, f := range logFormats {
		if f.Guessed != "" && l.options.Say != nil {
			l.options.Say(fmt.Sprintf("%s: fettle assumes %s; if this is wrong, use --format", set.Logs[i].Path, f.Guessed))
		}
		if f.UnitUnknown != "" {
			return nil, nil, ui.Hinted(ui.Usage, fmt.Errorf("--log: %s: unknown time unit of the field %q", set.Logs[i].Path, f.UnitUnknown),
				"use one of these, depending on the program that wrote the log:\n"+strings.Join([]string{l.options.Command + " --unit ms", l.options.Command + " --unit s", l.options.Command + " --unit us"}, "\n"))
		}
	}
	asked := logs.Options{By: by(logFormats), Percentiles: percentiles, Groups: sizeGroups, Where: where, Workers: runtime.GOMAXPROCS(0)}
	if slices.ContainsFunc(logFormats, (*logformat.Format).Joined) {
		asked.Workers = 1
	}
	res, err := logs.Read(ctx, set, logFormats, asked)
	if ctx.Err() != nil {
		return nil, nil, ui.Exit(ui.Interrupted, errors.New("interrupted"))
	}
	if res == nil {
		return nil, nil, ui.Exit(ui.Usage, err)
	}
	if err != nil {
		l.cut = &cutLogs{err, res.Logs}
	}
	return res, logFormats, nil
}

// briefest is the minimum period of a log, in seconds: times may be in whole seconds.
const briefest = 1.0

// busiest returns the mean number of requests in progress in the busiest minute, or in the
// whole log if that is shorter. seconds is the sum of all durations.
func busiest(r *logs.Result, seconds, span float64) (most float64) {
	if span < time.Minute.Seconds() {
		return seconds / max(briefest, span)
	}
	_, all := r.Moments(time.Minute)
	for m := range all {
		most = max(most, m.Busy)
	}
	return most
}

// parts splits a group's key into its dimensions.
func parts(t *logs.Table, i int) []string {
	var out []string
	for _, p := range bytes.Split(t.Text(i), []byte{logs.Separator}) {
		out = append(out, string(p))
	}
	return out
}

// frontendLog returns the data for sizing a front end from its log. The error may be a
// *cutLogs, with data.
func (p *Program) frontendLog(ctx context.Context, l sizing.Log) (*server.Traffic, error) {
	if len(l.Paths) == 0 {
		return nil, nil
	}
	h, err := p.logsHost()
	if err != nil {
		return nil, err
	}
	log, err := p.openSizeLog(h, l)
	if err != nil {
		return nil, err
	}
	res, logFormats, err := log.read(ctx, func(logFormats []*logformat.Format) [][]string {
		by := [][]string{}
		for _, names := range [][]string{{"connections"}, {"termination"}, {logformat.FieldClient, "client_port"}} { // HAProxy's
			if !slices.ContainsFunc(names, func(name string) bool {
				return slices.ContainsFunc(logFormats, func(f *logformat.Format) bool { return f.Field(name) < 0 })
			}) {
				by = append(by, names)
			}
		}
		return by
	}, "", true)
	if err != nil {
		return nil, err
	}
	rep := res.Report("total", 1)
	out := &server.Traffic{
		Logs: strings.Join(l.Paths, ", "), SpanSeconds: rep.SpanS, Count: rep.Requests, Most: rep.Busy.Most, StepSeconds: rep.Busy.StepS,
		Timed: !slices.ContainsFunc(logFormats, func(f *logformat.Format) bool { return f.Field(logformat.FieldDuration) < 0 }),
		Slow:  rep.All.QuantilesS["p99.9"], Timeouts: map[string]uint64{},
	}
	if rep.Busy.MostAt != nil {
		out.MostAt = *rep.Busy.MostAt
	}
	if rep.All.MaxS != nil {
		out.Longest = *rep.All.MaxS
	}
	if m := rep.Busy.Minute; m != nil {
		out.Rate, out.RateSeconds = float64(m.Requests)/rep.Busy.MinuteS, rep.Busy.MinuteS
		if rep.SpanS < rep.Busy.MinuteS {
			out.RateSeconds = max(briefest, rep.SpanS)
			out.Rate = float64(rep.Requests) / out.RateSeconds
		}
	}
	for t, by := range res.By {
		table := res.Tables[t]
		if by[0] == logformat.FieldClient && table.Len() > 0 {
			// Only connections with a group count.
			out.PerConnection = float64(rep.Requests-table.Other.Count) / float64(table.Len())
			continue
		}
		for i := range table.Len() {
			key, s := parts(table, i)[0], table.At(i)
			switch by[0] {
			case "connections":
				if n, err := strconv.ParseFloat(key, 64); err == nil {
					out.Connections = max(out.Connections, n)
				}
			case "termination":
				if how := timeoutOf(key); how != "" {
					out.Timeouts[how] += s.Count
				}
			}
		}
	}
	return out, log.whole()
}

// timeoutOf returns the timeout that ended a session, or "" (HAProxy's configuration manual,
// session state at disconnection).
func timeoutOf(termination string) string {
	switch {
	case strings.HasPrefix(termination, "sQ"):
		return "queue"
	case strings.HasPrefix(termination, "s"):
		return "server"
	case strings.HasPrefix(termination, "c"):
		return "client"
	}
	return ""
}
