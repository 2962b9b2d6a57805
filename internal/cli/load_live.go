package cli

import (
	"bytes"
	"fmt"
	"sync"
	"time"

	"fettle.dev/fettle/internal/requests/load"
	"fettle.dev/fettle/internal/requests/load/fleet"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

// liveSeconds are shown of a load that goes on.
const liveSeconds = 12

// loadView tells how a load goes: on a terminal all the time, elsewhere in a line now and
// then.
type loadView struct {
	*app
	load.Live
	live bool
	said time.Duration
	mu   sync.Mutex
	// later is what is said once the terminal is as it was.
	later []string
}

func (a *app) loadView(title string) *loadView {
	return &loadView{app: a, Live: load.Live{Title: title}, live: a.screen.Width > 0 && a.screen.Format == ui.Table}
}

// second tells how it goes.
func (v *loadView) second(at, all time.Duration, now fleet.Now) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if at < v.At { // the next stage of a search
		v.said, v.Seconds = 0, nil
	}
	v.At, v.All = at, all
	v.Seconds, v.Trouble = append(v.Seconds, now), "" // all have said something
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
	v.mu.Lock()
	defer v.mu.Unlock()
	v.Stages = append(v.Stages, s)
	if v.live {
		v.paint()
		return
	}
	v.screen.Say("%s", s)
}

// quiet tells of a client that says nothing: nothing else moves meanwhile.
func (v *loadView) quiet(client string, since time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	text := fmt.Sprintf("client %s has said nothing since %s: is its machine up, and the way there? It is given up half a minute after that, and the load ends", client, since.Format(time.TimeOnly))
	if !v.live {
		v.screen.Say("%s", text)
		return
	}
	v.Trouble, v.later = text, append(v.later, text)
	v.paint()
}

func (v *loadView) paint() {
	var text bytes.Buffer
	s := *v.screen
	s.Out, s.Err = &text, &text
	load.PrintLive(&s, &v.Live)
	v.screen.Frame(text.String())
}

// end takes it away.
func (v *loadView) end() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.screen.Unframe()
	for _, text := range v.later {
		v.screen.Say("%s", text)
	}
	v.later = nil
}
