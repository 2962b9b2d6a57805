package text

import (
	"strings"

	"fettle.dev/fettle/internal/unit"
)

// Count returns "1 node" or "3,000 nodes". A noun that ends in s gets es.
func Count[N ~int | ~int64 | ~uint64](n N, noun string) string {
	switch {
	case n == 1:
		return "1 " + noun
	case strings.HasSuffix(noun, "s"):
		noun += "e"
	}
	return unit.Digits(float64(n)) + " " + noun + "s"
}

// Truncate shortens a text to at most most bytes (more than three). A shortened text ends in
// "...". Characters are not split.
func Truncate(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most-len("...")], "") + "..."
}
