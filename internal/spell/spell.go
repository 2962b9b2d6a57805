// Package spell finds the word that somebody may have meant.
package spell

import (
	"fmt"
	"strings"
)

// Suggest is ` (did you mean "x"?)` for the nearest of the known words, or
// empty where none is near: at most a third of the word, and at most three
// letters, may differ, and one that differs in case alone comes first.
func Suggest(word string, known []string) string {
	best, least := "", min(3, (len(word)+2)/3)+1
	for _, k := range known {
		if strings.EqualFold(word, k) {
			best, least = k, 0 // nothing is nearer
		}
		if max(len(k)-len(word), len(word)-len(k)) >= least {
			continue
		}
		if d := distance(word, k); d < least {
			best, least = k, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %q?)", best)
}

// distance is the number of bytes to insert, delete or replace (Levenshtein,
// 1966).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			d := diagonal
			if a[i] != b[j] {
				d = 1 + min(d, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], d
		}
	}
	return row[len(b)]
}
