package systemd

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"fettle.dev/fettle/internal/text"
)

// line is one assignment of a unit file.
type line struct {
	section, key, value string
	file                string
	number              int // of the first line, if the assignment is continued
}

func (l line) at() string { return l.file + ":" + strconv.Itoa(l.number) }

// maxLine is systemd's maximum length of a line, in bytes (LONG_LINE_MAX).
const maxLine = 1 << 20

const blanks = " \t\r"

// parse parses the assignments of a unit file (systemd.syntax(7)). A line that ends in a
// backslash continues on the next line. Comments in between and lines with invalid UTF-8 are
// ignored.
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
				section = "" // invalid section: ignore lines until the next valid one
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

// Command returns the arguments of a service's last ExecStart=, and its location FILE:LINE.
// Specifiers and variables are replaced as in systemd.service(5), "Command lines". argv is nil
// without ExecStart=.
func (u *Unit) Command() (argv []string, at string) {
	all := u.All("Service", "ExecStart")
	if len(all) == 0 {
		return nil, ""
	}
	last := all[len(all)-1]
	words, _ := split(last.Text)
	if len(words) == 0 {
		return nil, last.At
	}
	name := strings.TrimLeft(words[0], "-@:+!|")
	prefix := words[0][:len(words[0])-len(name)]
	words[0] = name
	if strings.Contains(prefix, "@") && len(words) > 1 { // the second word is argv[0]
		words = append(words[:1], words[2:]...)
	}
	env, _ := u.Environment()
	for _, w := range words {
		w = u.expand(w)
		if strings.Contains(prefix, ":") {
			argv = append(argv, w)
			continue
		}
		if m := wholeVariable().FindStringSubmatch(w); m != nil {
			argv = append(argv, strings.Fields(env[m[1]].Text)...)
			continue
		}
		argv = append(argv, variable().ReplaceAllStringFunc(w, func(s string) string {
			if s == "$$" {
				return "$"
			}
			return env[s[2:len(s)-1]].Text
		}))
	}
	return argv, last.At
}

var (
	wholeVariable = text.LazyRegexp(`^\$([A-Za-z_][A-Za-z0-9_]*)$`)
	variable      = text.LazyRegexp(`\$\$|\$\{[A-Za-z_][A-Za-z0-9_]*\}`)
)
