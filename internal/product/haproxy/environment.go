package haproxy

import (
	"strings"

	"fettle.dev/fettle/internal/product/conf"
)

// environment holds the variables that earlier lines have set. setenv in the global section applies
// to all later lines, also in other files (Configuration Manual, "setenv", "presetenv", "unsetenv",
// "resetenv").
type environment map[string]string

// line updates the variables from a line of the global section; counts reports whether the line
// applies.
func (e environment) line(l line, counts conf.Truth) {
	names := l.words[1:]
	switch l.option {
	case "setenv", "presetenv":
		if len(names) != 2 {
			return
		}
		if l.option == "presetenv" {
			return // the process's environment takes precedence; variables already set stay
		}
		if e[names[0]] = names[1]; l.variable || counts != conf.Yes {
			delete(e, names[0])
		}
	case "unsetenv":
		for _, name := range names {
			delete(e, name)
		}
	case "resetenv":
		clear(e)
	}
}

// expand replaces a value's variables and removes its quotes; nil if a variable is unknown.
// Variables stand in double quotes, as "$NAME" or "${NAME}".
func (e environment) expand(args string) *string {
	var b strings.Builder
	quote := byte(0)
	for i := 0; i < len(args); i++ {
		c := args[i]
		switch {
		case c == '\\' && quote != '\'' && i+1 < len(args):
			b.WriteByte(c)
			i++
			b.WriteByte(args[i])
			continue
		case quote == '"' && c == '$':
			rest := args[i+1:]
			braced := strings.HasPrefix(rest, "{")
			rest = strings.TrimPrefix(rest, "{")
			end := strings.IndexFunc(rest, func(r rune) bool {
				return r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
			})
			if end <= 0 || braced && rest[end] != '}' {
				return nil
			}
			value, known := e[rest[:end]]
			if !known {
				return nil
			}
			for _, r := range []byte(value) {
				b.WriteString(`\` + string(r))
			}
			if i += end; braced {
				i += 2
			}
			continue
		case quote == 0 && (c == '"' || c == '\''):
			quote = c
		case c == quote:
			quote = 0
		}
		b.WriteByte(c)
	}
	value := syntax{}.Unquote(b.String())
	return &value
}
