package rhel6

import (
	"fmt"
	"strings"

	"fettle.dev/fettle/internal/text"
)

// line is one "name = value" of a RHEL 6 file.
type line struct {
	no    int
	name  string
	value string
	text  string // as written
}

// parseSysctl parses sysctl.conf(5): name = value, comments with # and ;, and a leading - to
// ignore errors. It also returns the invalid lines.
func parseSysctl(text string) (lines []line, bad []line) {
	for i, raw := range strings.Split(text, "\n") {
		s := strings.TrimSpace(raw)
		if s == "" || s[0] == '#' || s[0] == ';' {
			continue
		}
		l := line{no: i + 1, text: s}
		name, value, ok := strings.Cut(s, "=")
		l.name = strings.TrimSpace(strings.TrimPrefix(name, "-"))
		l.value = strings.TrimSpace(value)
		if !ok || !sysctlName().MatchString(l.name) || l.value == "" {
			bad = append(bad, l)
			continue
		}
		lines = append(lines, l)
	}
	return lines, bad
}

var sysctlName = text.LazyRegexp(`^[A-Za-z0-9_][A-Za-z0-9_:@%+-]*([./][A-Za-z0-9_:@%+-]+)+$`)

// section is one section of an old tuned.conf.
type section struct {
	no    int
	name  string
	lines []line
}

// parseConf parses an old tuned.conf as its ConfigParser did: sections, name = value or name:
// value, comments with # and ;.
func parseConf(text string) ([]section, error) {
	var sections []section
	for i, raw := range strings.Split(text, "\n") {
		s := strings.TrimSpace(raw)
		switch {
		case s == "" || s[0] == '#' || s[0] == ';':
		case s[0] == '[':
			end := strings.IndexByte(s, ']')
			if end < 0 {
				return nil, &syntaxError{i + 1, "a section name is not closed"}
			}
			sections = append(sections, section{no: i + 1, name: strings.TrimSpace(s[1:end])})
		case len(sections) == 0:
			return nil, &syntaxError{i + 1, fmt.Sprintf("%q before the first section", oneLine(s))}
		default:
			l := line{no: i + 1, text: s}
			at := strings.IndexAny(s, "=:")
			if at < 0 {
				return nil, &syntaxError{i + 1, fmt.Sprintf("%q is neither a section nor name=value", oneLine(s))}
			}
			l.name, l.value = strings.ToLower(strings.TrimSpace(s[:at])), strings.TrimSpace(s[at+1:])
			if j := strings.Index(l.value, " ;"); j >= 0 { // ConfigParser's only form of inline comment
				l.value = strings.TrimSpace(l.value[:j])
			}
			last := &sections[len(sections)-1]
			last.lines = append(last.lines, l)
		}
	}
	return sections, nil
}

var assignment = text.LazyRegexp(`^([A-Za-z_][A-Za-z0-9_]*)=`)

// parseSysconfig parses shell assignments as data, without expanding or running anything. rest has
// all lines that are not plain assignments.
func parseSysconfig(text string) (lines []line, rest []line, err error) {
	tokens, err := lex(text)
	if err != nil {
		return nil, nil, err
	}
	exported := false
	for i := 0; i < len(tokens); i++ {
		t := tokens[i]
		if t.kind == newline || t.kind == comment || t.kind == operator && t.text == ";" {
			exported = false
			continue
		}
		l := line{no: t.line, text: oneLine(t.text)}
		begins := i == 0 || exported || tokens[i-1].kind == newline || tokens[i-1].text == ";" && tokens[i-1].kind == operator
		if begins && t.kind == word && t.text == "export" {
			exported = true
			continue
		}
		m := assignment().FindStringSubmatch(t.text)
		ends := i+1 == len(tokens) || tokens[i+1].kind != word && tokens[i+1].kind != operator || tokens[i+1].text == ";"
		if !begins || m == nil || !ends || strings.ContainsAny(expansions(t), "$`") {
			// The whole command is not data: report it once, by its first word.
			rest = append(rest, l)
			for i+1 < len(tokens) && tokens[i+1].kind != newline {
				i++
			}
			continue
		}
		l.name = m[1]
		l.value = t.value[len(m[0]):]
		lines = append(lines, l)
	}
	return lines, rest, nil
}

// expansions returns the parts of an assignment's value that the shell would expand. Globs and
// braces are not expanded in an assignment.
func expansions(t token) string {
	if t.literal {
		return ""
	}
	single, double := false, false
	var out strings.Builder
	for i := 0; i < len(t.text); i++ {
		switch c := t.text[i]; {
		case c == '\'' && !double:
			single = !single
		case c == '"' && !single:
			double = !double
		case single:
		case c == '\\':
			i++
		case c == '$' || c == '`':
			out.WriteByte(c)
		}
	}
	return out.String()
}

// expandBraces is the shell's brace expansion of commas: a{b,c}d becomes abd acd. It returns an
// error beyond 256 words, because nested braces multiply.
func expandBraces(s string) ([]string, error) {
	const most = 256
	out := []string{s}
	for again := true; again; {
		again = false
		var next []string
		for _, w := range out {
			open, shut, commas := brace(w)
			if open < 0 {
				next = append(next, w)
				continue
			}
			again = true
			from := open + 1
			for _, c := range append(commas, shut) {
				next = append(next, w[:open]+w[from:c]+w[shut+1:])
				from = c + 1
			}
			if len(next) > most {
				return nil, fmt.Errorf("%q expands to more than %d words", oneLine(s), most)
			}
		}
		out = next
	}
	return out, nil
}

// brace returns the first pair of braces that contains a comma. open is -1 if none exists.
func brace(w string) (open, shut int, commas []int) {
	for start := 0; start < len(w); start++ {
		if w[start] != '{' {
			continue
		}
		depth := 0
		commas = nil
		for i := start; i < len(w); i++ {
			switch w[i] {
			case '{':
				depth++
			case ',':
				if depth == 1 {
					commas = append(commas, i)
				}
			case '}':
				if depth--; depth == 0 && len(commas) > 0 {
					return start, i, commas
				}
			}
			if depth == 0 {
				break
			}
		}
	}
	return -1, -1, nil
}

// oneLine converts text to one line, for messages and for comments in generated files.
func oneLine(s string) string {
	const most = 160
	s = strings.Map(func(r rune) rune {
		if r == '\t' || r == '\n' {
			return ' '
		}
		if r < ' ' || r == 0x7f || r == '\uFFFD' || r >= 0x80 && r < 0xa0 || r == 0x2028 || r == 0x2029 {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
	s = strings.TrimSpace(s)
	if len(s) > most {
		cut := most
		for cut > 0 && s[cut]&0xC0 == 0x80 {
			cut--
		}
		s = s[:cut] + "..."
	}
	return s
}
