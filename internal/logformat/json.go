package logformat

import (
	"bytes"
	"strings"
)

// jsonScanner splits lines that are JSON objects. Members of nested objects have names with
// dots: http.response.status_code.
type jsonScanner struct {
	root   node
	fields int

	// required lists groups of fields; a request has at least one field of each group.
	required   [][]int
	dashCounts bool          // a value of - counts as a value
	logger     int           // field that begins with prefix if the line is a request; -1 if none
	prefix     []byte        // prefix of the logger names of requests
	clock      int           // field with the time of the logger prefix; -1 if none
	front      *loggerPrefix // text before the object or key=value; nil if none
	pair       int           // field with date and time of day in two members; -1 if none

	client, status, bytes int // field indices; -1 if none
}

func newJSONScanner() *jsonScanner {
	return &jsonScanner{root: node{field: -1}, logger: -1, clock: -1, pair: -1, client: -1, status: -1, bytes: -1}
}

// node holds the requested members of an object by name.
type node struct {
	members map[string]*node
	field   int // -1: none
}

// add adds a requested member. Loggers for Elastic's schema use a dot in its name both for
// nested objects and literally.
func (k *jsonScanner) add(dotted string, field int) {
	k.root.add(strings.Split(dotted, "."), field)
	k.fields = max(k.fields, field+1)
}

// member returns the requested member with a name as written, or nil. n may be nil.
func (n *node) member(name []byte) *node {
	if n == nil {
		return nil
	}
	member := n.members[string(name)]
	if member == nil && bytes.IndexByte(name, '\\') >= 0 {
		member = n.members[string(JSONString.Unescape(name))]
	}
	return member
}

// maxNameParts is the maximum number of parts of a name for trying all combinations of nesting.
const maxNameParts = 6

func (n *node) add(words []string, field int) {
	if len(words) == 0 {
		n.field = field
		return
	}
	most := len(words)
	if most > maxNameParts {
		most = 1
	}
	for i := 1; i <= most; i++ {
		name := strings.Join(words[:i], ".")
		if n.members == nil {
			n.members = map[string]*node{}
		}
		next := n.members[name]
		if next == nil {
			next = &node{field: -1}
			n.members[name] = next
		}
		next.add(words[i:], field)
	}
}

// depth is the maximum nesting of objects.
const depth = 32

// byteOrder is the byte order mark that some programs write first.
var byteOrder = []byte("\ufeff")

func (k *jsonScanner) scan(line []byte, spans []Span) LineKind {
	at, kind := k.begin(line, spans)
	if kind != RequestLine {
		return kind
	}
	if at = k.object(line, at, &k.root, spans, depth); at < 0 || space(line, at) < len(line) {
		return BadLine
	}
	return k.request(line, spans)
}

// begin clears the spans and returns the position of a line's object. The kind is RequestLine
// unless the line has no object.
func (k *jsonScanner) begin(line []byte, spans []Span) (at int, kind LineKind) {
	clear(spans)
	if k.front != nil {
		var ok bool
		if at, ok = k.afterPrefix(line, spans); !ok || at == len(line) || line[at] != '{' {
			return 0, OtherLine
		}
	}
	if at == 0 && bytes.HasPrefix(line, byteOrder) {
		at = len(byteOrder)
	}
	if at = space(line, at); at == len(line) || line[at] != '{' {
		return 0, BadLine
	}
	return at, RequestLine
}

// object scans the object at position at and returns its end, or -1 if it is invalid. n is nil
// if none of its members was requested.
func (k *jsonScanner) object(line []byte, at int, n *node, spans []Span, deep int) int {
	if deep == 0 {
		return -1
	}
	at = space(line, at+1)
	if at < len(line) && line[at] == '}' {
		return at + 1
	}
	for {
		if at >= len(line) || line[at] != '"' {
			return -1
		}
		end := stringEnd(line, at)
		if end < 0 {
			return -1
		}
		member := n.member(line[at+1 : end-1])
		at = space(line, end)
		if at >= len(line) || line[at] != ':' {
			return -1
		}
		if at = k.value(line, space(line, at+1), member, spans, deep); at < 0 {
			return -1
		}
		at = space(line, at)
		if at >= len(line) {
			return -1
		}
		switch line[at] {
		case ',':
			at = space(line, at+1)
		case '}':
			return at + 1
		default:
			return -1
		}
	}
}

// value scans the value at position at and returns its end, or -1.
func (k *jsonScanner) value(line []byte, at int, n *node, spans []Span, deep int) int {
	if at >= len(line) {
		return -1
	}
	from := at
	var end int
	switch line[at] {
	case '"':
		if end = stringEnd(line, at); end < 0 {
			return -1
		}
		if n != nil && n.field >= 0 {
			k.put(spans, n.field, from+1, end-1)
		}
		return end
	case '{':
		if n != nil && n.members == nil {
			n = nil
		}
		return k.object(line, at, n, spans, deep-1)
	case '[':
		if end = k.array(line, at, spans, deep-1); end < 0 {
			return -1
		}
	default:
		if end = literal(line, at); end < 0 {
			return -1
		}
	}
	if n != nil && n.field >= 0 && line[from] != 'n' { // null
		k.put(spans, n.field, from, end)
	}
	return end
}

// array scans the array at position at and returns its end, or -1.
func (k *jsonScanner) array(line []byte, at int, spans []Span, deep int) int {
	if deep == 0 {
		return -1
	}
	at = space(line, at+1)
	if at < len(line) && line[at] == ']' {
		return at + 1
	}
	for {
		if at = k.value(line, at, nil, spans, deep); at < 0 {
			return -1
		}
		at = space(line, at)
		if at >= len(line) {
			return -1
		}
		switch line[at] {
		case ',':
			at = space(line, at+1)
		case ']':
			return at + 1
		default:
			return -1
		}
	}
}

// literal returns the end of a number, true, false or null at position at, or -1.
func literal(line []byte, at int) int {
	for _, word := range []string{"true", "false", "null"} {
		if line[at] == word[0] {
			if len(line)-at < len(word) || string(line[at:at+len(word)]) != word {
				return -1
			}
			return at + len(word)
		}
	}
	digits := func() bool {
		from := at
		for at < len(line) && line[at]-'0' <= 9 {
			at++
		}
		return at > from
	}
	if line[at] == '-' {
		at++
	}
	if !digits() {
		return -1
	}
	if at < len(line) && line[at] == '.' {
		if at++; !digits() {
			return -1
		}
	}
	if at < len(line) && line[at]|0x20 == 'e' {
		if at++; at < len(line) && (line[at] == '-' || line[at] == '+') {
			at++
		}
		if !digits() {
			return -1
		}
	}
	return at
}

// space returns the position of the first character from at on that is not a blank.
func space(line []byte, at int) int {
	for at < len(line) && (line[at] == ' ' || line[at] == '\t' || line[at] == '\r') {
		at++
	}
	return at
}

// stringEnd returns the position after the closing quote of the string at position at, or -1.
func stringEnd(line []byte, at int) int {
	from := at + 1
	for {
		n := bytes.IndexByte(line[from:], '"')
		if n < 0 {
			return -1
		}
		n += from
		if !escaped(line[at+1:], n-at-1) {
			return n + 1
		}
		from = n + 1
	}
}
