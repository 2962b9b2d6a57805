package text

import "strings"

// Printable replaces control characters, so that the content of a file cannot control the
// terminal.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\t' {
			return ' '
		}
		if r < 0x20 || r == 0x7f || (r >= 0x80 && r < 0xa0) || r == 0x202e {
			return '\ufffd'
		}
		return r
	}, s)
}

// PrintableLine is like Printable, but returns one line, for a message or a table cell. Joined
// errors may have several lines.
func PrintableLine(s string) string {
	if !strings.Contains(s, "\n") {
		return Printable(s)
	}
	var b strings.Builder
	for line := range strings.Lines(s) {
		line = strings.TrimSpace(line)
		switch {
		case line == "":
			continue
		case strings.HasSuffix(b.String(), ":"):
			b.WriteString(" ")
		case b.Len() > 0:
			b.WriteString("; ")
		}
		b.WriteString(line)
	}
	return Printable(b.String())
}
