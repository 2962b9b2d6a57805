package sizing

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/ui"
)

// bytesOf maps units printed as binary sizes to bytes.
var bytesOf = map[string]float64{"bytes": 1, "MiB": 1 << 20, "GiB": 1 << 30, "GB": 1e9}

// Amount prints a value with its unit: sizes in binary units, all other numbers in full, as they
// are set.
func Amount(v any, unit string) string {
	if n, ok := asNumber(v); ok {
		if factor, size := bytesOf[unit]; size && (unit != "bytes" || n >= 1<<20) {
			return binarySize(n * factor)
		}
		return strings.TrimSpace(strconv.FormatFloat(n, 'f', -1, 64) + " " + unit)
	}
	text := fmt.Sprint(v)
	if b, ok := v.(bool); ok {
		text = map[bool]string{true: "yes", false: "no"}[b]
	}
	return strings.TrimSpace(text + " " + unit)
}

// formatLimit prints a number in a limit with at most three significant digits; integers in full.
func formatLimit(n float64, unit string) string {
	if factor, size := bytesOf[unit]; size {
		return binarySize(n * factor)
	}
	return ui.Digits(n)
}

// binarySize prints a number of bytes with at most three significant digits.
func binarySize(bytes float64) string {
	units := []string{"bytes", "KiB", "MiB", "GiB"}
	i := 0
	for ; i < len(units)-1 && math.Abs(bytes) >= 1024; i++ {
		bytes /= 1024
	}
	return ui.Digits(bytes) + " " + units[i]
}

// percent prints the used share of a limit. Values slightly above or below the limit are not
// printed as 100 %.
func percent(l Limit) string {
	switch used := l.UsedPercent; {
	case l.Wanted > l.Maximum && used < 1000:
		return ui.Digits(math.Ceil(10*used-1e-9)/10) + " %"
	case l.Wanted < l.Maximum && used > 99.5:
		return "99.5 %"
	default:
		return ui.Digits(used) + " %"
	}
}
