package sizing

import (
	"fmt"
	"math"
	"strings"

	"fettle.dev/fettle/internal/unit"
)

// bytesOf maps units printed as binary sizes to bytes.
var bytesOf = map[string]float64{"bytes": 1, "MiB": 1 << 20, "GiB": 1 << 30, "GB": 1e9}

// Amount prints a value with its unit. Sizes are printed in binary units, and other quantities as
// unit.Digits does. Numbers without a unit keep all digits, because they are values of settings.
func Amount(v any, of string) string {
	if n, ok := asNumber(v); ok {
		if factor, size := bytesOf[of]; size && (of != "bytes" || n >= 1<<20) {
			return unit.Size(n * factor).Human()
		}
		if of == "" {
			return unit.Exact(n)
		}
		if n == 1 {
			of = singular(of)
		}
		if of == "1/s" {
			return unit.Digits(n) + "/s"
		}
		return unit.Digits(n) + " " + of
	}
	text := fmt.Sprint(v)
	if b, ok := v.(bool); ok {
		text = map[bool]string{true: "yes", false: "no"}[b]
	}
	return strings.TrimSpace(text + " " + of)
}

// singular returns the singular of a unit that is a plural noun: node of nodes, request/s of
// requests/s. Other units ("s", "ms", "1/s", "%") stay.
func singular(of string) string {
	noun, per, rate := strings.Cut(of, "/")
	switch {
	case strings.HasSuffix(noun, "sses"):
		noun = strings.TrimSuffix(noun, "es")
	case len(noun) > 2:
		noun = strings.TrimSuffix(noun, "s")
	}
	if rate {
		return noun + "/" + per
	}
	return noun
}

// formatLimit prints a number of a limit with at most three significant digits, integers in full.
func formatLimit(n float64, of string) string {
	if factor, size := bytesOf[of]; size {
		return unit.Size(n * factor).Human()
	}
	return unit.Digits(n)
}

// percent prints the used share of a limit. Values slightly above or below the limit are not
// printed as 100 %.
func percent(l Limit) string {
	switch used := l.UsedPercent; {
	case l.Wanted > l.Maximum && used < 1000:
		return unit.Digits(math.Ceil(10*used-1e-9)/10) + " %"
	case l.Wanted < l.Maximum && used > 99.5:
		return "99.5 %"
	default:
		return unit.Digits(used) + " %"
	}
}
