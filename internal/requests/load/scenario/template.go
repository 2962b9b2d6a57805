package scenario

import (
	"fmt"
	"net/url"
	"strings"
	"unicode/utf8"
)

// scope is where a template's text is used. It decides how values are escaped.
type scope int

const (
	plain    scope = iota // as it is
	urlText               // in the path or the query of a URL
	jsonText              // in a JSON string
	formText              // a field of a form
)

// slot is the index of a named value of a host.
type slot int

// value is a value of a host: a text, or a list of texts.
type value struct {
	text  string
	list  []string
	isSet bool
}

// part is a piece of a template: literal text, or a value.
type part struct {
	literal string
	slot    slot // if literal is ""
	scope   scope
}

// template is a compiled text with values, ${NAME}.
type template struct {
	parts []part
	at    position
}

// constant returns the text of a template without values.
func (t *template) constant() (string, bool) {
	switch {
	case len(t.parts) == 0:
		return "", true
	case len(t.parts) == 1 && t.parts[0].literal != "":
		return t.parts[0].literal, true
	}
	return "", false
}

// append appends the template's text with the values of a host.
func (t *template) append(to []byte, values []value) []byte {
	for i := range t.parts {
		p := &t.parts[i]
		if p.literal != "" {
			to = append(to, p.literal...)
			continue
		}
		text := values[p.slot].text
		switch p.scope {
		case jsonText:
			to = appendJSON(to, text)
		case urlText:
			to = append(to, escapePath(text)...)
		case formText:
			to = append(to, url.QueryEscape(text)...)
		default:
			to = append(to, text...)
		}
	}
	return to
}

func (t *template) text(values []value) string {
	if text, ok := t.constant(); ok {
		return text
	}
	if len(t.parts) == 1 && t.parts[0].scope == plain {
		return values[t.parts[0].slot].text
	}
	return string(t.append(nil, values))
}

// escapePath escapes a value for the path of a URL. Slashes remain: values such as
// Packages/a/acl.rpm are paths themselves.
func escapePath(text string) string {
	if !strings.ContainsFunc(text, func(r rune) bool { return !isUnreserved(r) }) {
		return text
	}
	return strings.ReplaceAll(url.PathEscape(text), "%2F", "/")
}

// isUnreserved reports whether a character needs no escape in a path (RFC 3986, 2.3).
func isUnreserved(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-._~/", r)
}

// appendJSON appends a text as the content of a JSON string (RFC 8259, 7).
func appendJSON(to []byte, text string) []byte {
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			to = append(to, '\\', byte(r))
		case r < 0x20:
			to = fmt.Appendf(to, `\u%04x`, r)
		default:
			to = utf8.AppendRune(to, r)
		}
	}
	return to
}

// names holds the named values of a scenario. A name is known from the step on that sets it.
type names struct {
	slots map[string]slot
	lists map[string]bool // names of lists
	// known is the set of names in the current scope.
	known map[string]bool
	setBy map[string]string // "data", or the step that sets the name
}

func newNames() *names {
	return &names{slots: map[string]slot{}, lists: map[string]bool{}, known: map[string]bool{}, setBy: map[string]string{}}
}

// define makes a name known.
func (n *names) define(name, by string, list bool) slot {
	s, ok := n.slots[name]
	if !ok {
		s = slot(len(n.slots))
		n.slots[name] = s
	}
	n.known[name], n.setBy[name] = true, by
	if list {
		n.lists[name] = true
	}
	return s
}

// compile compiles the text of a template. A value at the beginning of a URL is inserted as it
// is, because it is a base URL.
func (n *names) compile(text string, at position, in scope) (*template, error) {
	t := &template{at: at}
	literal := strings.Builder{}
	flush := func() {
		if literal.Len() > 0 {
			text := literal.String()
			if in == formText { // a field of a form is all data; a URL is written by its author
				text = url.QueryEscape(text)
			}
			t.parts = append(t.parts, part{literal: text})
			literal.Reset()
		}
	}
	query := false
	for rest := text; rest != ""; {
		before, after, found := strings.Cut(rest, "$")
		literal.WriteString(before)
		query = query || strings.Contains(before, "?")
		if !found {
			break
		}
		column := len(text) - len(after) - 1
		switch {
		case strings.HasPrefix(after, "$"):
			literal.WriteByte('$')
			rest = after[1:]
			continue
		case !strings.HasPrefix(after, "{"):
			return nil, at.plus(text, column).errorf("a single $: want ${NAME}, or $$ for a dollar sign")
		}
		word, left, closed := strings.Cut(after[1:], "}")
		if !closed {
			return nil, at.plus(text, column).errorf("${ without }")
		}
		p, err := n.part(word, at.plus(text, column), in)
		if err != nil {
			return nil, err
		}
		switch {
		case in == urlText && len(t.parts) == 0 && literal.Len() == 0:
			p.scope = plain
		case p.scope == urlText && query:
			p.scope = formText
		}
		flush()
		t.parts = append(t.parts, p)
		rest = left
	}
	flush()
	return t, nil
}

// part returns the part for ${word}: NAME or NAME|raw.
func (n *names) part(word string, at position, in scope) (part, error) {
	name, filter, filtered := strings.Cut(word, "|")
	if filtered {
		if filter != "raw" {
			return part{}, at.errorf("${%s}: unknown %q; only raw may follow |", word, filter)
		}
		in = plain
	}
	if err := n.use(name, at); err != nil {
		return part{}, err
	}
	if n.lists[name] {
		return part{}, at.errorf("${%s} is a list; use it in for_each", name)
	}
	return part{slot: n.slots[name], scope: in}, nil
}

// use returns an error unless the name is known.
func (n *names) use(name string, at position) error {
	switch {
	case n.known[name]:
		return nil
	case n.setBy[name] != "":
		return at.errorf("${%s} is not set here: only %s sets it", name, n.setBy[name])
	}
	return at.errorf("unknown name ${%s}%s", name, suggest(name, n.known))
}
