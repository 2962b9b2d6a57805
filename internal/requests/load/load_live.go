package load

import (
	"fmt"
	"strings"
	"time"

	"fettle.dev/fettle/internal/requests/load/fleet"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

// Live is a load that goes on.
type Live struct {
	Title   string
	At, All time.Duration
	// Seconds are the last ones, the newest last, and Stages those of a search so far.
	Seconds []fleet.Now
	Stages  []KneeStage
	// Trouble is what is wrong at the moment; empty for nothing.
	Trouble string
}

// bars is how many signs the longest bar has at the most, and figures how wide is what
// stands beside it.
const bars, figures = 30, 48

// Far says how far it is. Once nothing more is started the last answers are waited for.
func (l *Live) Far() string {
	text := fmt.Sprintf("%.0f of %.0f s", min(l.At, l.All).Seconds(), l.All.Seconds())
	if l.At >= l.All+time.Second/2 {
		text += ", waiting for the last answers"
	}
	return text
}

// PrintLive prints how a load goes: its last seconds, and the search that it is part of.
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
	g := ui.Grid{Head: []string{"s", "answers/s", "errors", "p50", "p99", ""}}
	for i := len(l.Seconds) - 1; i >= 0; i-- {
		n, bar := l.Seconds[i], 0
		if longest > 0 {
			bar = int(float64(room)*n.P99S/longest + 0.5)
		}
		g.Rows = append(g.Rows, []string{fmt.Sprintf("%.0f", n.At.Seconds()), fmt.Sprintf("%.4g", n.AnswerRate), fmt.Sprintf("%.3g %%", 100*n.ErrorShare), unit.FormatSecondsMeasured(n.P50S), unit.FormatSecondsMeasured(n.P99S), strings.Repeat("#", bar)})
	}
	g.Write(s)
	if len(l.Stages) > 0 {
		fmt.Fprintln(s.Out)
		loadKnee(s, &Knee{Stages: l.Stages})
	}
}
