package page

import (
	"math"
	"slices"
	"time"
)

// Axis maps values to positions along the width or height of a chart.
type Axis struct {
	Min, Max float64
	Ticks    []Tick
	Log      bool
}

// Tick is a labeled value. Minor ticks lose their labels on a narrow screen.
type Tick struct {
	At    float64
	Text  string
	Minor bool
}

// place returns the position of a value in percent of the axis.
func (a *Axis) place(v float64) float64 {
	low, high := a.Min, a.Max
	if a.Log {
		v, low, high = math.Log(max(v, a.Min)), math.Log(low), math.Log(high)
	}
	if high <= low || math.IsNaN(v) {
		return 50
	}
	return rounded(100 * max(0, min(1, (v-low)/(high-low))))
}

func rounded(v float64) float64 { return math.Round(100*v) / 100 }

// mostTicks is the maximum number of labels on a wide screen.
const mostTicks = 8

// Linear returns an axis with round ticks that contains the values from low to high. It starts
// at 0 if the values are close to 0.
func Linear(low, high float64, format func(float64) string) Axis {
	low, high = finite(low), finite(high)
	if low >= 0 && low < high/2 {
		low = 0
	}
	if room := max(1, math.Abs(high)*0.01); high-low < room*1e-9 {
		low, high = min(0, low), low+room
	}
	step := roundStep((high - low) / 5)
	a := Axis{Min: math.Floor(low/step+1e-9) * step, Max: math.Ceil(high/step-1e-9) * step}
	for i := range 2 * mostTicks {
		v := a.Min + float64(i)*step
		if v > a.Max+step/2 {
			return a
		}
		if math.Abs(v) < step/1e6 {
			v = 0
		}
		a.Ticks = append(a.Ticks, Tick{At: v, Text: format(v), Minor: i%2 == 1})
	}
	return a
}

// roundStep returns 1, 2 or 5 times a power of ten that is at least least.
func roundStep(least float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(least)))
	for _, m := range []float64{1, 2, 5} {
		if m*power >= least*(1-1e-9) {
			return m * power
		}
	}
	return 10 * power
}

// Logarithmic returns an axis of powers of ten. If there are few of them, it also has ticks at
// 2 and 5.
func Logarithmic(low, high float64, format func(float64) string) Axis {
	high = max(finite(high), 1e-290)
	if low = finite(low); low <= 0 {
		low = high / 1e6
	}
	low = max(low, 1e-299)
	a := Axis{Min: floor125(low), Max: floor125(high), Log: true}
	if a.Max < high {
		a.Max = next125(a.Max)
	}
	if a.Max <= a.Min {
		a.Max = next125(a.Min)
	}
	var all []Tick
	for v := a.Min; v <= a.Max*1.0001; v = next125(v) {
		first := math.Abs(math.Log10(v)-math.Round(math.Log10(v))) < 1e-6
		all = append(all, Tick{At: v, Text: format(v), Minor: !first})
	}
	if len(all) <= mostTicks {
		a.Ticks = all
		return a
	}
	all = slices.DeleteFunc(all, func(t Tick) bool { return t.Minor })
	for i := 0; i < len(all); i += (len(all)-1)/mostTicks + 1 {
		a.Ticks = append(a.Ticks, all[i])
	}
	return a
}

// finite limits a value to the range that an axis can show.
func finite(v float64) float64 {
	if math.IsNaN(v) || math.Abs(v) < 1e-290 {
		return 0
	}
	return max(-1e300, min(1e300, v))
}

// floor125 returns the largest of 1, 2 and 5 times a power of ten that does not exceed a value.
func floor125(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)+1e-9))
	for _, m := range []float64{5, 2} {
		if m*power <= v*(1+1e-9) {
			return m * power
		}
	}
	return power
}

func next125(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)+1e-9))
	switch m := v / power; {
	case m < 1.5:
		return 2 * power
	case m < 3:
		return 5 * power
	}
	return 10 * power
}

// timeSteps lists the possible distances of ticks.
var timeSteps = []time.Duration{time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second,
	time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 4 * time.Hour, 12 * time.Hour, 24 * time.Hour}

// Time returns an axis of seconds since 1970, in UTC.
func Time(from, to time.Time) Axis {
	if !to.After(from) {
		to = from.Add(time.Second)
	}
	a := Axis{Min: float64(from.UnixMicro()) / 1e6, Max: float64(to.UnixMicro()) / 1e6}
	span := to.Sub(from)
	step := 24 * time.Hour * max(1, (span/(24*time.Hour)+mostTicks-1)/mostTicks)
	for _, s := range timeSteps {
		if span/s <= mostTicks {
			step = s
			break
		}
	}
	layout := "15:04"
	switch {
	case step >= 24*time.Hour:
		layout = "Jan 2"
	case step < time.Minute:
		layout = "15:04:05"
	}
	day := ""
	i := 0
	for t := from.UTC().Truncate(step); !t.After(to); t = t.Add(step) {
		if t.Before(from) {
			continue
		}
		text := t.Format(layout)
		if d := t.Format("Jan 2"); step < 24*time.Hour && span > 24*time.Hour && d != day && t.Hour() == 0 {
			text, day = d, d
		}
		a.Ticks = append(a.Ticks, Tick{At: float64(t.Unix()), Text: text, Minor: i%2 == 1})
		i++
	}
	return a
}
