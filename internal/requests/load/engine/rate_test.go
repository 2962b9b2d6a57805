package engine

import (
	"math"
	"strings"
	"testing"
	"time"
)

func schedule(t *testing.T, stages ...Stage) *RateSchedule {
	t.Helper()
	s, err := NewRate(stages...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSteadyRate(t *testing.T) {
	s := schedule(t, Stage{500, 500, 10 * time.Second})
	if s.Count() != 5000 || s.Length() != 10*time.Second {
		t.Errorf("%d starts in %v", s.Count(), s.Length())
	}
	for i, want := range map[int64]time.Duration{0: 0, 1: 2 * time.Millisecond, 4999: 9998 * time.Millisecond} {
		if got := s.At(i); (got - want).Abs() > time.Microsecond {
			t.Errorf("start %d at %v, want %v", i, got, want)
		}
	}
}

// TestStartsFollowTheRate tests that each tenth of a schedule has as many starts as the integral of
// its rate, that start times do not decrease, and that none is after the end.
func TestStartsFollowTheRate(t *testing.T) {
	for name, stages := range map[string][]Stage{
		"up":    {{100, 1000, 10 * time.Second}},
		"down":  {{1000, 100, 10 * time.Second}},
		"zero":  {{0, 1000, 10 * time.Second}},
		"end 0": {{1000, 0, 10 * time.Second}},
		"steps": {{100, 100, 3 * time.Second}, {200, 200, 3 * time.Second}, {400, 400, 4 * time.Second}},
		"mixed": {{0.5, 0.5, 4 * time.Second}, {10, 3000, 2 * time.Second}, {3000, 3000, 4 * time.Second}},
	} {
		s := schedule(t, stages...)
		var in [10]int
		last := time.Duration(0)
		for i := range s.Count() {
			at := s.At(i)
			if at < last || at >= s.Length() {
				t.Fatalf("%s: start %d at %v, the one before at %v", name, i, at, last)
			}
			last = at
			in[int(at/time.Second)]++
		}
		for second, got := range in {
			want := 0.0
			for step := range 1000 { // the rate at each millisecond
				at := time.Duration(second)*time.Second + time.Duration(step)*time.Millisecond
				for i, stage := range stages {
					if begin := s.begins[i]; at >= begin && at < begin+stage.For {
						want += (stage.From + (stage.To-stage.From)*(at-begin).Seconds()/stage.For.Seconds()) / 1000
					}
				}
			}
			if math.Abs(float64(got)-want) > 1.5 {
				t.Errorf("%s: %d starts in second %d, want %.1f", name, got, second, want)
			}
		}
	}
}

func TestParse(t *testing.T) {
	for word, want := range map[string]float64{"500/s": 500, "30/min": 0.5, "3600/h": 1, "0.5/s": 0.5, " 2 / s ": 2, "1e3/s": 1000} {
		if got, err := ParseSchedule(word); err != nil || got != want {
			t.Errorf("%q: %v %v", word, got, err)
		}
	}
	for word, want := range map[string]string{
		"": "want a rate", "500": "want a rate", "500/": "want a rate", "500/d": "want a rate", "/s": "is not a number", "x/s": "is not a number",
		"NaN/s": "is not a number", "Inf/s": "is not a number", "-1/s": "more than 0", "0/s": "more than 0", "1e9/s": "at most",
	} {
		if got, err := ParseSchedule(word); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v %v, want %q", word, got, err, want)
		}
	}
	for _, word := range []string{"1/s..", "..1/s", "1/s..2/s..3/s", "1/s,2/s"} {
		if got, err := ParseRate(word, time.Second); err == nil {
			t.Errorf("%q: %v", word, got)
		}
	}
	got, err := ParseSteps("100/s,200/s..300/s", time.Minute)
	if err != nil || len(got) != 2 || got[1] != (Stage{200, 300, time.Minute}) || got[1].String() != "200/s..300/s" {
		t.Errorf("%v %v", got, err)
	}
	if _, err := ParseSteps("100/s,,", time.Minute); err == nil {
		t.Error("an empty step is taken")
	}
}
