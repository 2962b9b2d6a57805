package load

import (
	"fmt"
	"math"

	"fettle.dev/fettle/internal/stats"
	"fettle.dev/fettle/internal/unit"
)

// WarmUp describes the period that is excluded from the figures.
type WarmUp struct {
	// AskedS is the requested length, in seconds.
	AskedS float64 `json:"asked_s"`
	// LeftOutS is the additional length during which the server was still becoming faster.
	LeftOutS float64 `json:"left_out_s"`
	// BeforeS and AfterS are the median latencies before and after the cut.
	BeforeS float64 `json:"before_p50_s,omitempty"`
	AfterS  float64 `json:"after_p50_s,omitempty"`
	// State is settled, unsettled (getting faster until the end), worsening (getting slower
	// until the end), or unknown: too short, or the rate was not steady.
	State State  `json:"state"`
	Text  string `json:"text"`
}

// State describes the trend of the latency.
type State string

// Trends of the latency.
const (
	Settled   State = "settled"
	Unsettled State = "unsettled"
	Worsening State = "worsening"
	Unknown   State = "unknown"
)

// Limits of the trend test.
const (
	fewSlices = 10  // minimum number of slices
	effect    = 1.1 // smallest relevant change of the latency
	// surely is the critical value of the Mann-Kendall test, at half a percent on each side.
	surely = 2.58
)

// settle returns the number of slices at the beginning that are warm-up, from the medians of
// consecutive slices at a steady rate. Warm-up slices are those before the first slice that is
// about as fast as the second half, within its noise. Each slice is smoothed with its neighbors,
// so a slice that is fast by chance does not end the warm-up. A later stall is not removed.
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

// trend returns the trend of the logarithms of latencies, if it is large and significant.
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

// text describes the warm-up. counts is the length of the remaining period, in seconds.
func (w *WarmUp) text(counts float64) string {
	switch {
	case w.State == Unsettled:
		return fmt.Sprintf("still getting faster at the end (p50 %s at first, %s in the last %s s, which alone count); measure longer", unit.FormatSeconds(w.BeforeS), unit.FormatSeconds(w.AfterS), unit.Digits(counts))
	case w.State == Worsening && w.LeftOutS == 0:
		return "still getting slower at the end"
	case w.LeftOutS > 0 && w.State == Worsening:
		return fmt.Sprintf("the first %s s are left out (p50 %s, then %s); afterwards still getting slower at the end", unit.Digits(w.LeftOutS), unit.FormatSeconds(w.BeforeS), unit.FormatSeconds(w.AfterS))
	case w.LeftOutS > 0:
		return fmt.Sprintf("the first %s s are left out: p50 %s, then %s", unit.Digits(w.LeftOutS), unit.FormatSeconds(w.BeforeS), unit.FormatSeconds(w.AfterS))
	case w.State == Unknown:
		return "unknown whether the server was warm; at least 10 s at a steady rate are needed"
	}
	return "the latency was steady from the beginning"
}
