package systemd

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// line is one assignment of a unit file.
type line struct {
	section, key, value string
	file                string
	number              int // of the first line, if it is continued
}

func (l line) at() string { return l.file + ":" + strconv.Itoa(l.number) }

// maxLine is the longest line that systemd reads (LONG_LINE_MAX).
const maxLine = 1 << 20

const blanks = " \t\r"

// parse parses the assignments of a unit file (systemd.syntax(7)): a line that
// ends in a backslash continues on the next line, comments in between are
// ignored, as are lines with invalid UTF-8.
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
				section = "" // ignores lines until the next valid section
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
			return out // systemd stops reading here
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

// continues reports whether a line ends in an unescaped backslash.
func continues(s string) bool {
	n := 0
	for n < len(s) && s[len(s)-1-n] == '\\' {
		n++
	}
	return n%2 == 1
}
