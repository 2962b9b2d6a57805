package text

import (
	"fmt"
	"strings"
)

// Suggest returns ` (did you mean "x"?)` for the nearest known word, or "" if none is near.
func Suggest(word string, known []string) string {
	if best := Nearest(word, known); best != "" {
		return fmt.Sprintf(" (did you mean %q?)", best)
	}
	return ""
}

// Nearest returns the nearest known word, or "". At most a third of the word, and at most
// three letters, may differ. It prefers a word that differs only in case.
func Nearest(word string, known []string) string {
	best, least := "", min(3, (len(word)+2)/3)+1
	for _, k := range known {
		if strings.EqualFold(word, k) {
			best, least = k, 0 // cannot be better
		}
		if max(len(k)-len(word), len(word)-len(k)) >= least {
			continue
		}
		if d := EditDistance(word, k); d < least {
			best, least = k, d
		}
	}
	return best
}

// EditDistance returns the number of edits that turn a into b: inserting, deleting or replacing
// a byte, or exchanging neighboring bytes (Damerau, 1964, without edits of exchanged bytes).
func EditDistance(a, b string) int {
	before, last := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			row[j] = 1 + min(last[j], row[j-1], last[j-1])
			if a[i-1] == b[j-1] {
				row[j] = last[j-1]
			} else if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
