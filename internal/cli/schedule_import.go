package cli

import (
	"context"
	"fmt"
	"io"
	"slices"

	"fettle.dev/fettle/internal/daemon/schedule"
	"fettle.dev/fettle/internal/host"
	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
)

// maxCrontab limits the size of a crontab, in bytes. cron(8) itself reads at most 10,000 lines.
const maxCrontab = 16 << 20

func (a *app) scheduleImport(ctx context.Context, file, crontab string) error {
	f, err := host.OpenRegular(crontab)
	if err != nil {
		return ui.Exit(ui.Usage, err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxCrontab))
	if err != nil {
		return err
	}
	entries, problems := schedule.FromCron(crontab, string(text))
	for _, p := range problems {
		a.screen.Say("%s", p)
	}
	if len(entries) == 0 {
		return ui.Exit(ui.Failed, fmt.Errorf("%s: no line calls tuned-adm profile", crontab))
	}
	lines, last := len(problems), 0
	for _, e := range entries {
		if e.Line != last { // a line may yield several entries
			lines, last = lines+1, e.Line
		}
	}
	entries = slices.DeleteFunc(entries, func(e schedule.Entry) bool {
		err := a.knownProfiles(ctx, e.Profiles)
		if n := len(problems); err != nil && (n == 0 || problems[n-1].Line != e.Line) {
			problems = append(problems, schedule.Problem{File: crontab, Line: e.Line, Text: err.Error()})
			a.screen.Say("%s", problems[n])
		}
		return err != nil
	})
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(entries) == 0 {
		return ui.Exit(ui.Failed, internaltext.Errorf("%d of %s of %s could not be imported: nothing is changed", len(problems), internaltext.Count(lines, "line"), crontab))
	}
	var added []schedule.Entry
	err = a.editSchedule(file, func(_ *host.Host, text string, have []schedule.Entry) (string, error) {
		seen := map[string]bool{}
		for _, e := range have {
			seen[e.String()] = true
		}
		for _, e := range entries {
			if seen[e.String()] {
				continue // imported earlier
			}
			seen[e.String()] = true
			added = append(added, e)
			text = schedule.Add(text, e)
		}
		return text, nil
	})
	if err != nil {
		return err
	}
	a.screen.Say("remove these lines from %s, or cron keeps switching profiles too", crontab)
	var some error
	if len(problems) > 0 {
		some = ui.Exit(ui.Partial, internaltext.Errorf("%d of %s of %s could not be imported", len(problems), internaltext.Count(lines, "line"), crontab))
	}
	return a.announce(file, added, some)
}
