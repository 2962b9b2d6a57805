package format

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// keys cuts one JSON object a line. The members of objects within it have names with
// points between them: http.response.status_code.
type keys struct {
	root   node
	fields int

	// need are groups of fields: a line that has none of one group is not a request.
	need   [][]int
	dashes bool   // a - is as good as none of need
	logger int    // of a line that has this field, it begins with prefix; -1: none
	prefix []byte // the loggers of requests
	clock  int    // the field that is the time of Ruby's Logger; -1: none
	ruby   bool   // an object, or key=value, stands behind what Ruby's Logger writes
	pair   int    // the field that is a date and a time of day in two members; -1: none

	client, status, bytes int // fields; -1: none
}

func newKeys() *keys {
	return &keys{root: node{field: -1}, logger: -1, clock: -1, pair: -1, client: -1, status: -1, bytes: -1}
}

// node is an object's members by name.
type node struct {
	members map[string]*node
	field   int // -1: none
}

// add asks for a member. A point in its name may be between an object and its member or
// stand in the name of one: loggers that keep to Elastic's schema write both.
func (k *keys) add(dotted string, field int) {
	k.root.add(strings.Split(dotted, "."), field)
	k.fields = max(k.fields, field+1)
}

// mostWords is the most words of a name that are taken together in every way.
const mostWords = 6

func (n *node) add(words []string, field int) {
	if len(words) == 0 {
		n.field = field
		return
	}
	most := len(words)
	if most > mostWords {
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

// depth is how deep an object may lie in others.
const depth = 32

// byteOrder is the mark that some programs write before the first line.
var byteOrder = []byte("\ufeff")

func (k *keys) scan(line []byte, spans []Span) Line {
	clear(spans)
	at := 0
	if k.ruby {
		var ok bool
		if at, ok = k.ofRuby(line, spans); !ok || at == len(line) || line[at] != '{' {
			return Other
		}
	}
	if at == 0 && bytes.HasPrefix(line, byteOrder) {
		at = len(byteOrder)
	}
	if at = space(line, at); at == len(line) || line[at] != '{' {
		return Bad
	}
	if at = k.object(line, at, &k.root, spans, depth); at < 0 || space(line, at) < len(line) {
		return Bad
	}
	return k.request(line, spans)
}

// object reads one that begins at at, and gives where it ends, or -1. A nil node is one
// whose members nobody asked for.
func (k *keys) object(line []byte, at int, n *node, spans []Span, deep int) int {
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
		var member *node
		if n != nil {
			name := line[at+1 : end-1]
			if member = n.members[string(name)]; member == nil && bytes.IndexByte(name, '\\') >= 0 {
				member = n.members[string(JSONString.Plain(name))]
			}
		}
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

func (k *keys) value(line []byte, at int, n *node, spans []Span, deep int) int {
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

func (k *keys) array(line []byte, at int, spans []Span, deep int) int {
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

// literal is where a number, true, false or null ends, or -1.
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

func space(line []byte, at int) int {
	for at < len(line) && (line[at] == ' ' || line[at] == '\t' || line[at] == '\r') {
		at++
	}
	return at
}

// stringEnd is behind the quote that ends the string which begins at at, or -1.
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

// JSONLines is the name of the format of lines that are objects.
const JSONLines = "JSON lines"

// jsonBuilder makes a format of what members are called and of the values that they have.
type jsonBuilder struct {
	*sample
	f       *Format
	k       *keys
	product *jsonProduct
	used    map[string]bool
	guesses []string
}

// JSON makes a format of lines that are objects, of the log's first lines; nil: none of
// them is one. A member has a role by its name and its values together; durations beyond
// those whose unit is known are named by units ("took": 1e6 for milliseconds).
func JSON(lines [][]byte, units map[string]int64) *Format {
	s := sampleOf(lines)
	if len(s.rows) == 0 {
		return nil
	}
	b := newBuilder(s, JSONLines)
	b.build(units)
	return b.f
}

func newBuilder(s *sample, name string) *jsonBuilder {
	return &jsonBuilder{sample: s, used: map[string]bool{}, product: s.product(), f: &Format{Name: name, Source: "its members' names", backslash: true}, k: newKeys()}
}

// build makes the format.
func (b *jsonBuilder) build(units map[string]int64) {
	b.sample.requests(b.product)
	b.duration(units)
	b.time()
	if b.k.ruby && b.f.Field(FieldTime) < 0 {
		b.k.clock = len(b.f.Fields)
		b.f.Fields = append(b.f.Fields, Field{Name: FieldTime, Kind: Time, Layout: ISO, Asked: "the time of Ruby's Logger"})
		b.f.NoZone, b.f.TimeIsEnd = true, true
	}
	for i := range roles {
		b.role(&roles[i])
	}
	for _, member := range b.list() {
		n := name(member)
		if reserved(n) {
			n = "member_" + n
		}
		if !b.used[member] && b.f.Field(n) < 0 {
			b.add(Field{Name: n}, member)
		}
	}
	b.requests()
	b.f.scan = b.k.scan
	b.why()
}

// add makes a member a field.
func (b *jsonBuilder) add(field Field, member string) {
	b.used[member] = true
	field.Asked, field.Escape = member, JSONString
	b.k.add(member, len(b.f.Fields))
	b.f.Fields = append(b.f.Fields, field)
}

// taken reports whether a member has a meaning of its own.
func (b *jsonBuilder) taken(member string) bool {
	for _, f := range b.f.Fields {
		if f.Asked == member {
			return f.Name != name(member) || reserved(f.Name)
		}
	}
	return false
}

// named are the members whose name is normal's, in order.
func (b *jsonBuilder) named(n string) (members []string) {
	for _, member := range b.list() {
		if normal(member) == n {
			members = append(members, member)
		}
	}
	return members
}

// role gives a role to the first member that has its name and its values: the product's
// own before all others.
func (b *jsonBuilder) role(r *role) {
	taken := ""
	try := func(member string, sure bool) {
		switch {
		case b.used[member] || !r.can(b.members[member]):
		case taken == "":
			taken = member
			b.add(r.field, member)
		case !sure && r.fits != nil && b.differ(taken, member):
			b.guess("%q is the %s, not %q", taken, r.field.Name, member)
		}
	}
	if b.product != nil {
		for _, member := range b.product.roles[r.field.Name] {
			try(member, true)
		}
		if taken != "" {
			return
		}
	}
	for _, n := range r.names {
		for _, member := range b.named(n) {
			try(member, false)
		}
	}
}

// requests sets which lines are requests: those of the product, or those with what was
// asked for, and how it ended or how long it took.
func (b *jsonBuilder) requests() {
	field := func(member string) int {
		return slices.IndexFunc(b.f.Fields, func(f Field) bool { return f.Asked == member })
	}
	if b.product != nil && len(b.product.must) > 0 {
		for _, group := range b.product.musts() {
			var any []int
			for _, member := range group {
				if at := field(member); at >= 0 {
					any = append(any, at)
				}
			}
			b.k.need, b.k.dashes = append(b.k.need, any), true
		}
		if at := field(b.product.logger); at >= 0 {
			b.k.logger, b.k.prefix = at, []byte(b.product.prefix)
		}
	} else {
		for _, names := range [][]string{{FieldRequest, FieldURL}, {FieldStatus, FieldDuration, FieldMethod, FieldRequest}} {
			var any []int
			for _, n := range names {
				if at := b.f.Field(n); at >= 0 {
					any = append(any, at)
				}
			}
			if len(any) > 0 {
				b.k.need = append(b.k.need, any)
			}
		}
	}
	b.k.client, b.k.status, b.k.bytes = b.f.Field(FieldClient), b.f.Field(FieldStatus), b.f.Field(FieldBytes)
}

// why appends to the format's Why what identified it.
func (b *jsonBuilder) why() {
	if b.product != nil {
		b.f.Why += "; members of " + b.product.name
	}
	if len(b.guesses) > 0 {
		b.f.Guessed = "that " + strings.Join(b.guesses, ", that ")
		b.f.Why += "; guessed: " + b.f.Guessed
	}
	d := b.f.Field(FieldDuration)
	switch {
	case d >= 0 && b.members[b.f.Fields[d].Asked] != nil:
		b.f.Why += fmt.Sprintf("; %q is the duration, in %s", b.f.Fields[d].Asked, UnitName(b.f.Fields[d].Unit))
	case d >= 0: // named by the user
		b.f.NoMember = len(b.members) < mostMembers
		for _, member := range b.list() {
			b.f.Members = append(b.f.Members, member)
			if !b.taken(member) && share(b.members[member], isDuration) >= nearly {
				b.f.Numbers = append(b.f.Numbers, member)
			}
		}
	case b.f.UnitUnknown != "":
		b.f.Why += fmt.Sprintf("; the unit of %q is not known: --duration %s --unit s (or ms, us, ns) says it", b.f.UnitUnknown, b.f.UnitUnknown)
	}
}
