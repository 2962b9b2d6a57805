// plaintext says where a file that should be text is none.

package text

import (
	"bytes"
	"fmt"
	"unicode/utf8"
)

// FindInvalid is the line, counted from 1, of the first byte or character that no YAML
// and no configuration has: a control character other than tab and the ends of lines,
// or what is no UTF-8. It is 0 where all of it is text.
func FindInvalid(text []byte) (line int, what string) {
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRune(text[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			what = fmt.Sprintf("the byte 0x%02x is no UTF-8: is it a text file?", text[i])
		case r < ' ' && r != '\t' && r != '\n' && r != '\r', r == 0x7f, r >= 0x80 && r < 0xa0 && r != 0x85:
			what = fmt.Sprintf("the control character 0x%02x is in it: is it a text file?", r)
		}
		if what != "" {
			return 1 + bytes.Count(text[:i], []byte("\n")), what
		}
		i += n
	}
	return 0, ""
}
