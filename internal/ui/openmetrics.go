package ui

import (
	"math"
	"strings"

	"fettle.dev/fettle/internal/unit"
)

// OpenMetricsLabel quotes a label value. It replaces control characters, which the format
// allows but terminals interpret.
func OpenMetricsLabel(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < 0x20 && r != '\n' || r == 0x7f || r == 0x202e {
			return '\ufffd'
		}
		return r
	}, strings.ToValidUTF8(s, "\ufffd"))
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s) + `"`
}

// OpenMetricsValue formats a value in OpenMetrics syntax.
func OpenMetricsValue(v float64) string {
	if math.IsInf(v, 0) || math.IsNaN(v) {
		return "NaN"
	}
	return unit.Exact(v)
}
