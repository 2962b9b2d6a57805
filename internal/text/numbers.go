package text

import (
	"fmt"
	"strconv"
)

// CountPlural is a number with its noun.
func CountPlural(n uint64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return Thousands(n) + " " + many
}

// Thousands writes a count with commas.
func Thousands(n uint64) string {
	text := strconv.FormatUint(n, 10)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// Percent is a ratio for a table.
func Percent(ratio float64) string { return fmt.Sprintf("%.0f %%", 100*ratio) }
