package postgresql

import (
	"fmt"
	"strings"

	"fettle.dev/fettle/internal/product/conf"
)

// syntax is the syntax of postgresql.conf (PostgreSQL 15, section 20.1.2, and
// src/backend/utils/misc/guc-file.l).
type syntax struct{}

// Key implements conf.Syntax. Names are case-insensitive; an extension's names contain a dot.
func (syntax) Key(name string) (string, error) {
	if length := identifier(name, true); length == 0 || length != len(name) {
		return "", fmt.Errorf("%q is not a PostgreSQL parameter name; want letters, digits, \"_\" and \".\"", name)
	}
	return foldCase(name), nil
}

// foldCase folds ASCII letters, like guc_name_compare.
func foldCase(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, name)
}

func letter(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c >= 0x80
}
func digit(c byte) bool { return c >= '0' && c <= '9' }

// identifier returns the length of the name at the beginning of s. If qualified is set, the name
// may contain dots.
func identifier(s string, qualified bool) int {
	n := 0
	for {
		if n >= len(s) || !letter(s[n]) {
			return 0
		}
		for n < len(s) && (letter(s[n]) || digit(s[n]) || s[n] == '$') {
			n++
		}
		if !qualified || n+1 >= len(s) || s[n] != '.' || !letter(s[n+1]) {
			return n
		}
		n++
	}
}

// literal returns the length of the value at the beginning of s; 0 if none exists.
func literal(s string) int {
	switch {
	case s == "":
		return 0
	case s[0] == '\'':
		for i := 1; i < len(s); i++ {
			switch {
			case s[i] == '\n':
				return 0
			case s[i] == '\\' && i+1 < len(s) && s[i+1] != '\n':
				i++
			case s[i] == '\'' && i+1 < len(s) && s[i+1] == '\'':
				i++
			case s[i] == '\'':
				return i + 1
			}
		}
		return 0
	case letter(s[0]): // a name or an unquoted word
		n := 1
		for n < len(s) && (letter(s[n]) || digit(s[n]) || strings.IndexByte("-._:/", s[n]) >= 0) {
			n++
		}
		if n < len(s) && s[n] == '$' {
			return identifier(s, true)
		}
		return n
	}
	return numeral(s)
}

// numeral returns the length of the number and its unit at the beginning of s.
func numeral(s string) int {
	n := 0
	if s[0] == '-' || s[0] == '+' {
		n++
	}
	begin := n
	if strings.HasPrefix(s[n:], "0x") || strings.HasPrefix(s[n:], "0X") {
		n += 2
		for n < len(s) && (digit(s[n]) || s[n]|0x20 >= 'a' && s[n]|0x20 <= 'f') {
			n++
		}
	}
	digits := 0
	for n < len(s) && (digit(s[n]) || s[n] == '.') {
		if digit(s[n]) {
			digits++
		} else if strings.Contains(s[begin:n], ".") {
			break
		}
		n++
	}
	if digits == 0 && n == begin {
		return 0
	}
	if n < len(s) && s[n]|0x20 == 'e' {
		m := n + 1
		if m < len(s) && (s[m] == '-' || s[m] == '+') {
			m++
		}
		if from := m; from < len(s) && digit(s[from]) {
			for m < len(s) && digit(s[m]) {
				m++
			}
			n = m
		}
	}
	for n < len(s) && (s[n] >= 'a' && s[n] <= 'z' || s[n] >= 'A' && s[n] <= 'Z') {
		n++
	}
	return n
}

func blanks(s string) int { return len(s) - len(strings.TrimLeft(s, " \t\r\f")) }

// Assignments implements conf.Syntax. The result contains include and the related directives.
func (syntax) Assignments(text string) ([]conf.Assignment, error) {
	var out []conf.Assignment
	at := 0
	for n, line := range strings.SplitAfter(text, "\n") {
		begin := at
		at += len(line)
		rest := strings.TrimSuffix(line, "\n")
		skip := func(n int) { rest = rest[n:] }
		skip(blanks(rest))
		if rest == "" || rest[0] == '#' {
			continue
		}
		name := identifier(rest, true)
		if name == 0 {
			return out, fmt.Errorf("%d: syntax error near %.40q; want NAME = VALUE", n+1, rest)
		}
		key := foldCase(rest[:name])
		skip(name)
		skip(blanks(rest))
		if strings.HasPrefix(rest, "=") {
			skip(1)
			skip(blanks(rest))
		}
		length := literal(rest)
		if length == 0 {
			return out, fmt.Errorf("%d: syntax error: %s has no value, or its value needs single quotes", n+1, key)
		}
		from := begin + len(strings.TrimSuffix(line, "\n")) - len(rest)
		value := rest[:length]
		if err := conf.OneLine(value); err != nil {
			return out, fmt.Errorf("%d: %s: %w", n+1, key, err)
		}
		skip(length)
		skip(blanks(rest))
		if rest != "" && rest[0] != '#' {
			return out, fmt.Errorf("%d: syntax error near %.40q: text after the value", n+1, rest)
		}
		out = append(out, conf.Assignment{Key: key, Literal: value, Line: n + 1, From: from, To: from + length})
	}
	return out, nil
}

// Literal implements conf.Syntax.
func (syntax) Literal(value string) (string, error) {
	if err := conf.OneLine(value); err != nil {
		return "", err
	}
	if value != "" && literal(value) == len(value) {
		return value, nil
	}
	return "'" + strings.NewReplacer("'", "''", `\`, `\\`).Replace(value) + "'", nil
}

// Unquote implements conf.Syntax (DeescapeQuotedString).
func (syntax) Unquote(text string) string {
	if len(text) < 2 || text[0] != '\'' || text[len(text)-1] != '\'' {
		return text
	}
	text = text[1 : len(text)-1]
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '\'' && i+1 < len(text) && text[i+1] == '\'':
			i++
			b.WriteByte('\'')
		case text[i] != '\\' || i+1 == len(text):
			b.WriteByte(text[i])
		default:
			i++
			if c := strings.IndexByte("bfnrt", text[i]); c >= 0 {
				b.WriteByte("\b\f\n\r\t"[c])
				continue
			}
			octal, digits := 0, 0
			for digits < 3 && i+digits < len(text) && text[i+digits] >= '0' && text[i+digits] <= '7' {
				octal = octal*8 + int(text[i+digits]-'0')
				digits++
			}
			if digits == 0 {
				b.WriteByte(text[i])
				continue
			}
			b.WriteByte(byte(octal))
			i += digits - 1
		}
	}
	return b.String()
}

// Line implements conf.Syntax.
func (syntax) Line(key, literal string) string { return key + " = " + literal }
