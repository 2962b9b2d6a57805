package conf

import (
	"fmt"
	"strings"
)

// Words is the syntax of "name value" lines, one option each, with comments in
// lines of their own: Redis, mosquitto, a file of variables. The zero value has
// blanks between name and value, and no quotes.
type Words struct {
	// Separator stands between name and value in new lines: " " where empty. One
	// with "=" wants one in each line; otherwise a name ends at the first blank.
	Separator string
	// Comment are the bytes that begin a comment line: "#" where empty.
	Comment string
	// Fold says that names have no case.
	Fold bool
	// Quote is the byte that values with blanks are put in; 0 where a value goes
	// to the end of its line whatever is in it.
	Quote byte
}

func (w Words) comment() string {
	if w.Comment == "" {
		return "#"
	}
	return w.Comment
}

// Key implements Syntax.
func (w Words) Key(name string) (string, error) {
	if name == "" {
		return "", fmt.Errorf("an option without a name")
	}
	for _, c := range []byte(name) {
		if c != '_' && c != '-' && c != '.' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return "", fmt.Errorf("%q is not the name of an option: letters, digits, \"_\", \"-\" and \".\"", name)
		}
	}
	if w.Fold {
		name = strings.ToLower(name)
	}
	return name, nil
}

// Assignments implements Syntax. Lines that it does not understand are left
// alone: a file may have more in it than options.
func (w Words) Assignments(text string) ([]Assignment, error) {
	var out []Assignment
	at := 0
	for n, line := range strings.SplitAfter(text, "\n") {
		begin := at
		at += len(line)
		body := strings.TrimRight(line, "\r\n \t")
		name := strings.TrimLeft(body, " \t")
		if name == "" || strings.IndexByte(w.comment(), name[0]) >= 0 {
			continue
		}
		from := begin + len(body) - len(name)
		cut := strings.IndexAny(name, " \t")
		if strings.Contains(w.Separator, "=") {
			cut = strings.IndexByte(name, '=')
		}
		if cut < 0 {
			continue
		}
		literal := strings.TrimLeft(name[cut+1:], " \t")
		key, err := w.Key(strings.TrimRight(name[:cut], " \t"))
		if err != nil || literal == "" || OneLine(literal) != nil {
			continue
		}
		to := from + len(name)
		out = append(out, Assignment{Key: key, Literal: literal, Line: n + 1, From: to - len(literal), To: to})
	}
	return out, nil
}

// Literal implements Syntax.
func (w Words) Literal(value string) (string, error) {
	if err := OneLine(value); err != nil {
		return "", err
	}
	plain := value != "" && value == strings.TrimSpace(value)
	if w.Quote == 0 {
		if !plain {
			return "", fmt.Errorf("%q: %w: blanks at its ends, or nothing at all", value, ErrValue)
		}
		return value, nil
	}
	q := string(w.Quote)
	if inside, ok := strings.CutPrefix(value, q); ok {
		if inside, ok = strings.CutSuffix(inside, q); ok && len(value) >= 2 && !strings.ContainsAny(inside, q+`\`) {
			return value, nil
		}
	}
	if plain && !strings.ContainsAny(value, " \t#;\\'\"") {
		return value, nil
	}
	if strings.ContainsAny(value, q+`\`) {
		return "", fmt.Errorf("%q: %w: a quote or a backslash in it", value, ErrValue)
	}
	return q + value + q, nil
}

// Unquote implements Syntax.
func (w Words) Unquote(literal string) string {
	if w.Quote == 0 || len(literal) < 2 || literal[0] != w.Quote || literal[len(literal)-1] != w.Quote {
		return literal
	}
	return literal[1 : len(literal)-1]
}

// Line implements Syntax.
func (w Words) Line(key, literal string) string {
	if w.Separator == "" {
		return key + " " + literal
	}
	return key + w.Separator + literal
}
