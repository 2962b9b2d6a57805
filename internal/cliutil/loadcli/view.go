package loadcli

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

// liveSeconds is the number of latest seconds shown of a load in progress.
const liveSeconds = 12

// View shows the progress of a load: live on a terminal, otherwise a line every 10 s.
type View struct {
	load.Live
	screen *ui.Screen
	live   bool
	said   time.Duration
	mu     sync.Mutex
	// later holds messages to print after the terminal is restored.
	later []string
}

// NewView returns the view of a load that begins. The caller ends it.
func NewView(s *ui.Screen, title string) *View {
	return &View{screen: s, Live: load.Live{Title: title}, live: s.Width > 0 && s.Format == ui.Table}
}

// Second shows the figures of the last second.
func (v *View) Second(at, all time.Duration, now fleet.Now) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if at < v.At { // the next stage of a search
		v.said, v.Seconds = 0, nil
	}
	v.At, v.All = at, all
	v.Seconds, v.Trouble = append(v.Seconds, now), "" // reported by all clients
	v.Seconds = v.Seconds[max(0, len(v.Seconds)-liveSeconds):]
	if v.live {
		v.paint()
		return
	}
	if at-v.said >= 10*time.Second { // a line every ten seconds
		v.said = at
		v.screen.Progress("%s", fmt.Sprintf("%s: %s answers a second, p50 %s, p99 %s, errors %s %%", v.Far(), unit.Digits(now.AnswerRate), unit.FormatSecondsMeasured(now.P50S), unit.FormatSecondsMeasured(now.P99S), unit.Digits(100*now.ErrorShare)))
	}
}

// Stage shows the result of one stage of a search.
func (v *View) Stage(s load.KneeStage) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.Stages = append(v.Stages, s)
	if v.live {
		v.paint()
		return
	}
	v.screen.Say("%s", s)
}

// Quiet reports a silent client. Seconds are shown only once all clients have reported.
func (v *View) Quiet(client string, since time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	text := fmt.Sprintf("no report from client %s since %s; the load stops after 30 s without a report. Check that machine and the network", client, since.Format(time.TimeOnly))
	if !v.live {
		v.screen.Say("%s", text)
		return
	}
	v.Trouble, v.later = text, append(v.later, text)
	v.paint()
}

func (v *View) paint() {
	var text bytes.Buffer
	load.PrintLive(&ui.Screen{Out: &text, Err: &text, Format: v.screen.Format, Color: v.screen.Color, Width: v.screen.Width}, &v.Live)
	v.screen.Frame(text.String())
}

// End removes the live display.
func (v *View) End() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.screen.Unframe()
	for _, text := range v.later {
		v.screen.Say("%s", text)
	}
	v.later = nil
}
