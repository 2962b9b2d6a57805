package load

import (
	"fmt"
	"math"

	"fettle.dev/fettle/internal/stats"
	"fettle.dev/fettle/internal/unit"
)

// WarmUp says from when on the figures count.
type WarmUp struct {
	// AskedS was left out because the caller said so.
	AskedS float64 `json:"asked_s"`
	// LeftOutS were left out beyond that: the server was still getting faster.
	LeftOutS float64 `json:"left_out_s"`
	// Before and after are medians of the latency, of what was left out and of what counts.
	BeforeS float64 `json:"before_p50_s,omitempty"`
	AfterS  float64 `json:"after_p50_s,omitempty"`
	// State is settled, unsettled (faster until the end), worsening (slower until the
	// end), or unknown: too short, or the rate was not steady.
	State State  `json:"state"`
	Text  string `json:"text"`
}

// State is how the latency went.
type State string

// The states.
const (
	Settled   State = "settled"
	Unsettled State = "unsettled"
	Worsening State = "worsening"
	Unknown   State = "unknown"
)

// What it takes to say something of a course.
const (
	fewSlices = 10  // fewer tell nothing
	effect    = 1.1 // a change of a tenth matters
	// surely is the normal deviate of Mann and Kendall's test, at half a percent on
	// each side.
	surely = 2.58
)

// settle looks at the medians of slices that follow each other, at a steady rate, and
// finds how many at the beginning are warm-up: those that are all slower than the second
// half is, by more than its noise. A slice counts as the median of itself and its
// neighbours, so one that is quick by chance ends nothing; and because none but the first
// ones are looked at, a stall is not cut away as warm-up.
func settle(medians []float64) (cut int, state State) {
	n := len(medians)
	if n < fewSlices {
		return 0, Unknown
	}
	x, smooth := make([]float64, n), make([]float64, n)
	for i := range x {
		x[i], smooth[i] = math.Log(medians[i]), math.Log(stats.Median(medians[max(0, i-1):min(n, i+2)]))
	}
	second := x[n/2:]
	limit := stats.Median(second) + max(math.Log(effect)/2, 3*stats.MAD(second))
	for cut < n/2 && smooth[cut] > limit {
		cut++
	}
	return cut, trend(x[cut:])
}

// trend says whether there is one in logarithms of latencies that matters.
func trend(x []float64) State {
	n := len(x)
	third := n / 3
	if third == 0 {
		return Unknown
	}
	change := stats.Median(x[n-third:]) - stats.Median(x[:third])
	s := 0.0
	for i := range x {
		for _, later := range x[i+1:] {
			switch {
			case later > x[i]:
				s++
			case later < x[i]:
				s--
			}
		}
	}
	f := float64(n)
	z := s / math.Sqrt(f*(f-1)*(2*f+5)/18)
	switch {
	case z < -surely && change < -math.Log(effect):
		return Unsettled
	case z > surely && change > math.Log(effect):
		return Worsening
	}
	return Settled
}

// text says it in words.
func (w *WarmUp) text(counts float64) string {
	switch {
	case w.State == Unsettled:
		return fmt.Sprintf("it was getting faster until the end (p50 %s at first, %s in the last %.3g s, which alone count): measure longer", unit.FormatSeconds(w.BeforeS), unit.FormatSeconds(w.AfterS), counts)
	case w.State == Worsening && w.LeftOutS == 0:
		return "it was getting slower until the end"
	case w.LeftOutS > 0 && w.State == Worsening:
		return fmt.Sprintf("the first %.3g s are left out (p50 %s, then %s); then it was getting slower until the end", w.LeftOutS, unit.FormatSeconds(w.BeforeS), unit.FormatSeconds(w.AfterS))
	case w.LeftOutS > 0:
		return fmt.Sprintf("the first %.3g s are left out: p50 %s, and %s then", w.LeftOutS, unit.FormatSeconds(w.BeforeS), unit.FormatSeconds(w.AfterS))
	case w.State == Unknown:
		return "whether the server was warm is not known: that takes a steady rate for 10 s or longer"
	}
	return "the latency was steady from the beginning"
}
