package profile

import (
	"math/big"
	"strings"
	"unicode"
	"unicode/utf8"
)

// What profiles depend on here is Python's idea of white space, words and
// numbers, which differs from Go's in a few characters.

// isSpace is Python's str.isspace for one character (documentation of
// str.isspace: bidirectional type WS, B or S, or category Zs).
func isSpace(r rune) bool { return unicode.IsSpace(r) || 0x1c <= r && r <= 0x1f }

func strip(s string) string      { return strings.TrimFunc(s, isSpace) }
func stripRight(s string) string { return strings.TrimRightFunc(s, isSpace) }

// isWordRune is \w of Python's re for str patterns.
func isWordRune(r rune) bool {
	return r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r)
}

// isWord is re.match(r'\w+$', s), without Python's allowance for a newline at
// the end, which no parsed name can have.
func isWord(s string) bool {
	for _, r := range s {
		if !isWordRune(r) {
			return false
		}
	}
	return s != ""
}

// parseInt is Python's int(s, 10): white space around (not the ASCII separators,
// which strip takes away), a sign, and single underscores between digits are
// allowed, and there is no upper limit. Digits of other scripts, which int()
// takes too, are not.
func parseInt(s string) (*big.Int, bool) {
	s = strings.TrimFunc(s, unicode.IsSpace)
	digits := strings.TrimLeft(s, "+-")
	if len(s)-len(digits) > 1 || digits == "" || len(digits) > 4300 {
		return nil, false
	}
	for i := 0; i < len(digits); i++ {
		switch c := digits[i]; {
		case '0' <= c && c <= '9':
		case c == '_' && i > 0 && i < len(digits)-1 && digits[i-1] != '_':
		default:
			return nil, false
		}
	}
	return new(big.Int).SetString(strings.ReplaceAll(strings.TrimPrefix(s, "+"), "_", ""), 10)
}

// splitList splits at each comma or semicolon and removes the white space
// around them. With afterWord, a separator counts only where a word character
// ends right before it or before the white space in front of it, which is how
// TuneD reads drop= (unit.py: \b\s*[,;]\s*).
func splitList(s string, afterWord bool) []string {
	var out []string
	start := 0
	for i := 0; i < len(s); i++ {
		if s[i] != ',' && s[i] != ';' {
			continue
		}
		item := stripRight(s[start:i])
		if afterWord {
			// The word may end before the start of this item only when the item is
			// empty, and then the separator in front of it is no word character.
			last, _ := utf8.DecodeLastRuneInString(item)
			if item == "" || !isWordRune(last) {
				continue
			}
		}
		out = append(out, item)
		rest := strings.TrimLeftFunc(s[i+1:], isSpace)
		start = len(s) - len(rest)
		i = start - 1
	}
	return append(out, s[start:])
}
