package satellite

import (
	"slices"
	"strings"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/guide/platform"
)

// directed is a line of httpd's configuration.
type directed struct {
	name string // in lower case
	args []string
	line int
	// condition is the conditional section around the line, such as <IfVersion, or "".
	condition string
}

// directives parses httpd's syntax as far as these files need it: one directive per line,
// continued after a backslash, with quoted words, also within sections.
func directives(text string) []directed {
	var out []directed
	number, first, pending := 0, 0, ""
	var open []string
	for raw := range strings.Lines(text) {
		number++
		row := strings.TrimRight(raw, "\r\n")
		if pending == "" {
			first = number
		}
		if len(pending) < 1<<16 && strings.HasSuffix(row, `\`) {
			pending += row[:len(row)-1]
			continue
		}
		row, pending = strings.TrimSpace(pending+row), ""
		switch {
		case row == "" || row[0] == '#':
		case strings.HasPrefix(row, "</"):
			open = open[:max(0, len(open)-1)]
		case row[0] == '<':
			open = append(open, strings.Trim(row, "<>"))
		default:
			if w := quoted(row); len(w) > 0 {
				condition := slices.IndexFunc(open, func(s string) bool { return strings.HasPrefix(strings.ToLower(s), "if") })
				d := directed{strings.ToLower(w[0]), w[1:], first, ""}
				if condition >= 0 {
					d.condition = "<" + open[condition] + ">"
				}
				out = append(out, d)
			}
		}
	}
	return out
}

// quoted splits a line into words. "..." and '...' are one word, in which a backslash may
// precede a quote.
func quoted(row string) []string {
	var out []string
	for row = strings.TrimLeft(row, " \t"); row != ""; row = strings.TrimLeft(row, " \t") {
		if q := row[0]; q == '"' || q == '\'' {
			var b strings.Builder
			i := 1
			for ; i < len(row) && row[i] != q; i++ {
				if row[i] == '\\' && i+1 < len(row) && row[i+1] == q {
					i++
				}
				b.WriteByte(row[i])
			}
			out, row = append(out, b.String()), row[min(i+1, len(row)):]
			continue
		}
		end := strings.IndexAny(row, " \t")
		if end < 0 {
			end = len(row)
		}
		out, row = append(out, row[:end]), row[end:]
	}
	return out
}

// web returns a function that answers with an option of the whole httpd, as httpd reads it: from
// its main file, included files, and defaults.
func web(option string) func(*satellite) fact.Answer {
	return func(s *satellite) fact.Answer {
		if there, unknown := s.setUp("httpd"); !there {
			return fact.Answer{Unknown: unknown}
		}
		return s.subject.Answer("httpd." + option)
	}
}

// virtualHost returns a function that answers with a directive of Foreman's virtual host,
// preferably the TLS one.
func virtualHost(name string) func(*satellite) fact.Answer {
	kind := fact.Number
	if name == "keepalive" {
		kind = fact.Text
	}
	return func(s *satellite) fact.Answer {
		var last fact.Answer
		for _, p := range []string{"/etc/httpd/conf.d/05-foreman-ssl.conf", "/etc/httpd/conf.d/05-foreman.conf"} {
			f := s.read(p)
			if !f.exists {
				last = f.answer()
				continue
			}
			last = fact.Answer{At: p}
			for _, d := range directives(f.text) {
				if d.name == name && d.condition != "" {
					last = fact.Answer{Unknown: "inside " + d.condition + "; unknown whether httpd reads this directive: set it outside the condition", At: f.at(d.line)}
				} else if d.name == name && len(d.args) == 1 {
					last = platform.Typed(d.args[0], kind, f.at(d.line))
				}
			}
			if last.Value != nil || last.Unknown != "" {
				return last
			}
		}
		return last
	}
}
