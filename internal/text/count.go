// wording has what sentences for people are made of: counted nouns, and texts of
// others that are cut to a length.

package text

import (
	"fmt"
	"strings"
)

// Count is "1 node" or "3 nodes". A noun that ends in s gets es.
func Count[N ~int | ~int64](n N, noun string) string {
	switch {
	case n == 1:
		return "1 " + noun
	case strings.HasSuffix(noun, "s"):
		noun += "e"
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Truncate is a text of at most so many bytes, more than three; it ends in "..." where some of
// it was left out. No character is cut in two.
func Truncate(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most-len("...")], "") + "..."
}
