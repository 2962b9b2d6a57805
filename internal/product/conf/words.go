package conf

import (
	"fmt"
	"strconv"
	"strings"
)

// Words is the syntax of "name value" lines, such as mosquitto's. The value extends to the end of
// the line; comments (#) have their own lines.
type Words struct{}

// Key implements Syntax.
func (Words) Key(name string) (string, error) {
	if name == "" {
		return "", fmt.Errorf("empty option name")
	}
	for _, c := range []byte(name) {
		if c != '_' && c != '-' && c != '.' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return "", fmt.Errorf("%q is not an option name; want letters, digits, \"_\", \"-\" and \".\"", name)
		}
	}
	return name, nil
}

// Assignments implements Syntax. It ignores lines that are not options.
func (w Words) Assignments(text string) ([]Assignment, error) {
	var out []Assignment
	at := 0
	for n, line := range strings.SplitAfter(text, "\n") {
		begin := at
		at += len(line)
		body := strings.TrimRight(line, "\r\n \t")
		name := strings.TrimLeft(body, " \t")
		cut := strings.IndexAny(name, " \t")
		if cut < 0 || name[0] == '#' {
			continue
		}
		literal := strings.TrimLeft(name[cut+1:], " \t")
		key, err := w.Key(name[:cut])
		if err != nil || literal == "" || OneLine(literal) != nil {
			continue
		}
		to := begin + len(body)
		out = append(out, Assignment{Key: key, Literal: literal, Line: n + 1, From: to - len(literal), To: to})
	}
	return out, nil
}

// Literal implements Syntax.
func (Words) Literal(value string) (string, error) {
	return Bare(value, "", "the value is empty, or begins or ends with a blank")
}

// Unquote implements Syntax: nothing is quoted.
func (Words) Unquote(literal string) string { return literal }

// Line implements Syntax.
func (Words) Line(key, literal string) string { return key + " " + literal }

// WholeNumber implements Product.Canonical for whole numbers: it returns 7 for 07.
func WholeNumber(value string) string {
	if n, err := strconv.ParseUint(value, 10, 63); err == nil {
		return strconv.FormatUint(n, 10)
	}
	return value
}
