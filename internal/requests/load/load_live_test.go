package load

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/requests/load/fleet"
	"fettle.dev/fettle/internal/ui"
)

func TestLoadLive(t *testing.T) {
	var text bytes.Buffer
	PrintLive(&ui.Screen{Out: &text, Format: ui.Table}, &Live{Title: "100/s for 30s", At: 3 * time.Second, All: 30 * time.Second,
		Seconds: []fleet.Now{{At: 2 * time.Second, AnswerRate: 99, P50S: 0.001, P99S: 0.002}, {At: 3 * time.Second, AnswerRate: 80, P50S: 0.001, P99S: 0.006, ErrorShare: 0.2}},
		Stages:  []KneeStage{{Purpose: Seek, Rate: 50, ForS: 10, Verdict: Holds, Why: "p99 2 ms"}}})
	const want = `100/s for 30s
3 of 30 s, 27 s left

s  answers/s  errors  p50   p99
3  80         20 %    1 ms  6 ms  ##############################
2  99         0 %     1 ms  2 ms  ##########

stage     rate           verdict  why
1 search  50/s for 10 s  holds    p99 2 ms
`
	if got := text.String(); got != want {
		t.Errorf("%s", got)
	}
	for at, want := range map[time.Duration]string{2996 * time.Millisecond: "3 of 3 s", 3001 * time.Millisecond: "3 of 3 s", 10 * time.Second: "3 of 3 s, waiting for the last answers"} {
		if got := (&Live{At: at, All: 3 * time.Second}).Far(); got != want {
			t.Errorf("%v: %s, want %s", at, got, want)
		}
	}
	text.Reset()
	PrintLive(&ui.Screen{Out: &text, Format: ui.Table, Width: 52}, &Live{Title: "100/s for 30s",
		Seconds: []fleet.Now{{At: 3 * time.Second, AnswerRate: 80.12, P50S: 0.1234, P99S: 0.456, ErrorShare: 0.00123}}})
	for line := range strings.Lines(text.String()) {
		if len(strings.TrimRight(line, "\n")) > 52 {
			t.Errorf("wider than the terminal: %q", line)
		}
	}
	if n := strings.Count(text.String(), "\n"); n != 5 {
		t.Errorf("%d lines, want one for a second\n%s", n, text.String())
	}
	text.Reset()
	PrintLive(&ui.Screen{Out: &text, Format: ui.Table}, &Live{Title: "a\x1b[2J"})
	if strings.Contains(text.String(), "\x1b") {
		t.Errorf("%q", text.String())
	}
}
