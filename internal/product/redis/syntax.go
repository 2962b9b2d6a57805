package redis

import (
	"fmt"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/product/conf"
)

// syntax is the syntax of redis.conf (src/config.c, loadServerConfigFromString, and src/sds.c,
// sdssplitargs): each line has a name and arguments, quoted as in a shell. A literal consists of
// all arguments of a line.
type syntax struct{}

// Key implements conf.Syntax. Names are case-insensitive.
func (syntax) Key(name string) (string, error) { return conf.Words{}.Key(strings.ToLower(name)) }

const blank = " \t\r\n\v\f"

// split splits a line into its arguments. ok is false if a quote is not closed or a character
// follows it; Redis rejects both. ends are the offsets of the arguments' ends.
func split(line string) (args []string, ends []int, ok bool) {
	i := 0
	for {
		for i < len(line) && strings.IndexByte(blank, line[i]) >= 0 {
			i++
		}
		if i == len(line) {
			return args, ends, true
		}
		var b strings.Builder
		for i < len(line) && strings.IndexByte(blank, line[i]) < 0 {
			c := line[i]
			if c != '"' && c != '\'' {
				b.WriteByte(c)
				i++
				continue
			}
			next, closed := quoted(line, i, &b)
			if !closed || next < len(line) && strings.IndexByte(blank, line[next]) < 0 {
				return nil, nil, false
			}
			i = next
		}
		args, ends = append(args, b.String()), append(ends, i)
	}
}

// quoted parses the quoted part at offset i, and returns the offset after it.
func quoted(line string, i int, b *strings.Builder) (next int, closed bool) {
	quote := line[i]
	for i++; i < len(line); i++ {
		c := line[i]
		switch {
		case c == quote:
			return i + 1, true
		case c == '\\' && quote == '\'' && i+1 < len(line) && line[i+1] == '\'':
			i++
			b.WriteByte('\'')
		case c == '\\' && quote == '"' && i+3 < len(line) && line[i+1] == 'x' && hex(line[i+2:i+4]):
			n, _ := strconv.ParseUint(line[i+2:i+4], 16, 8)
			b.WriteByte(byte(n))
			i += 3
		case c == '\\' && quote == '"' && i+1 < len(line):
			i++
			if at := strings.IndexByte("nrtba", line[i]); at >= 0 {
				b.WriteByte("\n\r\t\b\a"[at])
			} else {
				b.WriteByte(line[i])
			}
		default:
			b.WriteByte(c)
		}
	}
	return i, false
}

func hex(s string) bool { _, err := strconv.ParseUint(s, 16, 8); return err == nil }

// Assignments implements conf.Syntax. The result contains the include lines.
func (s syntax) Assignments(text string) ([]conf.Assignment, error) {
	var out []conf.Assignment
	at := 0
	for n, line := range strings.SplitAfter(text, "\n") {
		begin := at
		at += len(line)
		body := strings.Trim(line, blank)
		if body == "" || body[0] == '#' {
			continue
		}
		args, ends, ok := split(body)
		if !ok {
			return out, fmt.Errorf("%d: unbalanced quotes in %.40q", n+1, body)
		}
		key, err := s.Key(args[0])
		if err != nil || len(args) < 2 {
			return out, fmt.Errorf("%d: %.40q: want an option and its value", n+1, body)
		}
		rest := strings.TrimLeft(body[ends[0]:], blank)
		to := begin + strings.Index(line, body) + len(body)
		out = append(out, conf.Assignment{Key: key, Literal: rest, Line: n + 1, From: to - len(rest), To: to})
	}
	return out, nil
}

// Literal implements conf.Syntax.
func (syntax) Literal(value string) (string, error) {
	if err := conf.OneLine(value); err != nil {
		return "", err
	}
	if args, _, ok := split(value); ok && len(args) > 0 && strings.Trim(value, blank) == value {
		return value, nil
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(value) + `"`, nil
}

// Unquote implements conf.Syntax. It joins the arguments with blanks.
func (syntax) Unquote(literal string) string {
	if args, _, ok := split(literal); ok {
		return strings.Join(args, " ")
	}
	return literal
}

// Line implements conf.Syntax.
func (syntax) Line(key, literal string) string { return key + " " + literal }
