package unit

import (
	"math"
	"testing"
)

func TestPercent(t *testing.T) {
	for ratio, want := range map[float64]string{0.082: "+8.2", -0.0987: "-9.9", -0.06: "-6", 0: "0", math.Copysign(0, -1): "0", -1e-15: "0", 1e-15: "0",
		-0.00005: "-0.005", 0.0004: "+0.04", 1.53: "+153", -0.9996: "-100", math.Inf(1): "+inf", math.Inf(-1): "-inf"} {
		if got := SignedPercent(ratio); got != want {
			t.Errorf("%v: %q, want %q", ratio, got, want)
		}
	}
}

func TestParsePercent(t *testing.T) {
	for text, want := range map[string]float64{"2%": 0.02, " 0.5 %": 0.005, "-3%": -0.03, "100%": 1} {
		if got, err := ParsePercent(text); err != nil || math.Abs(got-want) > 1e-12 {
			t.Errorf("%q: %v %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "2", "%", "two%", "inf%", "NaN%", "1%%"} {
		if got, err := ParsePercent(text); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}
