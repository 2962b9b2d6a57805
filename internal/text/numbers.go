package text

import (
	"math"

	"fettle.dev/fettle/internal/unit"
)

// CountPlural returns a number with its noun in singular or plural.
func CountPlural(n uint64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return unit.Thousands(n) + " " + many
}

// Percent formats a ratio in whole percent.
func Percent(ratio float64) string { return unit.Digits(math.Round(100*ratio)) + " %" }
