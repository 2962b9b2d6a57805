package haproxy

import (
	"fmt"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/product/conf"
)

// syntax is the syntax of haproxy.cfg (scan). A key is an option after its section:
// "global/maxconn", "defaults/timeout client", "frontend web/maxconn". The section may be omitted
// for tuning options of the global section and of the only defaults section. "timeout-client" is
// another spelling of "timeout client".
type syntax struct{}

// Key implements conf.Syntax.
func (syntax) Key(name string) (string, error) {
	if err := conf.OneLine(name); err != nil || name == "" || strings.ContainsAny(name, "#\"'\\") || strings.Trim(name, blank+"/") != name {
		return "", fmt.Errorf("%q is not an option name", name)
	}
	context, option := conf.SplitKey(name)
	if which, ok := strings.CutPrefix(option, "timeout-"); ok {
		option = "timeout " + which
	}
	option = strings.Join(strings.Fields(option), " ")
	context = strings.Join(strings.Fields(context), " ")
	if p, ok := contexts[option]; ok && context == "" {
		context = p
	}
	if context == "" {
		return "", fmt.Errorf("%q is not a tuning option; want SECTION/OPTION, such as \"frontend web/maxconn\"", name)
	}
	return context + "/" + option, nil
}

// line is one statement.
type line struct {
	number   int // from 1
	words    []string
	option   string // the first word; for a timeout the first two
	args     string // the text after it, unchanged
	from, to int    // byte range of args
	column   int    // column of args, from 1
	end      int    // offset after the line's newline
	// variable is true if an argument contains an environment variable.
	variable bool
}

const blank = " \t\r"

// A copied file tree may contain anything.
const (
	maxFiles = 1000
	maxLines = 200000
)

// scan parses a file like HAProxy (Configuration Manual, "Quoting and escaping"): one statement per
// line, words between blanks, comments from an unquoted "#". Errors begin with the line number.
func scan(text string) ([]line, error) {
	var out []line
	at := 0
	for n, raw := range strings.SplitAfter(text, "\n") {
		if n >= maxLines {
			return nil, fmt.Errorf("%d: more than %d lines", n, maxLines)
		}
		l := line{number: n + 1, end: at + len(raw)}
		body := strings.TrimSuffix(raw, "\n")
		key := 1
		for i := 0; ; {
			i += len(body[i:]) - len(strings.TrimLeft(body[i:], blank))
			if i == len(body) || body[i] == '#' {
				break
			}
			w, next, variable, ok := word(body, i)
			if !ok {
				return nil, fmt.Errorf("%d: a quote is not closed, or nothing follows a backslash", n+1)
			}
			l.words = append(l.words, w)
			l.variable = l.variable || variable
			if len(l.words) == 1 && w == "timeout" {
				key = 2
			}
			switch {
			case len(l.words) == key+1:
				l.from, l.to, l.column = at+i, at+next, i+1
			case len(l.words) > key:
				l.to = at + next
			}
			i = next
		}
		at += len(raw)
		if len(l.words) == 0 {
			continue
		}
		l.option = strings.Join(l.words[:min(key, len(l.words))], " ")
		if l.to > 0 {
			l.args = text[l.from:l.to]
		}
		out = append(out, l)
	}
	return out, nil
}

// word parses the word at offset i and returns the offset after it.
func word(body string, i int) (w string, next int, variable, ok bool) {
	var b strings.Builder
	quote := byte(0)
	for ; i < len(body); i++ {
		c := body[i]
		switch {
		case quote == '\'' && c != '\'':
			b.WriteByte(c)
		case c == '\\':
			if i++; i == len(body) {
				return "", i, false, false
			}
			if at := strings.IndexByte("nrt", body[i]); at >= 0 {
				b.WriteByte("\n\r\t"[at])
			} else {
				b.WriteByte(body[i])
			}
		case c == quote:
			quote = 0
		case quote == '"':
			variable = variable || c == '$'
			b.WriteByte(c)
		case c == '"' || c == '\'':
			quote = c
		case strings.IndexByte(blank, c) >= 0 || c == '#':
			return b.String(), i, variable, true
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), i, variable, quote == 0
}

// keywords are the words that begin a section.
var keywords = []string{
	"global", "defaults", "frontend", "backend", "listen", "userlist", "peers", "resolvers", "mailers", "program", "ring", "log-forward",
	"http-errors", "cache", "fcgi-app", "crt-store", "traces", "log-profile", "acme",
}

// section is a section of a key; from is the argument of its "from", if any.
type section struct {
	kind, name, from string
	// nth numbers the defaults sections without a name, from 1.
	nth int
	// counts reports whether the section applies; Perhaps if only HAProxy can evaluate its
	// condition.
	counts conf.Truth
	line
}

func (s section) key() string {
	switch {
	case s.name != "":
		return s.kind + " " + s.name
	case s.nth > 1:
		return fmt.Sprintf("%s:%d", s.kind, s.nth)
	}
	return s.kind
}

// walk calls each for every section (with a nil option) and for every option in it, in order.
// counts reports whether the line applies; lines in a false condition are skipped. version is
// HAProxy's, or "" if unknown.
func walk(all []line, version string, each func(s section, option *line, counts conf.Truth) error) error {
	var now section
	nth := 0
	var open blocks
	for _, l := range all {
		first := l.words[0]
		if strings.HasPrefix(first, ".") {
			if !open.enter(l, version) {
				return fmt.Errorf("%d: %s without .if", l.number, first)
			}
			continue
		}
		counts := open.counts()
		switch {
		case counts == conf.No:
		case slices.Contains(keywords, first):
			now = section{kind: first, counts: counts, line: l}
			if len(l.words) > 1 && l.words[1] != "from" {
				now.name = l.words[1]
			}
			if n := slices.Index(l.words, "from"); n > 0 && n+1 < len(l.words) {
				now.from = l.words[n+1]
			}
			if first == "defaults" && now.name == "" {
				nth++
				now.nth = nth
			}
			if err := each(now, nil, counts); err != nil {
				return err
			}
		case now.kind == "":
			return fmt.Errorf("%d: %.40q is outside any section", l.number, first)
		default:
			if err := each(now, &l, counts); err != nil {
				return err
			}
		}
	}
	if len(open) > 0 {
		return fmt.Errorf("%d: .if without .endif", all[len(all)-1].number)
	}
	return nil
}

// Assignments implements conf.Syntax. It treats uncertain conditions as true.
func (s syntax) Assignments(text string) ([]conf.Assignment, error) {
	all, err := scan(text)
	if err != nil {
		return nil, err
	}
	var out []conf.Assignment
	err = walk(all, "", func(s section, option *line, _ conf.Truth) error {
		if option != nil && option.args != "" {
			out = append(out, assignment(s, *option))
		}
		return nil
	})
	return out, err
}

func assignment(s section, l line) conf.Assignment {
	return conf.Assignment{Key: s.key() + "/" + l.option, Literal: l.args, Line: l.number, From: l.from, To: l.to}
}

// Literal implements conf.Syntax. Values of tuning options need no quotes.
func (syntax) Literal(value string) (string, error) {
	return conf.Bare(value, "#\"'\\$", "needs quotes")
}

// Unquote implements conf.Syntax. It joins the words with blanks.
func (syntax) Unquote(literal string) string {
	all, err := scan("x " + literal)
	if err != nil || len(all) != 1 {
		return literal
	}
	return strings.Join(all[0].words[1:], " ")
}

// Line implements conf.Syntax.
func (syntax) Line(key, literal string) string {
	_, option := conf.SplitKey(key)
	return "\t" + option + " " + literal
}

// Place implements conf.Placer: new lines go directly below the section's first line.
func (syntax) Place(text, key string) (int, error) {
	context, option := conf.SplitKey(key)
	kind := contexts[option]
	if kind == "" || context != kind && !strings.HasPrefix(context, kind+" ") {
		return 0, fmt.Errorf("%s is not set, and fettle adds lines only to global and defaults sections; add it by hand", key)
	}
	all, err := scan(text)
	if err != nil {
		return 0, err
	}
	at := -1
	err = walk(all, "", func(s section, l *line, counts conf.Truth) error {
		switch {
		case l != nil || s.kind != kind:
		case context == "defaults" && s.key() != context:
			return fmt.Errorf("%s is ambiguous: line %d has the section %q; say which one, such as %s", key, s.number, s.key(), s.key()+"/"+option)
		case s.key() != context || at >= 0:
		case counts != conf.Yes:
			return fmt.Errorf("line %d begins section %s inside a condition; add %s by hand", s.number, context, key)
		default:
			at = s.end
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	if at < 0 || !strings.HasSuffix(text[:at], "\n") {
		return 0, fmt.Errorf("the main file has no section %s that starts on its own line; add %s by hand", context, key)
	}
	return at, nil
}
