package text

import (
	"bytes"
	"fmt"
	"unicode/utf8"
)

// FindInvalid returns the line of the first byte that is not valid in YAML and configuration
// files, from 1, and describes that byte: a control character other than tab and line ends, or
// invalid UTF-8. If the whole text is valid, the line is 0.
func FindInvalid(text []byte) (line int, what string) {
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRune(text[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			what = fmt.Sprintf("invalid UTF-8 byte 0x%02x; not a text file?", text[i])
		case r < ' ' && r != '\t' && r != '\n' && r != '\r', r == 0x7f, r >= 0x80 && r < 0xa0 && r != 0x85:
			what = fmt.Sprintf("control character 0x%02x; not a text file?", r)
		}
		if what != "" {
			return 1 + bytes.Count(text[:i], []byte("\n")), what
		}
		i += n
	}
	return 0, ""
}
