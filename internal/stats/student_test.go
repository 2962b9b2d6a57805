package stats

import (
	"math"
	"testing"
)

// TestStudent: the quantiles agree with the tables (and R's qt).
func TestStudent(t *testing.T) {
	for _, c := range []struct{ p, df, want float64 }{
		{0.975, 1, 12.706205}, {0.975, 2, 4.302653}, {0.975, 10, 2.228139}, {0.975, 30, 2.042272}, {0.995, 4, 4.604095}, {0.95, 7, 1.894579}, {0.95, 8, 1.859548}, {0.5, 3, 0}, {0.975, 1e6, 1.959966},
	} {
		if got := StudentQuantile(c.p, c.df); math.Abs(got-c.want) > 2e-5 {
			t.Errorf("p %v, df %v: %v, want %v", c.p, c.df, got, c.want)
		}
	}
	// Worked by hand: means 2 and 5, variances of the means 1/3 and 4/3, df 2.941.
	d, half := Welch([]float64{1, 2, 3}, []float64{3, 5, 7}, 0.05)
	if math.Abs(d-3) > 1e-12 || math.Abs(half-StudentQuantile(0.975, 50.0/17)*math.Sqrt(5.0/3)) > 1e-9 {
		t.Error(d, half)
	}
	if _, half := Welch([]float64{1}, []float64{2, 3}, 0.05); !math.IsInf(half, 1) {
		t.Error(half)
	}
	if d, half := Welch([]float64{1, 1}, []float64{2, 2}, 0.05); d != 1 || half != 0 {
		t.Error(d, half)
	}
}
