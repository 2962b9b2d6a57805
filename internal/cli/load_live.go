package cli

import (
	"bytes"
	"fmt"
	"time"

	"fettle.dev/fettle/internal/load"
	"fettle.dev/fettle/internal/load/fleet"
	"fettle.dev/fettle/internal/report"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

// liveSeconds are shown of a load that goes on.
const liveSeconds = 12

// loadView tells how a load goes: on a terminal all the time, elsewhere in a line now and
// then.
type loadView struct {
	*app
	report.LiveLoad
	live bool
	said time.Duration
}

func (a *app) loadView(title string) *loadView {
	return &loadView{app: a, LiveLoad: report.LiveLoad{Title: title}, live: a.screen.Width > 0 && a.screen.Format == ui.Table}
}

// second tells how it goes.
func (v *loadView) second(at, all time.Duration, now fleet.Now) {
	if at < v.At { // the next stage of a search
		v.said, v.Seconds = 0, nil
	}
	v.At, v.All = at, all
	v.Seconds = append(v.Seconds, now)
	v.Seconds = v.Seconds[max(0, len(v.Seconds)-liveSeconds):]
	if v.live {
		v.paint()
		return
	}
	if at-v.said >= 10*time.Second { // a line in a log now and then
		v.said = at
		v.screen.Progress("%s", fmt.Sprintf("%s: %.4g answers a second, p50 %s, p99 %s, errors %.3g %%", v.Far(), now.AnswerRate, unit.FormatSecondsMeasured(now.P50S), unit.FormatSecondsMeasured(now.P99S), 100*now.ErrorShare))
	}
}

// stage tells what came of a stage of a search.
func (v *loadView) stage(s load.KneeStage) {
	v.Stages = append(v.Stages, s)
	if v.live {
		v.paint()
		return
	}
	v.screen.Say("%s", s)
}

func (v *loadView) paint() {
	var text bytes.Buffer
	s := *v.screen
	s.Out, s.Err = &text, &text
	report.LoadLive(&s, &v.LiveLoad)
	v.screen.Frame(text.String())
}

// end takes it away.
func (v *loadView) end() {
	if v.live && len(v.Seconds) > 0 {
		v.screen.Frame("")
	}
}
