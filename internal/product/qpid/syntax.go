package qpid

import (
	"fmt"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/product/conf"
)

// syntax is the syntax of qpidd.conf: NAME=VALUE without blanks before the "=", comments from "#"
// on (qpid-cpp 1.39, src/qpid/Options.cpp, and Boost's parse_config_file). qpidd does not start
// with any other line, or with a duplicate option that is not a list.
type syntax struct{}

// lists are the options that may occur more than once.
var lists = []string{"interface", "listen-disable", "protocols", "load-module", "log-enable", "log-disable", "socket-fd"}

// Key implements conf.Syntax.
func (syntax) Key(name string) (string, error) {
	name = strings.ToLower(strings.ReplaceAll(strings.TrimLeft(name, "-"), "_", "-"))
	if !isName(name) {
		return "", fmt.Errorf("%q is not an option name; want lower-case letters, digits and \"-\"", name)
	}
	return name, nil
}

func isName(s string) bool {
	return s != "" && s[0] != '-' && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-.") == ""
}

// Assignments implements conf.Syntax.
func (syntax) Assignments(text string) ([]conf.Assignment, error) {
	const most = 10000
	var out []conf.Assignment
	seen := map[string]int{}
	at, n := 0, 0
	for line := range strings.Lines(text) {
		n++
		start := at
		at += len(line)
		if s := strings.TrimLeft(line, " \t"); strings.TrimSpace(s) == "" || s[0] == '#' {
			continue
		}
		key, rest, ok := strings.Cut(line, "=")
		switch {
		case !ok:
			return out, fmt.Errorf("%d: \"=\" is missing; qpidd does not start with this line", n)
		case !isName(key):
			return out, fmt.Errorf("%d: %q is not an option name (no blanks before \"=\"); qpidd does not start with this line", n, key)
		case seen[key] > 0 && !slices.Contains(lists, key):
			return out, fmt.Errorf("%d: %s is also on line %d; qpidd does not start with both", n, key, seen[key])
		case len(out) >= most:
			return out, fmt.Errorf("%d: more than %d options", n, most)
		}
		seen[key] = n
		value, _, _ := strings.Cut(rest, "#")
		literal := strings.TrimSpace(value)
		if conf.OneLine(literal) != nil {
			return out, fmt.Errorf("%d: control character in the value", n)
		}
		from := start + len(key) + 1 + strings.Index(value, literal)
		out = append(out, conf.Assignment{Key: key, Literal: literal, Line: n, From: from, To: from + len(literal)})
	}
	return out, nil
}

// Literal implements conf.Syntax. qpidd has no quotes.
func (syntax) Literal(value string) (string, error) {
	return conf.Bare(value, "#", "qpidd has no quotes")
}

// Unquote implements conf.Syntax.
func (syntax) Unquote(literal string) string { return literal }

// Line implements conf.Syntax.
func (syntax) Line(key, literal string) string { return key + "=" + literal }
