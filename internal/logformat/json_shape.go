package logformat

import (
	"bytes"
	"slices"
)

// shapes splits lines that are JSON objects like jsonScanner.scan, but faster: it remembers the
// text between values. Most lines of a log have the same members in the same order: the value
// of "status" is mostly followed by `,"size":`. One comparison of bytes then verifies comma,
// name and colon, and finds the field of the next value.
//
// The memory is a graph. A place is a value, identified by the names of the objects around it
// and its own. A link is a text that followed the value on an earlier line, with the place to
// which it led. A text without a link is parsed, and becomes one.
//
// Many values are the same on most lines: a level, a host, a protocol. Some lines are studied
// to find them. A shortcut is a link whose text includes such values.
type shapes struct {
	k     *jsonScanner
	start place // before the object
	end   place // after it
	all   []*place
	size  int // number of places and containers
	lines int
}

// Limits of the memory. Lines beyond these limits are split by jsonScanner.scan.
const (
	maxPlaces   = 1000
	maxLinks    = 8   // of a place
	maxLinkText = 500 // in bytes
)

// The first studiedLines of each studyEvery lines are studied.
const (
	studiedLines = 500
	studyEvery   = 1 << 16
)

// place is a value in an object or array.
type place struct {
	kind      placeKind
	field     int // of the value; -1 if it was not requested
	in        *container
	links     []link
	shortcuts []link
	turn      int // index of the link that is replaced next

	// The last studied value, the link after it, and how many of the studied lines repeated both.
	value           []byte
	number          int64
	then            link
	visits, repeats int
}

// placeKind is the kind of a value.
type placeKind uint8

const (
	textValue   placeKind = iota // begins after the opening quote
	scalarValue                  // a number, true or false
	arrayValue                   // an array that was requested as a whole
	noValue                      // before and after the object
)

// link is the text between two values. It includes values that need not be stored: null, empty
// objects and arrays, true and false.
type link struct {
	text   []byte
	to     *place
	count  int      // of studied lines
	stored []stored // only in shortcuts
}

// stored is a value of a field in the text of a shortcut.
type stored struct {
	field int
	value Span // in the text
}

// container is an object or array.
type container struct {
	outer   *container // nil around the outermost object
	array   bool
	members *node // requested members; nil if none
	depth   int
	places  map[placeKey]*place
	inner   map[containerKey]*container
}

// placeKey and containerKey identify values by their name as written, which is empty in an array.
type (
	placeKey struct {
		name string
		kind placeKind
	}
	containerKey struct {
		name  string
		array bool
	}
)

func newContainer(outer *container, members *node, array bool) *container {
	c := &container{outer: outer, array: array, members: members, places: map[placeKey]*place{}, inner: map[containerKey]*container{}}
	if outer != nil {
		c.depth = outer.depth + 1
	}
	return c
}

// newShapes returns the memory of one goroutine.
func newShapes(k *jsonScanner) *shapes {
	none := place{kind: noValue, field: -1, in: newContainer(nil, nil, false)}
	s := &shapes{k: k, start: none, end: none}
	s.all = []*place{&s.start}
	return s
}

func (s *shapes) scan(line []byte, spans []Span) LineKind {
	at, kind := s.k.begin(line, spans)
	if kind != RequestLine {
		return kind
	}
	split := s.split
	if s.lines++; s.lines%studyEvery < studiedLines {
		split = s.study
	} else if s.lines%studyEvery == studiedLines {
		s.addShortcuts()
	}
	if !split(line, at, spans) {
		return s.k.scan(line, spans)
	}
	return s.k.request(line, spans)
}

// split splits the object at position at. It returns false if the object is invalid or exceeds
// the limits.
func (s *shapes) split(line []byte, at int, spans []Span) bool {
	for p := &s.start; ; {
		l := match(p.shortcuts, line[at:])
		if l == nil {
			l = match(p.links, line[at:])
		}
		if l == nil {
			if l = s.learn(p, line, at); l == nil {
				return false
			}
		}
		for i := range l.stored {
			v := &l.stored[i]
			s.store(spans, v.field, at+int(v.value.Start), at+int(v.value.End), v.value.number)
		}
		at += len(l.text)
		if p = l.to; p.kind == noValue {
			return true
		}
		end, number := s.valueEnd(p, line, at)
		if end < 0 {
			return false
		}
		if p.field >= 0 {
			s.store(spans, p.field, at, end, number)
		}
		at = end
	}
}

// match returns the link whose text is at the beginning of rest, or nil.
func match(links []link, rest []byte) *link {
	for i := range links {
		l := &links[i]
		if n := len(l.text); len(rest) >= n && string(rest[:n]) == string(l.text) && l.to.begins(rest[n:]) {
			return l
		}
	}
	return nil
}

// begins reports whether the value can be at the beginning of a text.
func (p *place) begins(text []byte) bool {
	switch {
	case p.kind == textValue: // the link's text ends in a quote
		return true
	case len(text) == 0 || p.kind == noValue:
		return len(text) == 0 && p.kind == noValue
	case p.kind == arrayValue:
		return text[0] == '['
	}
	return text[0]-'0' <= 9 || text[0] == '-' || text[0] == 't' || text[0] == 'f'
}

// valueEnd returns the position after the value of p, which begins at position at, or -1. number is
// one more than the value if that is a count, otherwise 0.
func (s *shapes) valueEnd(p *place, line []byte, at int) (end int, number int64) {
	switch p.kind {
	case textValue:
		return quoteAt(line, at), 0
	case scalarValue:
		return scalarEnd(line, at)
	}
	return s.k.array(line, at, nil, depth-p.in.depth), 0
}

// store stores a value of a field.
func (s *shapes) store(spans []Span, field, from, to int, number int64) {
	if field == s.k.pair {
		s.k.put(spans, field, from, to)
		return
	}
	spans[field] = Span{int32(from), int32(to), number}
}

// study splits the object at position at like split, without shortcuts, and records how often
// each value is repeated.
func (s *shapes) study(line []byte, at int, spans []Span) bool {
	var value []byte
	number := int64(0)
	for p := &s.start; ; {
		l := match(p.links, line[at:])
		if l == nil {
			if l = s.learn(p, line, at); l == nil {
				return false
			}
		}
		l.count++
		p.record(value, number, *l)
		at += len(l.text)
		if p = l.to; p.kind == noValue {
			return true
		}
		from := at
		if at, number = s.valueEnd(p, line, from); at < 0 {
			return false
		}
		if p.field >= 0 {
			s.store(spans, p.field, from, at, number)
		}
		value = line[from:at]
	}
}

// record records a value of the place and the link that followed it.
func (p *place) record(value []byte, number int64, l link) {
	if p.visits++; len(value) > maxLinkText {
		return
	}
	if bytes.Equal(p.value, value) && bytes.Equal(p.then.text, l.text) {
		p.repeats++
		return
	}
	p.value, p.number, p.then = append(p.value[:0], value...), number, l
}

// addShortcuts replaces the shortcuts of all places according to the studied lines.
func (s *shapes) addShortcuts() {
	for _, p := range s.all {
		slices.SortStableFunc(p.links, func(a, b link) int { return b.count - a.count })
		p.shortcuts = nil
		for _, l := range p.links {
			p.shortcuts = append(p.shortcuts, l.extended()...)
		}
	}
	for _, p := range s.all {
		p.visits, p.repeats = 0, 0
		for i := range p.links {
			p.links[i].count = 0
		}
	}
}

// Shares of lines that repeat the values of a shortcut: at least leastShare, and sureShare if
// the next value is certain.
const (
	leastShare = 0.5
	sureShare  = 0.95
)

// extended returns the shortcuts that begin with link l, the longest first. Each ends before a
// value that is not certain to repeat.
func (l link) extended() (all []link) {
	whole := link{text: bytes.Clone(l.text), to: l.to}
	for share := 1.0; len(whole.text) < 2*maxLinkText; {
		p := whole.to
		repeated := float64(p.repeats) / float64(max(p.visits, 1))
		share *= repeated
		if (repeated < sureShare || share < leastShare) && len(whole.text) > len(l.text) {
			all = append(all, link{text: bytes.Clone(whole.text), to: p, stored: slices.Clone(whole.stored)})
		}
		if share < leastShare {
			break
		}
		from := len(whole.text)
		whole.text = append(whole.text, p.value...)
		if p.field >= 0 {
			whole.stored = append(whole.stored, stored{p.field, Span{int32(from), int32(len(whole.text)), p.number}})
		}
		whole.text, whole.to = append(whole.text, p.then.text...), p.then.to
	}
	slices.Reverse(all)
	return all
}

// quoteAt returns the position of the quote that ends a string, or -1. from is the position
// after the opening quote.
func quoteAt(line []byte, from int) int {
	for at := from; ; at++ {
		n := bytes.IndexByte(line[at:], '"')
		if n < 0 {
			return -1
		}
		if at += n; line[at-1] != '\\' || !escaped(line[from:], at-from) {
			return at
		}
	}
}

// scalarEnd returns the position after the number, true or false that begins at position at, or -1.
// number is one more than the value if that is a count, otherwise 0.
func scalarEnd(line []byte, at int) (end int, number int64) {
	whole := digitsEnd(line, at)
	switch {
	case whole == at:
		return literal(line, at), 0
	case whole == len(line) || line[whole] != '.' && line[whole]|0x20 != 'e':
		if n, ok := Int(line[at:whole]); ok && (line[at] != '0' || whole == at+1) {
			number = n + 1
		}
		return whole, number
	}
	end = whole
	if line[whole] == '.' {
		end = digitsEnd(line, whole+1)
	}
	if end == whole || end == whole+1 || end < len(line) && line[end]|0x20 == 'e' {
		return literal(line, at), 0
	}
	return end, 0
}

// digitsEnd returns the position after the digits at position at.
func digitsEnd(line []byte, at int) int {
	for at < len(line) && line[at]-'0' <= 9 {
		at++
	}
	return at
}

// learn parses the text between the value at p and the next value, and makes it a link. It
// returns nil if the text is invalid or exceeds the limits.
func (s *shapes) learn(p *place, line []byte, at int) *link {
	c := cursor{shapes: s, line: line, from: at, at: at, in: p.in}
	var to *place
	switch p.kind {
	case noValue:
		to = c.open("", &s.k.root, false)
	case textValue:
		c.at++ // the closing quote
		fallthrough
	default:
		to = c.afterValue()
	}
	if to == nil {
		return nil
	}
	l := link{text: bytes.Clone(line[at:c.at]), to: to}
	if len(p.links) < maxLinks {
		p.links = append(p.links, l)
		return &p.links[len(p.links)-1]
	}
	p.turn = (p.turn + 1) % maxLinks
	p.links[p.turn] = l
	return &p.links[p.turn]
}

// cursor parses the text between two values. Its methods return the place of the next value,
// whose position is then at. They return nil if the text is invalid or exceeds the limits.
type cursor struct {
	*shapes
	line     []byte
	from, at int
	in       *container
}

// skip skips blanks, and then the given character. It reports whether that followed.
func (c *cursor) skip(char byte) bool {
	c.at = space(c.line, c.at)
	if c.at == len(c.line) || c.line[c.at] != char {
		return false
	}
	c.at++
	return true
}

func (c *cursor) afterValue() *place {
	for c.in.outer != nil {
		switch {
		case c.at-c.from > maxLinkText:
			return nil
		case c.skip(','):
			return c.next()
		case c.in.array && c.skip(']'), !c.in.array && c.skip('}'):
			c.in = c.in.outer
		default:
			return nil
		}
	}
	if c.at = space(c.line, c.at); c.at < len(c.line) {
		return nil
	}
	return &c.end
}

// next parses up to the next value in the container.
func (c *cursor) next() *place {
	if c.in.array {
		return c.value("", nil)
	}
	if !c.skip('"') {
		return nil
	}
	end := quoteAt(c.line, c.at)
	if end < 0 {
		return nil
	}
	name := c.line[c.at:end]
	if c.at = end + 1; !c.skip(':') {
		return nil
	}
	return c.value(string(name), c.in.members.member(name))
}

// value begins the value of a member. n is nil if it was not requested.
func (c *cursor) value(name string, n *node) *place {
	if c.at = space(c.line, c.at); c.at == len(c.line) {
		return nil
	}
	requested := n != nil && n.field >= 0
	switch first := c.line[c.at]; {
	case first == '"':
		c.at++
		return c.place(textValue, name, n)
	case first == '{':
		return c.open(name, n, false)
	case first == '[' && requested:
		return c.place(arrayValue, name, n)
	case first == '[':
		return c.open(name, nil, true)
	case first == '-' || first-'0' <= 9 || requested && (first == 't' || first == 'f'):
		return c.place(scalarValue, name, n)
	}
	if c.at = literal(c.line, c.at); c.at < 0 {
		return nil
	}
	return c.afterValue()
}

// open begins the object or array at the cursor.
func (c *cursor) open(name string, n *node, array bool) *place {
	if c.in.depth == depth {
		return nil
	}
	last := byte('}')
	if array {
		last = ']'
	}
	if c.at++; c.skip(last) {
		return c.afterValue()
	}
	key := containerKey{name, array}
	inner := c.in.inner[key]
	if inner == nil {
		if !c.grow() {
			return nil
		}
		inner = newContainer(c.in, n, array)
		c.in.inner[key] = inner
	}
	c.in = inner
	return c.next()
}

// place returns the place of a value in the current container.
func (c *cursor) place(kind placeKind, name string, n *node) *place {
	key := placeKey{name, kind}
	p := c.in.places[key]
	if p == nil && c.grow() {
		p = &place{kind: kind, field: -1, in: c.in}
		if n != nil {
			p.field = n.field
		}
		c.in.places[key] = p
		c.all = append(c.all, p)
	}
	return p
}

// grow reports whether the memory has room for one more place or container.
func (c *cursor) grow() bool {
	c.size++
	return c.size <= maxPlaces
}
