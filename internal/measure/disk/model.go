package disk

import (
	"math"
	"slices"

	"fettle.dev/fettle/internal/stats"
)

// Fit models the time of requests by block size: each takes FixedS, plus its size divided by BytesPS.
type Fit struct {
	FixedS  float64 `json:"fixed_s"`
	BytesPS float64 `json:"stream_bytes_per_s"`
	// Worst is the largest deviation of a block size from the model, as a ratio of its time.
	Worst float64 `json:"worst_deviation_ratio"`
}

// fit fits the durations of requests by size, with least squares of relative deviations. It
// returns nil if no fit is meaningful.
func fit(sizes, times []float64) *Fit {
	if len(sizes) < 3 {
		return nil
	}
	// Minimize the sum of ((a + b x - y)/y)^2.
	var s, sx, sxx, sy, sxy float64
	for i, x := range sizes {
		y := times[i]
		if y <= 0 {
			return nil
		}
		w := 1 / (y * y)
		s, sx, sxx, sy, sxy = s+w, sx+w*x, sxx+w*x*x, sy+w*y, sxy+w*x*y
	}
	d := s*sxx - sx*sx
	if d == 0 {
		return nil
	}
	a, b := (sy*sxx-sx*sxy)/d, (s*sxy-sx*sy)/d
	if a <= 0 || b <= 0 {
		return nil
	}
	f := &Fit{FixedS: a, BytesPS: 1 / b}
	for i, x := range sizes {
		f.Worst = max(f.Worst, math.Abs(a+b*x-times[i])/times[i])
	}
	return f
}

// spread returns the range of the repeats as a ratio of their median, or 0 for a single repeat.
func spread(values []float64) float64 {
	if len(values) < 2 {
		return 0
	}
	return (slices.Max(values) - slices.Min(values)) / stats.Median(values)
}
