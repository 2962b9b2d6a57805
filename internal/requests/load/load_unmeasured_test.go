package load

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/requests/load/engine"
	"fettle.dev/fettle/internal/requests/load/fleet"
	"fettle.dev/fettle/internal/requests/load/mqtt"
	"fettle.dev/fettle/internal/ui"
)

// noTime is a latency of nothing, formatted as if it had been measured.
var noTime = regexp.MustCompile(`(^|[^0-9.])0 s\b`)

// TestNothingMeasuredIsNoTime tests that a load without answers has no latencies, rather than
// latencies of 0.
func TestNothingMeasuredIsNoTime(t *testing.T) {
	var text bytes.Buffer
	s := &ui.Screen{Out: &text, Err: &text, Format: ui.Table}
	failed := Figures{Starts: 5, Errors: 5, ErrorShare: 1}
	x := &Result{Word: Silent, Model: "open", Stages: []Stage{{Rate: "5/s", Figures: failed}, {Rate: "9/s", Figures: Figures{Latency: engine.Times{N: 1, P50S: 0.5}}}}, Whole: failed,
		Generator: Generator{Clients: []Client{{Name: "one", ClockErrorS: 0.001}}}}
	x.Print(s, &evidence.Run{})
	for _, want := range []string{
		"5/s       0/s   100 %       -    -    -      -    -\n",
		"9/s       0/s     0 %  500 ms  0 s ", // what was measured is told as it is
		"one     0       0            0 % of 0  -                1 ms\n",
		"- of processor time an answer; p99 of its start delay -\n",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is not in\n%s", want, text.String())
		}
	}

	text.Reset()
	PrintLive(s, &Live{Title: "5/s", At: 2 * time.Second, All: 9 * time.Second, Seconds: []fleet.Now{{At: time.Second, ErrorShare: 1}}})
	if !strings.Contains(text.String(), "1  0          100 %   -    -\n") {
		t.Errorf("\n%s", text.String())
	}

	text.Reset()
	y := &mqtt.Result{Word: mqtt.NotSustained, Pull: &mqtt.PullBy{}, Hosts: 3,
		Rounds: []mqtt.Round{{Settings: "limit=none", Jobs: 3, DurationS: 10, Pull: &mqtt.PullRound{}}}}
	y.Print(s, &evidence.Run{})
	if got := text.String(); noTime.MatchString(got) || !strings.Contains(got, "time until pick-up: p50 -, p99 -; time per report: p50 -, p99 -; at most 0 jobs in progress") ||
		!strings.Contains(got, "p50 -, p99 -, max -\n") || !regexp.MustCompile(`limit=none +3 +0 +0 +- +- +- +0`).MatchString(got) {
		t.Errorf("\n%s", got)
	}
}
