// Schedules of the open model: a steady rate, ramps, steps. The times do not depend on the
// duration of requests.

package engine

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/unit"
)

// Most is the highest accepted rate, in requests a second. It is more than one machine can send.
const Most = 10_000_000

// Stage is a part of a schedule in which the rate changes linearly.
type Stage struct {
	From, To float64 // requests a second
	For      time.Duration
}

func (s Stage) String() string {
	if s.From == s.To {
		return text(s.From)
	}
	return text(s.From) + ".." + text(s.To)
}

// text formats a rate as ParseSchedule reads it.
func text(perSecond float64) string { return unit.Exact(math.Round(1e6*perSecond)/1e6) + "/s" }

// starts returns the number of starts in the first d of the stage, as a fraction.
func (s Stage) starts(d time.Duration) float64 {
	t := d.Seconds()
	return s.From*t + (s.To-s.From)*t*t/(2*s.For.Seconds())
}

// when returns the time at which start n is due. It is the inverse of starts.
func (s Stage) when(n float64) time.Duration {
	t := 0.0
	// Solve a t² + b t = n in the form that is precise for small a.
	if a, b := (s.To-s.From)/(2*s.For.Seconds()), s.From; n > 0 {
		t = 2 * n / (b + math.Sqrt(max(0, b*b+4*a*n)))
	}
	return time.Duration(t * float64(time.Second))
}

// RateSchedule is a sequence of stages. It implements DriveSchedule.
type RateSchedule struct {
	Stages []Stage
	// begins holds the start time of each stage, before the number of starts before each stage.
	begins []time.Duration
	before []float64
	count  int64
}

// NewRate returns a schedule of stages.
func NewRate(stages ...Stage) (*RateSchedule, error) {
	s := &RateSchedule{Stages: stages}
	begins, before := time.Duration(0), 0.0
	for _, stage := range stages {
		switch {
		case stage.For <= 0:
			return nil, errors.New("a stage must be longer than 0 s")
		case stage.From < 0 || stage.To < 0 || stage.From+stage.To <= 0:
			return nil, fmt.Errorf("stage %v: the rate must be above 0", stage)
		}
		s.begins, s.before = append(s.begins, begins), append(s.before, before)
		begins += stage.For
		before += stage.starts(stage.For)
	}
	if before > 1<<52 {
		return nil, errors.New("rate and duration give too many requests; use a lower rate or a shorter duration")
	}
	// The first start is immediate; a fraction of a start at the end does not count. The
	// tolerance of 1e-9 compensates rounding errors of the sum.
	s.count = int64(math.Ceil(before - 1e-9*max(1, before)))
	return s, nil
}

// Count returns the number of starts.
func (s *RateSchedule) Count() int64 { return s.count }

// Length returns the duration of the schedule.
func (s *RateSchedule) Length() time.Duration {
	last := len(s.Stages) - 1
	return s.begins[last] + s.Stages[last].For
}

// At returns when start i, counted from 0, is due, relative to the beginning.
func (s *RateSchedule) At(i int64) time.Duration {
	stage := len(s.Stages) - 1
	for stage > 0 && s.before[stage] > float64(i) {
		stage--
	}
	at := s.begins[stage] + s.Stages[stage].when(float64(i)-s.before[stage])
	return min(at, s.Length()-1)
}

// ParseSchedule parses a rate (500/s, 30/min, 100/h). The result is per second.
func ParseSchedule(word string) (float64, error) {
	number, per, ok := strings.Cut(strings.TrimSpace(word), "/")
	seconds, known := map[string]float64{"s": 1, "sec": 1, "min": 60, "m": 60, "h": 3600}[strings.TrimSpace(per)]
	if !ok || !known {
		return 0, fmt.Errorf("%q: want a rate such as 500/s or 30/min", word)
	}
	n, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
		return 0, fmt.Errorf("%q: %q is not a number", word, number)
	}
	if n /= seconds; n <= 0 || n > Most {
		return 0, internaltext.Errorf("%q: want more than 0 and at most %d/s", word, Most)
	}
	return n, nil
}

// ParseRate parses a steady rate, or a ramp such as 100/s..1000/s, into a stage.
func ParseRate(word string, length time.Duration) (Stage, error) {
	from, to, ramp := strings.Cut(word, "..")
	a, err := ParseSchedule(from)
	if err != nil {
		return Stage{}, err
	}
	b := a
	if ramp {
		if b, err = ParseSchedule(to); err != nil {
			return Stage{}, err
		}
	}
	return Stage{From: a, To: b, For: length}, nil
}

// ParseSteps parses steps such as 100/s,200/s,400/s; each step lasts for each.
func ParseSteps(words string, each time.Duration) (stages []Stage, err error) {
	for word := range strings.SplitSeq(words, ",") {
		stage, err := ParseRate(word, each)
		if err != nil {
			return nil, err
		}
		stages = append(stages, stage)
	}
	return stages, nil
}

// Every is one generator's share of a schedule: every N-th start, from start First (0-based) on.
type Every struct {
	*RateSchedule
	First, N int64
}

// Count returns the number of starts of the share.
func (e Every) Count() int64 { return max(0, (e.RateSchedule.Count()-e.First+e.N-1)/e.N) }

// At returns when start i of the share is due.
func (e Every) At(i int64) time.Duration { return e.RateSchedule.At(e.First + i*e.N) }
