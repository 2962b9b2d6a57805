package rhel6

import (
	"fmt"
	"strings"
)

// A small lexer of the shell language. It suffices to find functions, their commands and the
// commands' arguments, without running anything. It returns as text what it cannot parse exactly.

type tokenKind uint8

const (
	word tokenKind = iota
	operator
	newline
	comment
)

type token struct {
	kind       tokenKind
	text       string // as written
	value      string // a word without quotes
	literal    bool   // a word without expansion, substitution or unquoted glob
	start, end int    // byte offsets
	line       int    // 1-based
}

// syntaxError is a syntax error in a shell text.
type syntaxError struct {
	line int
	what string
}

func (e *syntaxError) Error() string { return fmt.Sprintf("line %d: %s", e.line, e.what) }

// heredoc is a here-document, which begins after the next newline.
type heredoc struct {
	delimiter string
	tabs      bool // <<-: leading tabs are ignored
}

type lexer struct {
	text    string
	at      int
	line    int
	tokens  []token
	waiting []heredoc
}

// operators lists the operators, longest first.
var operators = []string{
	"<<<", "<<-", "&>>", ";;&",
	"&&", "||", ";;", ";&", "<<", ">>", ">&", "<&", "<>", ">|", "&>", "|&",
	";", "&", "|", "(", ")", "<", ">",
}

func lex(text string) ([]token, error) {
	l := &lexer{text: text, line: 1}
	for l.at < len(text) {
		switch c := text[l.at]; {
		case c == ' ' || c == '\t' || c == '\r':
			l.at++
		case strings.HasPrefix(text[l.at:], "\\\n"):
			l.at += 2
			l.line++
		case c == '\n':
			l.tokens = append(l.tokens, token{kind: newline, start: l.at, end: l.at + 1, line: l.line})
			l.at++
			l.line++
			l.skipHeredocs()
		case c == '#':
			start := l.at
			if i := strings.IndexByte(text[l.at:], '\n'); i >= 0 {
				l.at += i
			} else {
				l.at = len(text)
			}
			l.tokens = append(l.tokens, token{kind: comment, text: text[start:l.at], start: start, end: l.at, line: l.line})
		default:
			if op := operatorAt(text[l.at:]); op != "" {
				l.tokens = append(l.tokens, token{kind: operator, text: op, start: l.at, end: l.at + len(op), line: l.line})
				l.at += len(op)
				break
			}
			if err := l.word(); err != nil {
				return nil, err
			}
		}
	}
	return l.tokens, nil
}

func operatorAt(s string) string {
	for _, op := range operators {
		if strings.HasPrefix(s, op) {
			return op
		}
	}
	return ""
}

// skipHeredocs adds the pending here-documents to the newline token before them, so a command's
// text includes them.
func (l *lexer) skipHeredocs() {
	for _, h := range l.waiting {
		for l.at < len(l.text) {
			line, _, more := strings.Cut(l.text[l.at:], "\n")
			l.at += len(line)
			if more {
				l.at++
				l.line++
			}
			if h.tabs {
				line = strings.TrimLeft(line, "\t")
			}
			if line == h.delimiter {
				break
			}
		}
	}
	if len(l.waiting) > 0 {
		l.tokens[len(l.tokens)-1].end = l.at
		l.waiting = nil
	}
}

func (l *lexer) word() error {
	start, line := l.at, l.line
	var value strings.Builder
	literal := true
	for l.at < len(l.text) {
		c := l.text[l.at]
		switch {
		case c == ' ' || c == '\t' || c == '\r' || c == '\n' || operatorAt(l.text[l.at:]) != "":
			l.finishWord(start, line, value.String(), literal)
			return nil
		case c == '\\':
			if l.at+1 < len(l.text) {
				if next := l.text[l.at+1]; next == '\n' {
					l.line++
				} else {
					value.WriteByte(next)
				}
				l.at++
			}
			l.at++
		case c == '\'':
			end := strings.IndexByte(l.text[l.at+1:], '\'')
			if end < 0 {
				return &syntaxError{line, "a quote is not closed"}
			}
			quoted := l.text[l.at+1 : l.at+1+end]
			value.WriteString(quoted)
			l.line += strings.Count(quoted, "\n")
			l.at += end + 2
		case c == '"':
			expands, err := l.doubleQuoted(&value)
			if err != nil {
				return err
			}
			literal = literal && !expands
		case c == '$' || c == '`':
			literal = false
			from := l.at
			if err := l.expansion(); err != nil {
				return err
			}
			value.WriteString(l.text[from:l.at])
		default:
			if strings.IndexByte("*?[{~", c) >= 0 && (c != '{' || l.at > start || !standsAlone(l.text[l.at+1:])) {
				literal = false
			}
			value.WriteByte(c)
			l.at++
		}
	}
	l.finishWord(start, line, value.String(), literal)
	return nil
}

// standsAlone reports whether rest begins with white space: "{" is then the reserved word and
// "[" the command.
func standsAlone(rest string) bool {
	return rest == "" || strings.IndexByte(" \t\r\n", rest[0]) >= 0
}

func (l *lexer) finishWord(start, line int, value string, literal bool) {
	t := token{kind: word, text: l.text[start:l.at], value: value, literal: literal, start: start, end: l.at, line: line}
	if n := len(l.tokens); n > 0 && l.tokens[n-1].kind == operator {
		switch l.tokens[n-1].text {
		case "<<", "<<-":
			l.waiting = append(l.waiting, heredoc{value, l.tokens[n-1].text == "<<-"})
		}
	}
	l.tokens = append(l.tokens, t)
}

// doubleQuoted reads a string up to the closing quote. It reports whether the string contains an
// expansion.
func (l *lexer) doubleQuoted(value *strings.Builder) (bool, error) {
	line, expands := l.line, false
	for l.at++; l.at < len(l.text); {
		switch c := l.text[l.at]; c {
		case '"':
			l.at++
			return expands, nil
		case '\\':
			if l.at+1 < len(l.text) {
				next := l.text[l.at+1]
				if next == '\n' {
					l.line++
				} else {
					if strings.IndexByte("$`\"\\", next) < 0 {
						value.WriteByte('\\')
					}
					value.WriteByte(next)
				}
				l.at++
			}
			l.at++
		case '$', '`':
			expands = true
			from := l.at
			if err := l.expansion(); err != nil {
				return false, err
			}
			value.WriteString(l.text[from:l.at])
		default:
			if c == '\n' {
				l.line++
			}
			value.WriteByte(c)
			l.at++
		}
	}
	return false, &syntaxError{line, "a double quote is not closed"}
}

// expansion skips $name, ${...}, $(...), $((...)) or `...`.
func (l *lexer) expansion() error {
	line := l.line
	if l.text[l.at] == '`' {
		for l.at++; l.at < len(l.text); l.at++ {
			switch l.text[l.at] {
			case '\\':
				l.at++
			case '\n':
				l.line++
			case '`':
				l.at++
				return nil
			}
		}
		return &syntaxError{line, "a command substitution is not closed"}
	}
	l.at++ // the dollar sign
	if l.at >= len(l.text) {
		return nil
	}
	switch l.text[l.at] {
	case '(':
		return l.balanced('(', ')', line)
	case '{':
		return l.balanced('{', '}', line)
	case '\'', '"':
		return nil // $'...' and $"...": the quoted string follows
	}
	if strings.IndexByte(" \t\r\n", l.text[l.at]) < 0 && operatorAt(l.text[l.at:]) == "" && strings.IndexByte(`\'"`, l.text[l.at]) < 0 {
		l.at++ // the name's first character; the rest is read as text
	}
	return nil
}

// balanced skips from an opening bracket to the closing one, respecting quotes. line is the line
// for errors.
func (l *lexer) balanced(open, shut byte, line int) error {
	depth := 0
	for l.at < len(l.text) {
		switch c := l.text[l.at]; c {
		case open:
			depth++
		case shut:
			if depth--; depth == 0 {
				l.at++
				return nil
			}
		case '\\':
			l.at++
			if l.at < len(l.text) && l.text[l.at] == '\n' {
				l.line++
			}
		case '\n':
			l.line++
		case '\'':
			if end := strings.IndexByte(l.text[l.at+1:], '\''); end >= 0 {
				l.line += strings.Count(l.text[l.at+1:l.at+1+end], "\n")
				l.at += end + 1
			}
		case '"':
			var unused strings.Builder
			if _, err := l.doubleQuoted(&unused); err != nil {
				return err
			}
			continue
		}
		l.at++
	}
	return &syntaxError{line, fmt.Sprintf("a %q is not closed", string(open))}
}
