package cli

import (
	"bytes"
	"context"
	"time"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/logs"
	"fettle.dev/fettle/internal/logs/format"
	"fettle.dev/fettle/internal/logs/source"
	"fettle.dev/fettle/internal/report"
	"fettle.dev/fettle/internal/ui"
)

// followEvery is how often a log is looked at, and the screen painted.
const followEvery = time.Second

// follow reads logs as they grow until it is interrupted, which is how it ends: then it
// prints what has come. On a terminal it shows that all the time.
func (a *app) follow(ctx context.Context, h *host.Host, o logsOptions, asked logs.Options, paths []string, set *source.Set, formats []*format.Format) error {
	f, err := logs.Follow(h, paths, set, formats, asked)
	if err != nil {
		return err
	}
	live := a.screen.Width > 0 && a.screen.Format == ui.Table
	if !live {
		a.screen.Say("following %d logs until Ctrl-C", len(set.Logs))
	}
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	lost := 0
	for {
		select {
		case <-ctx.Done():
			// What was written up to now counts too.
			if err := f.Poll(context.WithoutCancel(ctx)); err != nil {
				return err
			}
			if live {
				a.screen.Frame("")
			}
			return a.sayLogs(f.Report(o.sort, o.top), nil)
		case <-tick.C:
		}
		if err := f.Poll(ctx); err != nil && ctx.Err() == nil {
			return err
		}
		if f.Lost > lost {
			lost = f.Lost
			a.screen.Say("a log was rotated, and its old part is gone: what came last in it is missing")
		}
		if live {
			a.paint(f.Report(o.sort, o.top))
		}
	}
}

// paint shows a report instead of the one before.
func (a *app) paint(r *logs.Report) {
	var text bytes.Buffer
	s := *a.screen
	s.Out, s.Err = &text, &text
	r.Hours = nil // only what changes
	report.Logs(&s, r)
	a.screen.Frame(text.String())
}
