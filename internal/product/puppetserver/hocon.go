package puppetserver

import (
	"fmt"
	"strings"

	"fettle.dev/fettle/internal/product/conf"
)

// hocon returns the scalars of a HOCON file (lightbend/config, HOCON.md), with their full path:
// "jruby-puppet.max-active-instances". It omits references (${...}), concatenations, and values in
// lists.
func hocon(text string) ([]conf.Assignment, error) { return (&parser{text: text, line: 1}).all() }

// all parses the whole file.
func (p *parser) all() ([]conf.Assignment, error) {
	text := p.text
	p.blank(true)
	braces := p.at < len(text) && text[p.at] == '{'
	if braces {
		p.at++
	}
	if err := p.object("", 0, braces); err != nil {
		return nil, err
	}
	p.blank(true)
	if p.at < len(text) {
		return nil, p.errorf("%.20q after the end", text[p.at:])
	}
	return p.out, nil
}

type parser struct {
	text string
	at   int
	line int
	out  []conf.Assignment
	// lists includes values in lists, such as "authorization.rules[3].allow".
	lists bool
}

const maxNesting = 64

func (p *parser) errorf(format string, a ...any) error {
	return fmt.Errorf("%d: "+format, append([]any{p.line}, a...)...)
}

// blank skips blanks and comments; if lines is set also newlines and commas.
func (p *parser) blank(lines bool) {
	for p.at < len(p.text) {
		switch c := p.text[p.at]; {
		case c == '\n' && lines:
			p.line++
			p.at++
		case c == ',' && lines, c == ' ', c == '\t', c == '\r':
			p.at++
		case c == '#' || strings.HasPrefix(p.text[p.at:], "//"):
			for p.at < len(p.text) && p.text[p.at] != '\n' {
				p.at++
			}
		default:
			return
		}
	}
}

// object parses an object's fields up to its closing brace, or to the end of the file.
func (p *parser) object(prefix string, depth int, braces bool) error {
	if depth > maxNesting {
		return p.errorf("objects nest more than %d deep", maxNesting)
	}
	for {
		p.blank(true)
		switch {
		case p.at == len(p.text) && braces:
			return p.errorf("{ is not closed")
		case p.at == len(p.text):
			return nil
		case p.text[p.at] == '}' && braces:
			p.at++
			return nil
		}
		if rest, ok := strings.CutPrefix(p.text[p.at:], "include "); ok {
			name, _, _ := strings.Cut(rest, "\n")
			p.at += len("include ") + len(name)
			continue
		}
		path, err := p.path()
		if err != nil {
			return err
		}
		if prefix != "" {
			path = prefix + "." + path
		}
		if err := p.value(path, depth); err != nil {
			return err
		}
	}
}

// path parses a key: elements separated by dots, which may be quoted.
func (p *parser) path() (string, error) {
	var b strings.Builder
	for p.at < len(p.text) {
		switch c := p.text[p.at]; {
		case c == '"':
			s, ok := p.quoted()
			if !ok {
				return "", p.errorf("a quote is not closed")
			}
			b.WriteString(s)
		case c == ':' || c == '=' || c == '{' || strings.HasPrefix(p.text[p.at:], "+="):
			if path := strings.TrimSpace(b.String()); path != "" {
				return path, nil
			}
			return "", p.errorf("a value without a key")
		case c == '\n' || c == '}' || c == ']' || c == '[' || c == ',' || c == '#':
			return "", p.errorf("%.40q is not a key with a value", b.String())
		default:
			b.WriteByte(c)
			p.at++
		}
	}
	return "", p.errorf("%.40q is not a key with a value", b.String())
}

// quoted parses a quoted string and keeps its escapes unresolved.
func (p *parser) quoted() (string, bool) {
	if strings.HasPrefix(p.text[p.at:], `"""`) {
		end := strings.Index(p.text[p.at+3:], `"""`)
		if end < 0 {
			return "", false
		}
		s := p.text[p.at+3 : p.at+3+end]
		p.line += strings.Count(s, "\n")
		p.at += end + 6
		return s, true
	}
	for i := p.at + 1; i < len(p.text) && p.text[i] != '\n'; i++ {
		switch p.text[i] {
		case '\\':
			i++
		case '"':
			s := p.text[p.at+1 : i]
			p.at = i + 1
			return s, true
		}
	}
	return "", false
}

// value parses a key's value; adjacent objects are merged.
func (p *parser) value(path string, depth int) error {
	if c := p.text[p.at]; c != '{' {
		p.at++
		if c == '+' {
			p.at++
		}
	}
	p.blank(true)
	if p.at == len(p.text) {
		return p.errorf("%s has no value", path)
	}
	parts, plain := 0, conf.Assignment{Key: path, Line: p.line}
	for {
		p.blank(false)
		if p.at == len(p.text) {
			break
		}
		c := p.text[p.at]
		if c == '\n' || c == ',' || c == '}' || c == ']' {
			break
		}
		parts++
		switch {
		case c == '{':
			p.at++
			if err := p.object(path, depth+1, true); err != nil {
				return err
			}
			parts++ // not a scalar
		case c == '[':
			if err := p.list(path, depth+1); err != nil {
				return err
			}
			parts++
		case c == '"':
			from := p.at
			if _, ok := p.quoted(); !ok {
				return p.errorf("a quote is not closed")
			}
			plain.From, plain.To = from, p.at
		default:
			from := p.at
			for p.at < len(p.text) && strings.IndexByte(" \t\r\n,}]{[\"#", p.text[p.at]) < 0 && !strings.HasPrefix(p.text[p.at:], "//") {
				p.step()
			}
			plain.From, plain.To = from, p.at
		}
	}
	if parts == 0 {
		return p.errorf("%s has no value", path)
	}
	plain.Literal = p.text[plain.From:plain.To]
	if parts == 1 && !strings.Contains(plain.Literal, "$") && !strings.HasPrefix(plain.Literal, `"""`) && conf.OneLine(plain.Literal) == nil {
		p.out = append(p.out, plain)
	}
	return nil
}

// list parses a list and, unless lists is set, drops its values.
func (p *parser) list(path string, depth int) error {
	if depth > maxNesting {
		return p.errorf("lists nest more than %d deep", maxNesting)
	}
	keep, item := len(p.out), 0
	for p.at++; ; {
		p.blank(true)
		if p.at == len(p.text) {
			return p.errorf("[ is not closed")
		}
		here := fmt.Sprintf("%s[%d]", path, item)
		switch c := p.text[p.at]; c {
		case ']':
			p.at++
			if !p.lists {
				p.out = p.out[:keep] // values in a list have no path
			}
			return nil
		case '[':
			if err := p.list(here, depth+1); err != nil {
				return err
			}
			item++
		case '{':
			p.at++
			if err := p.object(here, depth+1, true); err != nil {
				return err
			}
			item++
		case '"':
			from, line := p.at, p.line
			if _, ok := p.quoted(); !ok {
				return p.errorf("a quote is not closed")
			}
			p.out = append(p.out, conf.Assignment{Key: here, Literal: p.text[from:p.at], Line: line, From: from, To: p.at})
			item++
		case '}':
			return p.errorf("[ is not closed")
		default:
			p.step()
		}
	}
}

// step skips one byte, or a reference such as ${jruby-puppet.gem-home}.
func (p *parser) step() {
	if end := strings.IndexAny(p.text[p.at:], "}\n"); end > 0 && strings.HasPrefix(p.text[p.at:], "${") && p.text[p.at+end] == '}' {
		p.at += end
	}
	p.at++
}
