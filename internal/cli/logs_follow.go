package cli

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"strings"
	"time"

	"fettle.dev/fettle/internal/cliutil/logscli"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/logformat"
	"fettle.dev/fettle/internal/requests/formats"
	"fettle.dev/fettle/internal/requests/logs"
	"fettle.dev/fettle/internal/requests/source"
	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
)

// followEvery is the interval between reads of the logs and updates of the screen.
const followEvery = time.Second

// follow reads logs as they grow until it is interrupted, and then prints the report. On a
// terminal it also shows the report continuously. begun reports whether the logs were empty at
// first, so all of their lines count.
func (a *app) follow(ctx context.Context, h *host.Host, o logsOptions, asked logs.Options, paths []string, set *source.Set, logFormats []*logformat.Format, begun bool) error {
	f, err := logs.Follow(h, paths, set, logFormats, asked, begun)
	if errors.As(err, new(logs.Unfit)) {
		return ui.Exit(ui.Usage, err)
	}
	if err != nil {
		return err
	}
	if left := notFollowed(f.Packed); left != "" {
		a.screen.Say("%s", left)
	}
	live := a.screen.Width > 0 && a.screen.Format == ui.Table
	if live {
		defer a.screen.Unframe()
	} else {
		a.screen.Say("following %s until Ctrl-C", internaltext.Count(len(set.Logs), "log"))
	}
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	began, lost := time.Now(), 0
	for {
		if live {
			width, height := a.screen.Size()
			a.screen.Frame(logs.LiveScreen(f.Report(o.Sort, o.Top), time.Since(began), width, height))
		}
		select {
		case <-ctx.Done():
			// Include lines written until the interruption.
			err := f.Poll(context.WithoutCancel(ctx))
			a.screen.Unframe()
			if f.Lost > lost {
				a.screen.Say("%s", lostPart)
			}
			return errors.Join(err, logscli.Show(a.screen, f.Report(o.Sort, o.Top), o.Shown, nil))
		case <-tick.C:
		}
		if err := f.Poll(ctx); err != nil && ctx.Err() == nil {
			return err
		}
		if f.Lost > lost && !live { // on a terminal it is reported at the end
			lost = f.Lost
			a.screen.Say("%s", lostPart)
		}
	}
}

// firstLine waits until recently rotated logs have a line. Formats are detected from it.
func (a *app) firstLine(ctx context.Context, h *host.Host, o logsOptions, paths []string) (*source.Set, []*logformat.Format, error) {
	a.screen.Say("the logs are still empty; waiting for the first line until Ctrl-C")
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil, nil, ui.Exit(ui.Failed, errors.New("the logs stayed empty"))
		case <-tick.C:
		}
		found, err := source.Find(h, paths)
		if errors.Is(err, fs.ErrNotExist) {
			continue // between the two steps of a rotation
		}
		if err != nil {
			return nil, nil, err
		}
		set := source.NewSet(found)
		some := false
		for i := range found {
			head, err := set.Head(i, logformat.HeadSize)
			if err != nil {
				return nil, nil, err
			}
			some = some || bytes.IndexByte(head, '\n') >= 0
		}
		if !some {
			if err := set.Close(); err != nil {
				return nil, nil, err
			}
			continue
		}
		logFormats, err := o.Find(set)
		if !errors.Is(err, formats.ErrNoLine) {
			return set, logFormats, err
		}
	}
}

// notFollowed describes the compressed logs in the directories, which are not followed.
func notFollowed(packed []source.NotRead) string {
	var names []string
	for _, p := range packed {
		if p.Why != "" {
			p.Path += " (damaged: " + p.Why + ")"
		}
		names = append(names, p.Path)
	}
	if len(names) == 0 {
		return ""
	}
	return "not followed, because compressed: " + strings.Join(names, ", ")
}

const lostPart = "a log was rotated and its old file is gone; its last lines are missing"
