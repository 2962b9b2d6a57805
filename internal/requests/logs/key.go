package logs

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"
)

// key splits a key's text into its parts.
func key(text []byte) []string {
	var out []string
	for part := range bytes.SplitSeq(text, []byte{Separator}) {
		out = append(out, shown(part))
	}
	return out
}

// shown converts text for display and JSON: invalid UTF-8 bytes become \xhh.
func shown(text []byte) string {
	if utf8.Valid(text) {
		return string(text)
	}
	var b strings.Builder
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		if r == utf8.RuneError && n == 1 {
			fmt.Fprintf(&b, `\x%02x`, text[0])
		} else {
			b.Write(text[:n])
		}
		text = text[n:]
	}
	return b.String()
}
