package unit

import (
	"errors"
	"math"
	"strconv"
	"strings"
)

// Percent formats a ratio as a percentage without the percent sign, with the digits
// that matter: "8.2", "-0.005", "153". Rounding errors around 0 become "0".
func Percent(ratio float64) string {
	p := 100 * ratio
	switch {
	case math.Abs(p) < 1e-9: // a rounding error
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
		// Keep one digit: a confidence limit close to 0 matters.
		s = strconv.FormatFloat(p, 'g', 1, 64)
	}
	return strings.TrimSuffix(s, ".0")
}

// SignedPercent is Percent with a plus sign for positive values.
func SignedPercent(ratio float64) string {
	text := Percent(ratio)
	if text == "0" || strings.HasPrefix(text, "-") {
		return text
	}
	return "+" + text
}

// ParsePercent parses a percentage such as 2% and returns it as a ratio.
func ParsePercent(text string) (float64, error) {
	n, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(text, "%")), 64)
	if err != nil || !strings.HasSuffix(text, "%") || math.IsInf(n, 0) || math.IsNaN(n) {
		return 0, errors.New("want a percentage such as 2%")
	}
	return n / 100, nil
}
