package systemd

import (
	"strings"
	"unicode/utf8"
)

// Assignment is one assignment of an environment file.
type Assignment struct {
	Name, Value string
	Line        int
}

// EnvironmentFile parses a file for EnvironmentFile= (systemd.exec(5)), such as those in
// /etc/sysconfig and /etc/default, with shell quotes and escapes but no expansions. It returns
// all assignments; the last one of a name takes precedence.
func EnvironmentFile(text string) []Assignment {
	var out []Assignment
	p := envParser{rest: text, line: 1}
	for p.rest != "" {
		p.skip(" \t\r\n")
		if p.rest == "" {
			break
		}
		if p.rest[0] == '#' || p.rest[0] == ';' {
			p.comment()
			continue
		}
		at := p.line
		name, ok := p.name()
		if !ok {
			continue
		}
		value := p.value()
		if assignment().MatchString(name+"=") && utf8.ValidString(value) {
			out = append(out, Assignment{name, value, at})
		}
	}
	return out
}

type envParser struct {
	rest string
	line int
}

func (p *envParser) next() byte {
	c := p.rest[0]
	p.rest = p.rest[1:]
	if c == '\n' {
		p.line++
	}
	return c
}

func (p *envParser) skip(set string) {
	for p.rest != "" && strings.IndexByte(set, p.rest[0]) >= 0 {
		p.next()
	}
}

// comment skips to the end of the line. A backslash at the end continues the comment.
func (p *envParser) comment() {
	for p.rest != "" {
		switch c := p.next(); {
		case c == '\\' && p.rest != "":
			p.next()
		case c == '\n':
			return
		}
	}
}

// name reads a name and the "=" after it. ok is false for a line without "=".
func (p *envParser) name() (name string, ok bool) {
	end := strings.IndexAny(p.rest, "=\n")
	if end < 0 {
		p.rest = ""
		return "", false
	}
	name = strings.TrimRight(p.rest[:end], blanks)
	isName := p.rest[end] == '='
	p.rest = p.rest[end:]
	p.next()
	return name, isName
}

func (p *envParser) value() string {
	var b strings.Builder
	keep := 0 // length without unquoted trailing blanks
	p.skip(blanks)
	for p.rest != "" {
		switch c := p.next(); c {
		case '\n':
			return b.String()[:keep]
		case '\\':
			if p.rest != "" {
				if c := p.next(); c != '\n' {
					b.WriteByte(c)
				}
			}
			keep = b.Len()
		case '\'':
			for p.rest != "" {
				c := p.next()
				if c == '\'' {
					break
				}
				b.WriteByte(c)
			}
			keep = b.Len()
		case '"':
			p.double(&b)
			keep = b.Len()
		default:
			b.WriteByte(c)
			if strings.IndexByte(blanks, c) < 0 {
				keep = b.Len()
			}
		}
	}
	return b.String()[:keep]
}

// double reads to the end of a double-quoted string. A backslash escapes the same characters
// as in a shell.
func (p *envParser) double(b *strings.Builder) {
	for p.rest != "" {
		c := p.next()
		switch {
		case c == '"':
			return
		case c == '\\' && p.rest != "":
			e := p.next()
			if e == '\n' {
				continue
			}
			if strings.IndexByte("\"\\`$", e) < 0 {
				b.WriteByte('\\')
			}
			b.WriteByte(e)
		default:
			b.WriteByte(c)
		}
	}
}
