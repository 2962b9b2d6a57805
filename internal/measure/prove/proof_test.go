package prove

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/ui"
)

// onTerminal returns a report as printed on a terminal.
func onTerminal(print func(*ui.Screen)) string {
	var out bytes.Buffer
	print(&ui.Screen{Out: &out, Err: &out, Format: ui.Table})
	return strings.Join(strings.Fields(out.String()), " ")
}

// TestProofUnfinished tests an experiment without a complete block: unknown numbers are not
// printed.
func TestProofUnfinished(t *testing.T) {
	e := &Evidence{Design: Defaults(Metric{Name: "time", Unit: "s"}), Ending: EndedFailed, Error: "the work failed: exit status 3\nno such table", Work: []string{"make"}}
	e.Text = "cannot tell yet: no block is complete"
	show := func() string { return onTerminal(func(s *ui.Screen) { e.Print(s, &evidence.Run{}) }) }
	for _, want := range []string{"blocks 0 of at most 80", "noise of a block not known yet", "second opinion not available: no block is complete", "ended by failed: the work failed: exit status 3; no such table"} {
		if got := show(); !strings.Contains(got, want) {
			t.Errorf("no %q in: %s", want, got)
		}
	}
	e.Blocks, e.Noise, e.Unsettled = []float64{0.001, -0.001}, 0.002, 7
	e.Guards = []Guarded{{Guard: Guard{Metric: Metric{Name: "cpu-time"}, Most: 0.1}, State: "within", Worse: &[2]float64{-0.099, -0.06}}}
	for _, want := range []string{"blocks 2 of at most 80", "not counted the first 7 blocks, because", "noise of a block 0.2 %", "cpu-time: within; better by 6 to 9.9 %, and at most 10 % worse is allowed"} {
		if got := show(); !strings.Contains(got, want) {
			t.Errorf("no %q in: %s", want, got)
		}
	}
}

// TestComparedNumbers tests that 0 has no sign, and that a large effect has no exponent.
func TestComparedNumbers(t *testing.T) {
	zero, large := math.Copysign(0, -1), 1.534
	negative := -1e-17
	c := &Comparison{Series: []Series{
		{Name: "alike", Unit: "s", SamplesA: 3, SamplesB: 3, Word: Alike, Effect: &negative, Within: &[2]float64{negative, 0.0004}},
		{Name: "same", Unit: "s", SamplesA: 3, SamplesB: 3, Word: Alike, Effect: &zero, Within: &[2]float64{zero, zero}},
		{Name: "faster", Unit: "s", SamplesA: 3, SamplesB: 3, Word: FiguresBetter, Effect: &large, Within: &[2]float64{1.2, 1.9}},
	}}
	got := onTerminal(func(s *ui.Screen) { PrintComparison(s, c) })
	for _, want := range []string{" 0 % [0, +0.04] alike", " 0 % [0, 0] alike", "+153 % [+120, +190] better"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in: %s", want, got)
		}
	}
}
