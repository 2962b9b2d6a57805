package prove

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/ui"
)

func TestGuardedText(t *testing.T) {
	for want, worse := range map[string]*[2]float64{
		"not known yet":                        nil,
		"better by 6 to 9.9 %":                 {-0.099, -0.06},
		"worse by 6 to 9.9 %":                  {0.06, 0.099},
		"worse by 0 to 5 %":                    {0, 0.05},
		"between 3 % better and 0.04 % worse":  {-0.03, 0.0004},
		"between 120 % better and 140 % worse": {-1.2, 1.4},
		"as without it":                        {-1e-15, 1e-15},
	} {
		if got := (&Guarded{Worse: worse}).Text(); got != want {
			t.Errorf("%v: %q, want %q", worse, got, want)
		}
	}
}

// course is an experiment on a machine on which each run takes the time that take returns.
func course(t *testing.T, take func(s Step, sample int) float64) *Evidence {
	t.Helper()
	c := Begin(Defaults(Metric{Name: "time", Unit: "s"}))
	var samples []Sample
	for {
		s := c.Next()
		if s.Phase == Done {
			return Sum(c, EndedVerdict, nil, samples)
		}
		v := Sample{Step: s, Values: Values{"time": take(s, len(samples))}}
		if err := c.Took(v.Values); err != nil {
			t.Fatal(err)
		}
		samples = append(samples, v)
	}
}

// TestEarlyStop tests that an effect after an early stop has the remark that its estimate tends to
// be too large, and that other verdicts do not.
func TestEarlyStop(t *testing.T) {
	for word, effect := range map[Word]float64{Better: 0.9, Worse: 1.1, NoEffect: 1} {
		e := course(t, func(s Step, sample int) float64 {
			value := 10 + 0.001*float64(sample*7%5)
			if s.Arm == With && s.Phase == Blocks {
				value *= effect
			}
			return value
		})
		said := strings.Contains(strings.Join(e.Warnings, "\n"), "stopped early")
		if e.Word != word || len(e.Blocks) >= 2*e.Design.Least || said != (word != NoEffect) {
			t.Errorf("%s: %s after %d blocks, warned of an early stop: %v", word, e.Text, len(e.Blocks), said)
		}
	}
}

// TestManyMoreRuns tests that a large number of runs has a comma.
func TestManyMoreRuns(t *testing.T) {
	e := course(t, func(_ Step, sample int) float64 { return 10 + float64(sample*sample*7%17) })
	if !regexp.MustCompile(`about \d{1,3},\d{3} more runs$`).MatchString(e.Text) {
		t.Error(e.Text)
	}
}

// TestNothingVaries tests that equal runs have no autocorrelation, even with a rounding error in
// the difference of the sides.
func TestNothingVaries(t *testing.T) {
	for _, effect := range []float64{1, 0.9, 1.1} {
		e := course(t, func(s Step, _ int) float64 {
			if s.Arm == With && s.Phase == Blocks {
				return 3.7 * effect
			}
			return 3.7
		})
		if e.Second.Lag1 != nil || strings.ContainsAny(e.Second.Autocorrelation(), "0123456789") {
			t.Errorf("%v: %q", effect, e.Second.Autocorrelation())
		}
	}
	e := course(t, func(_ Step, sample int) float64 { return 10 + float64(sample*7%5) })
	if e.Second.Lag1 == nil || e.Second.Autocorrelation() == "0.00" {
		t.Errorf("%q", e.Second.Autocorrelation())
	}
}

// What disturbed the machine is wrapped like any other message: it has no command to copy.
func TestBusyIsWrapped(t *testing.T) {
	asked := &Evidence{Busy: []string{"a task waits for a CPU 31 % of the time"}}
	e := asked.Summed(&Evidence{Design: design()})
	var out bytes.Buffer
	s := ui.NewScreen(&out, &out)
	s.Width = 80
	e.Print(s, &evidence.Run{})
	if !strings.Contains(out.String(), "the machine was busy before the first run (a task waits") {
		t.Error(out.String())
	}
	for line := range strings.Lines(out.String()) {
		if len(strings.TrimSuffix(line, "\n")) > 80 {
			t.Errorf("wider than 80 columns: %s", line)
		}
	}
}
