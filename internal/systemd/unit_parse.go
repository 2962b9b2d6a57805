package systemd

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// line is one assignment.
type line struct {
	section, key, value string
	file                string
	number              int // the first one of a line that is continued
}

func (l line) at() string { return l.file + ":" + strconv.Itoa(l.number) }

// maxLine is the longest line that systemd reads (LONG_LINE_MAX).
const maxLine = 1 << 20

const blanks = " \t\r"

// parse reads a unit file's assignments (systemd.syntax(7)): a line that ends in
// a backslash goes on in the next one, comments between them left out; what is
// no UTF-8 is left out.
func parse(file string, text []byte) []line {
	var out []line
	section := ""
	pending, first := "", 0
	number := 0
	take := func(s string, at int) {
		s = strings.Trim(s, blanks+"\n")
		switch {
		case s == "" || !utf8.ValidString(s):
		case s[0] == '[':
			if end := len(s) - 1; s[end] == ']' {
				section = s[1:end]
			} else {
				section = "" // nothing is taken until the next good one
			}
		default:
			key, value, ok := strings.Cut(s, "=")
			if ok && section != "" {
				out = append(out, line{section, strings.TrimRight(key, blanks), strings.TrimLeft(value, blanks), file, at})
			}
		}
	}
	for raw := range strings.Lines(strings.TrimPrefix(string(text), "\ufeff")) {
		number++
		if len(raw) > maxLine {
			return out // systemd reads no further
		}
		raw = strings.TrimRight(raw, "\n")
		s := strings.TrimLeft(raw, blanks)
		if s != "" && (s[0] == '#' || s[0] == ';') {
			continue
		}
		if pending == "" {
			first = number
		}
		if len(pending)+len(s) > maxLine {
			return out
		}
		if continues(s) {
			pending += s[:len(s)-1] + " "
			continue
		}
		take(pending+s, first)
		pending = ""
	}
	take(pending, first)
	return out
}

// continues is true for a line that ends in a backslash that no other escapes.
func continues(s string) bool {
	n := 0
	for n < len(s) && s[len(s)-1-n] == '\\' {
		n++
	}
	return n%2 == 1
}
