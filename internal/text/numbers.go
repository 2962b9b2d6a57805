package text

import (
	"fmt"
	"strconv"
)

// CountPlural returns a number with its noun in singular or plural.
func CountPlural(n uint64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return Thousands(n) + " " + many
}

// Thousands formats a count with commas.
func Thousands(n uint64) string {
	text := strconv.FormatUint(n, 10)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// Percent formats a ratio in whole percent.
func Percent(ratio float64) string { return fmt.Sprintf("%.0f %%", 100*ratio) }
