package unit

import (
	"errors"
	"math"
	"strconv"
	"strings"
)

// Percent is a ratio in percent with as many digits as matter, without the sign of
// percent: "8.2", "-0.005", "153"; "0" for what is left of rounding, on either side.
func Percent(ratio float64) string {
	p := 100 * ratio
	switch {
	case math.Abs(p) < 1e-9: // what is left of rounding
		return "0"
	case math.IsInf(p, -1):
		return "-inf"
	case math.IsInf(p, 1):
		return "inf"
	case math.Abs(p) >= 99.95:
		return strconv.FormatFloat(math.Round(p), 'f', 0, 64)
	}
	s := strconv.FormatFloat(p, 'f', 1, 64)
	if s == "-0.0" || s == "0.0" {
		// Not nothing: a bound just beside 0 decides.
		s = strconv.FormatFloat(p, 'g', 1, 64)
	}
	return strings.TrimSuffix(s, ".0")
}

// SignedPercent is the Percent of a difference, with a plus where it is above 0.
func SignedPercent(ratio float64) string {
	text := Percent(ratio)
	if text == "0" || strings.HasPrefix(text, "-") {
		return text
	}
	return "+" + text
}

// ParsePercent reads a percentage, as 2%, and returns it as a ratio.
func ParsePercent(text string) (float64, error) {
	n, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(text, "%")), 64)
	if err != nil || !strings.HasSuffix(text, "%") || math.IsInf(n, 0) || math.IsNaN(n) {
		return 0, errors.New("want a percentage, as 2%")
	}
	return n / 100, nil
}
