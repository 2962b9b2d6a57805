package profile

import (
	"strings"
	"unicode/utf8"
)

// configFile is a parsed file in TuneD's dialect: Python's ConfigParser(delimiters="=",
// inline_comment_prefixes="#", strict=False), optionxform=str, values raw (Python library
// reference, configparser).
type configFile struct {
	sections []*section // in order of first appearance, without [DEFAULT]
	defaults *section
	repeated []repeated
}

// repeated is a name that occurs more than once in a section; the last value counts.
type repeated struct {
	section       string
	earlier, last *entry
}

type section struct {
	name string
	pos  Pos
	keys *ordered[*entry]
}

type entry struct {
	key   string
	value string
	// valueless marks a line without "=", which only files with noValue may have.
	valueless bool
	pos       Pos
}

const defaultSection = "DEFAULT"

func newSection(name string, pos Pos) *section {
	return &section{name: name, pos: pos, keys: newOrdered[*entry]()}
}

// options returns a section's entries in the order of ConfigParser.options: its own first, then
// those of [DEFAULT].
func (f *configFile) options(s *section) []*entry {
	out := s.keys.values()
	for _, e := range f.defaults.keys.values() {
		if _, own := s.keys.get(e.key); !own {
			out = append(out, e)
		}
	}
	return out
}

func (f *configFile) section(name string) *section {
	for _, s := range f.sections {
		if s.name == name {
			return s
		}
	}
	return nil
}

// parseSyntax selects a variant of the file syntax.
type parseSyntax struct {
	// headerless files may start with lines before any header (tuned-main.conf, variables files).
	headerless bool
	// noValue allows keys without "=" (variables files).
	noValue bool
}

// headerlessSection is the name of the section at the start of a headerless file. No header can
// have this name, because a header is one line.
const headerlessSection = "\n"

// maxConfigSize is the maximum size of a profile or variables file, in bytes.
const maxConfigSize = 1 << 20

// parseConfig parses data. It returns all errors at once, each with its line, as ConfigParser
// does.
func parseConfig(file string, data []byte, syntax parseSyntax) (*configFile, error) {
	if len(data) > maxConfigSize {
		return nil, errAt(Pos{File: file}, "file larger than %d KiB", maxConfigSize>>10)
	}
	p := configParser{file: file, syntax: syntax, byName: map[string]*section{}}
	p.out.defaults = newSection(defaultSection, Pos{File: file})
	if syntax.headerless {
		p.openSection(headerlessSection, Pos{File: file, Line: 1})
	}
	text := strings.ReplaceAll(string(data), "\r\n", "\n")
	text = strings.ReplaceAll(text, "\r", "\n")
	for text != "" {
		line, rest, _ := strings.Cut(text, "\n")
		text = rest
		p.line++
		if !p.parseLine(line) {
			break
		}
	}
	p.endValue()
	if err := p.errs.orNil(); err != nil {
		return nil, err
	}
	return &p.out, nil
}

type configParser struct {
	file   string
	syntax parseSyntax
	out    configFile
	byName map[string]*section
	errs   Errors

	line    int
	indent  int // indentation, in characters, of the line that began the current value or section
	cur     *section
	option  *entry   // the option whose value may continue
	pending []string // lines of that value
}

func (p *configParser) pos() Pos { return Pos{p.file, p.line} }

// parseLine parses one line. It returns false if parsing cannot continue after it.
func (p *configParser) parseLine(line string) bool {
	value, commented := stripComment(line)
	if value == "" {
		// An empty line is part of a continued value; a comment is not.
		if !commented && p.option != nil && !p.option.valueless {
			p.pending = append(p.pending, "")
		}
		return true
	}
	indent := utf8.RuneCountInString(line) - utf8.RuneCountInString(strings.TrimLeftFunc(line, isSpace))
	if p.option != nil && indent > p.indent {
		if p.option.valueless {
			p.errs = append(p.errs, errAt(p.pos(), "this line continues the value of %q, but line %d has no \"=\"", p.option.key, p.option.pos.Line))
			return true
		}
		p.pending = append(p.pending, value)
		return true
	}
	p.indent = indent
	if name, ok := sectionHeader(value); ok {
		p.endValue()
		p.openSection(name, p.pos())
		return true
	}
	if p.cur == nil {
		p.errs = append(p.errs, errAt(p.pos(), "expected a [section] before %q", value))
		return false
	}
	key, val, hasValue := strings.Cut(value, "=")
	key = stripRight(key)
	switch {
	case key == "":
		p.errs = append(p.errs, errAt(p.pos(), "no name before \"=\""))
		return true
	case !hasValue && !p.syntax.noValue:
		p.errs = append(p.errs, errAt(p.pos(), "expected name=value or [section], found %q", value))
		return true
	}
	p.endValue()
	p.option = &entry{key: key, valueless: !hasValue, pos: p.pos()}
	p.pending = append(p.pending[:0], strip(val))
	if earlier, ok := p.cur.keys.get(key); ok {
		p.out.repeated = append(p.out.repeated, repeated{p.cur.name, earlier, p.option})
	}
	p.cur.keys.set(key, p.option) // a repeated key keeps its position; the last value wins
	return true
}

func (p *configParser) endValue() {
	if p.option != nil && !p.option.valueless {
		p.option.value = stripRight(strings.Join(p.pending, "\n"))
	}
	p.option = nil
}

func (p *configParser) openSection(name string, pos Pos) {
	p.option = nil
	if name == defaultSection {
		p.cur = p.out.defaults
		return
	}
	s := p.byName[name]
	if s == nil {
		s = newSection(name, pos)
		p.byName[name] = s
		p.out.sections = append(p.out.sections, s)
	}
	p.cur = s
}

// stripComment removes a comment and surrounding white space. A "#" starts a comment at the
// beginning of the line or after white space. A line that starts with "#" or ";" is a comment.
func stripComment(line string) (value string, commented bool) {
	stripped := strip(line)
	if strings.HasPrefix(stripped, "#") || strings.HasPrefix(stripped, ";") {
		return "", true
	}
	for i := 0; i < len(line); i++ {
		if line[i] != '#' {
			continue
		}
		before, _ := utf8.DecodeLastRuneInString(line[:i])
		if i == 0 || isSpace(before) {
			return strip(line[:i]), true
		}
	}
	return stripped, false
}

// sectionHeader matches \[(.+)\] at the start: the name extends to the last bracket, and
// text after it is ignored.
func sectionHeader(value string) (string, bool) {
	end := strings.LastIndexByte(value, ']')
	if value[0] != '[' || end < 2 {
		return "", false
	}
	return value[1:end], true
}
