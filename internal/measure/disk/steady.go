package disk

import (
	"fmt"
	"math"
	"slices"

	"fettle.dev/fettle/internal/stats"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/unit"
)

// Steady describes whether a speed has settled: within a window of five rounds it neither varies
// nor has a trend (SNIA Solid State Storage Performance Test Specification 2.0.2, 2.1.24:
// excursion and slope).
type Steady struct {
	State State `json:"state"`
	// Excursion is the range of the window's rounds. Slope is the change of the fitted line over
	// the window. Both are ratios of the window's mean.
	Excursion float64 `json:"excursion_ratio,omitempty"`
	Slope     float64 `json:"slope_ratio,omitempty"`
	WindowS   int     `json:"window_s,omitempty"`
	// FirstBytesPS and LastBytesPS are the speeds of the first and the last window. MovedBytes is
	// the amount of data before the last window.
	FirstBytesPS float64 `json:"first_bytes_per_s,omitempty"`
	LastBytesPS  float64 `json:"last_bytes_per_s,omitempty"`
	MovedBytes   float64 `json:"moved_bytes,omitempty"`
}

// State is the result of the test.
type State string

// Results of the test.
const (
	Yes       State = "yes"
	No        State = "no"
	NotTested State = "not tested" // the sample was too short
)

const (
	rounds       = 5
	mostMoved    = 0.20 // excursion
	mostSlope    = 0.10
	shortWindow  = 10 // seconds: the minimum for a result
	usualWindow  = 60 // of mode Sustained
	leastWindows = 2  // of mode Sustained: one window cannot show whether the speed lasts
)

// settled reports whether the speed was steady in the last window seconds. perSecond has the bytes
// of each second.
func settled(perSecond []float64, window int) Steady {
	if window < shortWindow || len(perSecond) < window {
		return Steady{State: NotTested}
	}
	last := perSecond[len(perSecond)-window:]
	var means []float64
	for i := range rounds {
		means = append(means, stats.Mean(last[i*window/rounds:(i+1)*window/rounds]))
	}
	mean := stats.Mean(means)
	s := Steady{State: NotTested, WindowS: window, FirstBytesPS: stats.Mean(perSecond[:window]), LastBytesPS: mean}
	for _, v := range perSecond[:len(perSecond)-window] {
		s.MovedBytes += v
	}
	if mean <= 0 {
		s.State = No // no I/O at all
		return s
	}
	s.Excursion = (slices.Max(means) - slices.Min(means)) / mean
	s.Slope = stats.Slope(means) * (rounds - 1) / mean
	s.State = No
	if s.Excursion <= mostMoved && s.Slope <= mostSlope && s.Slope >= -mostSlope {
		s.State = Yes
	}
	return s
}

// lasting reports whether a sample of mode Sustained can end.
func lasting(perSecond []float64) bool {
	return len(perSecond) >= leastWindows*usualWindow && settled(perSecond, usualWindow).State == Yes
}

// lastly returns the value of a sample in mode Sustained. It is the value of the last window,
// because a cache dominates the beginning.
func lastly(c Cell, v *Sample) float64 {
	s := settled(v.PerSecond, window(Sustained, len(v.PerSecond)))
	switch {
	case s.State == NotTested:
		return v.Value
	case c.Unit == "1/s":
		return s.LastBytesPS / float64(c.BlockBytes)
	}
	return s.LastBytesPS / 1e6
}

// window returns the window length in seconds for judging a sample of this many seconds.
func window(mode Mode, seconds int) int {
	if mode == Sustained {
		return min(usualWindow, seconds/leastWindows)
	}
	return min(seconds, shortWindow)
}

// worst combines several phases: one No makes the result No.
func worst(all []Steady) Steady {
	out := Steady{State: NotTested}
	for _, s := range all {
		if out.State == NotTested || s.State == No && (out.State == Yes || s.Excursion > out.Excursion) {
			out = s
		}
	}
	return out
}

// Text describes the result.
func (s Steady) Text() string {
	switch s.State {
	case NotTested:
		return string(s.State)
	case No:
		return text.Sprintf("no: moves by %.0f %% in %d s, trend %s %%%s", 100*s.Excursion, s.WindowS, unit.SignedPercent(math.Round(100*s.Slope)/100), s.fall())
	}
	return text.Sprintf("yes, for %d s%s", s.WindowS, s.fall())
}

// fall describes the change since the beginning.
func (s Steady) fall() string {
	if s.MovedBytes == 0 || math.Abs(s.LastBytesPS-s.FirstBytesPS) <= mostMoved*s.FirstBytesPS {
		return ""
	}
	return fmt.Sprintf("; %s MB/s at first, %s MB/s after %s GB", unit.Digits(s.FirstBytesPS/1e6), unit.Digits(s.LastBytesPS/1e6), unit.Digits(s.MovedBytes/1e9))
}
