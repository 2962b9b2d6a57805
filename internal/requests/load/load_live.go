package load

import (
	"fmt"
	"strings"
	"time"

	"fettle.dev/fettle/internal/requests/load/fleet"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

// Live is the state of a load in progress, for display.
type Live struct {
	Title   string
	At, All time.Duration
	// Seconds holds the last seconds, newest last. Stages holds the finished stages of a search.
	Seconds []fleet.Now
	Stages  []KneeStage
	// Trouble is the current problem, or empty.
	Trouble string
}

// bars is the maximum length of a bar, figures the width of the columns next to it.
const bars, figures = 30, 48

// Far formats how far the load has progressed.
func (l *Live) Far() string {
	text := fmt.Sprintf("%.0f of %.0f s", min(l.At, l.All).Seconds(), l.All.Seconds())
	switch {
	case l.At >= l.All+time.Second/2:
		text += ", waiting for the last answers"
	case l.All-l.At >= time.Second/2:
		text += fmt.Sprintf(", %.0f s left", (l.All - l.At).Seconds())
	}
	return text
}

// PrintLive prints a load in progress: the last seconds, and the stages of a search.
func PrintLive(s *ui.Screen, l *Live) {
	fmt.Fprintf(s.Out, "%s\n%s\n%s\n", ui.Printable(l.Title), l.Far(), ui.Printable(l.Trouble))
	longest := 0.0
	for _, n := range l.Seconds {
		longest = max(longest, n.P99S)
	}
	room := bars
	if s.Width > 0 {
		room = max(0, min(bars, s.Width-figures))
	}
	g := ui.Grid{Columns: ui.Columns("s", "answers/s", "errors", "p50", "p99", "")}
	for i := len(l.Seconds) - 1; i >= 0; i-- {
		n, bar := l.Seconds[i], 0
		if longest > 0 {
			bar = int(float64(room)*n.P99S/longest + 0.5)
		}
		g.Rows = append(g.Rows, []string{fmt.Sprintf("%.0f", n.At.Seconds()), unit.Digits(n.AnswerRate), unit.Digits(100*n.ErrorShare) + " %", unit.FormatSecondsMeasured(n.P50S), unit.FormatSecondsMeasured(n.P99S), strings.Repeat("#", bar)})
	}
	g.Write(s)
	if len(l.Stages) > 0 {
		fmt.Fprintln(s.Out)
		loadKnee(s, &Knee{Stages: l.Stages})
	}
}
