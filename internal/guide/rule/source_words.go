package rule

import "strings"

// SourceWords names the sources of a rule in one line.
func SourceWords(sources []Source) string {
	var words []string
	for _, src := range sources {
		words = append(words, src.String())
	}
	return strings.Join(words, "; ")
}
