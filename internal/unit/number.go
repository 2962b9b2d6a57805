package unit

import (
	"math"
	"strconv"
	"strings"
)

// Digits formats a number for people: three significant digits, integers in full with commas,
// and no exponent: "0.0123", "31.4", "12,345". It returns "-" for NaN.
func Digits(v float64) string {
	abs := math.Abs(v)
	if abs >= 100 || abs < 1e-12 || v == math.Trunc(v) || math.IsNaN(v) {
		return Decimals(v, 0)
	}
	return Decimals(v, 2-int(math.Floor(math.Log10(abs))))
}

// Decimals formats a number for people like Digits, rounded to a number of decimals; zeros at
// the end are omitted.
func Decimals(v float64, decimals int) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return NotMeasured
	}
	if decimals == 0 {
		v, decimals = math.Round(v), -1
	}
	whole, fraction, _ := strings.Cut(strconv.FormatFloat(math.Abs(v), 'f', decimals, 64), ".")
	text := commas(whole)
	if fraction = strings.TrimRight(fraction, "0"); fraction != "" {
		text += "." + fraction
	}
	if v < 0 && text != "0" {
		return "-" + text
	}
	return text
}

// Thousands formats a count with commas.
func Thousands(n uint64) string { return commas(strconv.FormatUint(n, 10)) }

func commas(whole string) string {
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	return whole
}

// Exact formats a number for programs and commands: all digits that it needs to be read back,
// without an exponent and without commas.
func Exact(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
