package text

import (
	"fmt"
	"strings"
)

// CommandLine quotes words and joins them to a command line for sh.
func CommandLine(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = Quote(w)
	}
	return strings.Join(quoted, " ")
}

// Quote quotes a word for sh on one line. Line breaks and control characters are written by
// printf (POSIX). A word that ends with a line break is only quoted, because command
// substitution would remove that line break.
func Quote(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:=,+%", r)
	}
	if word != "" && strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0 {
		return word
	}
	control := func(r rune) bool { return r < 0x20 || r == 0x7f }
	if strings.IndexFunc(word, control) < 0 || strings.HasSuffix(word, "\n") {
		return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	var b strings.Builder
	for _, c := range []byte(word) {
		switch {
		case c == '\\':
			b.WriteString(`\\`)
		case c == '%':
			b.WriteString("%%")
		case c == '\n':
			b.WriteString(`\n`)
		case control(rune(c)) || c == '\'':
			fmt.Fprintf(&b, `\%03o`, c)
		default:
			b.WriteByte(c)
		}
	}
	return `"$(printf -- '` + b.String() + `')"`
}

// SplitCommand splits a command line of fettle's examples into words. Only single quotes quote.
func SplitCommand(line string) (words []string) {
	word, quoted, begun := "", false, false
	for _, r := range line {
		switch {
		case r == '\'':
			quoted, begun = !quoted, true
		case r == ' ' && !quoted:
			if begun {
				words = append(words, word)
			}
			word, begun = "", false
		default:
			word, begun = word+string(r), true
		}
	}
	if begun {
		words = append(words, word)
	}
	return words
}
