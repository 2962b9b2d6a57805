package page

import (
	"math"
	"slices"
	"strconv"
)

// bar is an effect with its interval, as ratios. The interval is nil while it is unbounded.
type bar struct {
	effect   float64
	interval *[2]float64
	tone     string
}

// strip is a bar on its axis; positions and lengths are in percent of the width.
type strip struct {
	Tone             string
	At               float64
	From, To, Length float64
	Bounded          bool
	Zero             float64
	Margin, Breadth  float64 // begin and length of the zone in which effects do not matter
	HasMargin        bool
	Ticks            []tick
	LowText, AtText  string
	HighText, Spoken string
}

type tick struct {
	At   float64
	Text string
}

// newStrips puts bars on one common axis, which contains all intervals, 0 and the margin.
func newStrips(bars []bar, margin float64) []*strip {
	bars = slices.Clone(bars)
	for i, b := range bars {
		bars[i].effect = within(b.effect)
		if b.interval != nil {
			bars[i].interval = &[2]float64{within(b.interval[0]), within(b.interval[1])}
		}
	}
	low, high := -margin, margin
	for _, b := range bars {
		low, high = min(low, b.effect), max(high, b.effect)
		if b.interval != nil {
			low, high = min(low, b.interval[0]), max(high, b.interval[1])
		}
	}
	if low == high {
		low, high = -0.01, 0.01
	}
	room := 0.12 * (high - low)
	low, high = low-room, high+room
	place := func(v float64) float64 { return round(100 * (v - low) / (high - low)) }
	var ticks []tick
	step := stepOf(100 * (high - low) / 5)
	for i := math.Ceil(100 * low / step); i*step <= 100*high; i++ {
		ticks = append(ticks, tick{place(i * step / 100), signed(i * step / 100)})
	}
	out := make([]*strip, len(bars))
	for i, b := range bars {
		s := &strip{Tone: b.tone, At: place(b.effect), Zero: place(0), Ticks: ticks, AtText: signed(b.effect)}
		s.Spoken = "estimate " + s.AtText + " %, no interval yet"
		if margin > 0 {
			s.HasMargin, s.Margin = true, place(-margin)
			s.Breadth = round(place(margin) - s.Margin)
		}
		if b.interval != nil {
			s.Bounded, s.From, s.To = true, place(b.interval[0]), place(b.interval[1])
			s.Length = round(s.To - s.From)
			s.LowText, s.HighText = signed(b.interval[0]), signed(b.interval[1])
			s.Spoken = "estimate " + s.AtText + " %, interval " + s.LowText + " % to " + s.HighText + " %"
		}
		out[i] = s
	}
	return out
}

// within limits a ratio to the range that can be drawn.
func within(ratio float64) float64 { return max(-1e6, min(1e6, ratio)) }

// stepOf returns 1, 2 or 5 times a power of ten, at least the given distance.
func stepOf(atLeast float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(atLeast)))
	for _, m := range []float64{1, 2, 5} {
		if m*power >= atLeast*(1-1e-9) {
			return m * power
		}
	}
	return 10 * power
}

func round(v float64) float64 { return math.Round(1000*v) / 1000 }

// signed formats a ratio in percent with its sign, with the digits that matter.
func signed(ratio float64) string {
	p := 100 * within(ratio)
	digits := 1
	switch {
	case math.Abs(p) < 1e-9:
		return "0"
	case math.Abs(p) < 0.0995:
		digits = 1 - int(math.Floor(math.Log10(math.Abs(p))))
	case math.Abs(p) >= 99.95:
		digits = 0
	}
	text := strconv.FormatFloat(math.Abs(p), 'f', digits, 64)
	if n, err := strconv.ParseFloat(text, 64); err == nil {
		text = strconv.FormatFloat(n, 'f', -1, 64)
	}
	if p < 0 {
		return "−" + text
	}
	return "+" + text
}
