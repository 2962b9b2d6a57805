package disk

import "fettle.dev/fettle/internal/stats"

// Fit explains a ladder of block sizes by two numbers: a request takes FixedS and
// then as long as its bytes take at BytesPS.
type Fit struct {
	FixedS  float64 `json:"fixed_s"`
	BytesPS float64 `json:"stream_bytes_per_s"`
	// Worst is the largest deviation of a rung, as a ratio of its time.
	Worst float64 `json:"worst_deviation_ratio"`
}

// fit fits times of requests by their sizes, least squares of the relative
// deviations; nil where that makes no sense.
func fit(sizes, times []float64) *Fit {
	if len(sizes) < 3 {
		return nil
	}
	// Minimise sum of ((a + b x - y)/y)^2.
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
		f.Worst = max(f.Worst, abs(a+b*x-times[i])/times[i])
	}
	return f
}

func abs(x float64) float64 { return max(x, -x) }

// spread is how far the repeats lie apart, as a ratio of their median; 0 of one.
func spread(values []float64) float64 {
	if len(values) < 2 {
		return 0
	}
	low, high := values[0], values[0]
	for _, v := range values {
		low, high = min(low, v), max(high, v)
	}
	return (high - low) / stats.Median(values)
}
