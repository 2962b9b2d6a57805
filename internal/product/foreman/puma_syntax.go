package foreman

import (
	"errors"
	"fmt"
	"strings"

	"fettle.dev/fettle/internal/product/conf"
	"fettle.dev/fettle/internal/text"
)

// syntax is the syntax of three kinds of files: systemd units with Environment=NAME=NUMBER,
// environment files, and Puma's own Ruby calls. It finds only literal numbers, because these can be
// restored.
type syntax struct{}

// Key implements conf.Syntax. It accepts workers, threads_min, threads_max, or an environment
// variable.
func (syntax) Key(name string) (string, error) { return conf.Words{}.Key(name) }

var (
	section     = text.LazyRegexp(`^\[([^\]]+)\]$`)
	environment = text.LazyRegexp(`^Environment\s*=`)
	word        = text.LazyRegexp(`(^|[\s"'])([A-Za-z_][A-Za-z0-9_]*)=([0-9]{1,9})(["'\s]|$)`)
	assigned    = text.LazyRegexp(`^([A-Z_][A-Z0-9_]*)=([0-9]{1,9})$`)
)

// isUnit reports whether a text is a systemd unit file.
func isUnit(text string) bool {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line != "" && line[0] != '#' && line[0] != ';' {
			return section().MatchString(line)
		}
	}
	return false
}

// Assignments implements conf.Syntax.
func (syntax) Assignments(text string) ([]conf.Assignment, error) {
	if !isUnit(text) {
		return append(rubyAssignments(text), variables(text)...), nil
	}
	var out []conf.Assignment
	at, in, continued := 0, "", false
	for n, line := range strings.SplitAfter(text, "\n") {
		begin := at
		at += len(line)
		body := strings.Trim(line, " \t\r\n")
		goesOn := strings.HasSuffix(body, `\`)
		if m := section().FindStringSubmatch(body); m != nil && !continued {
			in = m[1]
		}
		// Only simple quotes and escapes of systemd are understood.
		if !continued && !goesOn && in == "Service" && environment().MatchString(body) && !strings.Contains(body, `\`) {
			eq := strings.IndexByte(body, '=') + 1
			offset := begin + strings.Index(line, body) + eq
			out = append(out, words(body[eq:], offset, n+1)...)
		}
		continued = goesOn && (continued || body[0] != '#' && body[0] != ';')
	}
	return out, nil
}

// words returns the numbers in the words of Environment=; offset is the position of the first word.
func words(text string, offset, line int) (out []conf.Assignment) {
	for from := 0; ; {
		m := word().FindStringSubmatchIndex(text[from:])
		if m == nil {
			return out
		}
		opened, closed := text[from+m[2]:from+m[3]], text[from+m[8]:from+m[9]]
		quoted := opened == `"` || opened == "'"
		inside := strings.Count(text[:from+m[3]], `"`)%2 == 1 || strings.Count(text[:from+m[3]], "'")%2 == 1
		if quoted && closed == opened && inside || !quoted && strings.TrimSpace(closed) == "" && !inside {
			out = append(out, conf.Assignment{Key: text[from+m[4] : from+m[5]], Literal: text[from+m[6] : from+m[7]], Line: line, From: offset + from + m[6], To: offset + from + m[7]})
		}
		from += m[7]
	}
}

// rubyAssignments returns the calls with plain numbers in a Ruby configuration.
func rubyAssignments(text string) (out []conf.Assignment) {
	c := readRuby(text)
	for _, p := range parameters {
		if n := c.number(p.Name); n != nil && n.to > 0 {
			out = append(out, conf.Assignment{Key: p.Name, Literal: n.literal, Line: n.line, From: n.from, To: n.to})
		}
	}
	return out
}

// variables returns the NAME=NUMBER lines of an environment file.
func variables(text string) (out []conf.Assignment) {
	at := 0
	for n, line := range strings.SplitAfter(text, "\n") {
		begin := at
		at += len(line)
		body := strings.Trim(line, " \t\r\n")
		if m := assigned().FindStringSubmatch(body); m != nil {
			from := begin + strings.Index(line, body) + len(m[1]) + 1
			out = append(out, conf.Assignment{Key: m[1], Literal: m[2], Line: n + 1, From: from, To: from + len(m[2])})
		}
	}
	return out
}

// Literal implements conf.Syntax. It accepts whole numbers of at most nine digits.
func (syntax) Literal(value string) (string, error) {
	if !digits().MatchString(value) || len(value) > 1 && value[0] == '0' {
		return "", fmt.Errorf("%q: %w: want a whole number", value, conf.ErrValue)
	}
	return value, nil
}

// Unquote implements conf.Syntax.
func (syntax) Unquote(literal string) string { return literal }

// Line implements conf.Syntax.
func (syntax) Line(key, literal string) string {
	if variableName().MatchString(key) {
		return "Environment=" + key + "=" + literal
	}
	return key + " " + literal
}

var variableName = text.LazyRegexp(`^[A-Z_][A-Z0-9_]*$`)

// Place implements conf.Placer: variables go to the end of the last [Service] section, calls to the
// end of the file.
func (syntax) Place(text, key string) (int, error) {
	isVariable := variableName().MatchString(key)
	switch {
	case isVariable && !isUnit(text):
		return 0, fmt.Errorf("%s is not set, and the unit has no drop-in below %s; create one with systemctl edit", key, etcUnits)
	case !isVariable && (isUnit(text) || key != "workers"):
		return 0, fmt.Errorf("%s is not set; add threads MIN, MAX to the configuration by hand", key)
	case !isVariable:
		return len(text), nil
	}
	at, end, in := 0, -1, false
	for line := range strings.SplitAfterSeq(text, "\n") {
		body := strings.TrimSpace(line)
		if m := section().FindStringSubmatch(body); m != nil {
			in = m[1] == "Service"
		}
		at += len(line)
		if in && body != "" && !strings.HasSuffix(body, `\`) {
			end = at
		}
	}
	if end < 0 {
		return 0, errors.New("the section [Service] is missing")
	}
	return end, nil
}
