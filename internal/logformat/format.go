// Package logformat knows how a server writes one line for each request: the grammars in
// which servers are told (Apache's LogFormat, nginx's log_format, HAProxy's log-format,
// logback-access' pattern), JSON lines, and how to find out which of them a log has.
//
// A Format is compiled once; Scan then cuts a line into fields without copying it.
package logformat

import "bytes"

// Layout is how a time is written.
type Layout uint8

// The layouts of times.
const (
	CLF         Layout = iota // 18/Mar/2012:04:02:25 +0000, as Apache, nginx and logback-access
	CLFMilli                  // 18/Mar/2012:04:02:25.123, as HAProxy, in the server's zone
	ISO                       // 2012-03-18T04:02:25+00:00, fractions of a second and a space for T allowed
	Unix                      // a number of Unit nanoseconds since 1970
	Strftime                  // as a pattern of strftime(3) has it
	DateAndTime               // a date and a time of day in two members of a JSON object
)

// Names of fields that have a meaning here; a field of any other name is text that can
// be grouped by and compared.
const (
	FieldTime     = "time"
	FieldDuration = "duration"
	FieldRequest  = "request"
	FieldMethod   = "method"
	FieldURL      = "url"
	FieldPath     = "path"
	FieldQuery    = "query"
	FieldProtocol = "protocol"
	FieldStatus   = "status"
	FieldBytes    = "bytes"
	FieldClient   = "client"
	FieldUser     = "user"
	FieldHost     = "host" // the virtual host asked for
)

// Field is one value of a line.
type Field struct {
	Name   string // in lower case, with _ between words
	Source string // as the server's format has it: %D, $request_time
	Kind   Kind
	Layout Layout
	Unit   int64 // nanoseconds of a Duration or a Unix time
	// List says that the text may be several numbers, of several attempts, with commas
	// or colons between them (nginx' $upstream_response_time): they are added.
	List   bool
	Sum    bool   // of a List: all its parts have to be there
	Escape Escape // how bytes of the value are written
	// Lenient says that a number may have an exponent, and a duration its own unit, as in
	// JSON: 9.2e-05, 1.2s.
	Lenient bool
	// Names says that the server may write a host name for an Address (Apache's
	// HostnameLookups).
	Names bool
	// Digits says that the server writes a Duration without a point (Apache, HAProxy).
	Digits bool
	// Braced says that the value stands in braces, or is left out with the space behind
	// it (HAProxy's captured headers).
	Braced bool

	pattern *pattern // of Strftime
	quotes  bool     // around the braces
	strict  bool     // in quotes: a quote within that is not escaped makes it another format's line
	atEnd   bool     // a time of the answer, where the format's others are of the request
}

// Format is a way to write a line, ready to read lines.
type Format struct {
	Name   string // "Apache's combined log"
	Source string // how it was written: the LogFormat, or where it stands
	Fields []Field
	// Text is the format as --format takes it, where it was found out as one that has a text.
	Text string
	// TimeIsEnd says that a line's time is when it was written, after the answer
	// (nginx, logback-access), not when the request came (Apache, HAProxy).
	TimeIsEnd bool

	// UnitUnknown is a member of JSON lines that is a duration in a unit which nothing says:
	// it is not read as one.
	UnitUnknown string

	// NoMember says that none of the first lines has the member that was named as the
	// duration; they have Members, of which Numbers may be one.
	NoMember         bool
	Members, Numbers []string

	// NoZone says that times are written in the server's own zone without naming it.
	NoZone bool
	// Why says why this is a log's format, where it was found out.
	Why string
	// Guessed is what of the format the lines do not say; empty: nothing.
	Guessed string

	prefix    []byte
	steps     []step
	lone      int     // of Fields, what may be either of the two before it; 0: none
	checks    []check // of Fields, those whose text is checked once a line is cut
	addresses []int   // of Fields, those of the kind Address
	// Of some field the bytes are written otherwise than the client sent them.
	backslash, hash bool
	wrap            *wrap // what another program wrote around each line
	trailing        bool  // blanks may be left at the end of a line
	scan            func(line []byte, spans []Span) LineKind
	absent          []int // of Fields: a line in which each of them is - or 0 is of a connection, not of a request
	joined, rails   bool
	zone            string // of the server's clock, as the first lines of a joined format say it
}

// LineKind is what a line is.
type LineKind uint8

// What a line may be.
const (
	BadLine     LineKind = iota // not of the format
	RequestLine                 // a request
	OtherLine                   // of the format, and no request
)

// Joined says that a request has several lines, which Joiner puts together; Scan is not
// for such a format.
func (f *Format) Joined() bool { return f.joined }

// Keyed says that lines have members with names: JSON, or key=value.
func (f *Format) Keyed() bool { return f.Name == JSONLines || f.Name == PairLines }

// step is one field and what stands behind it.
type step struct {
	field  int    // in Fields
	lit    []byte // ends the field; empty: it ends with the line
	quoted bool   // a quote after an odd number of backslashes does not end it
	strict bool   // the first quote that ends a value ends this one, or the line is of another format
	number bool   // the value begins with a digit or a sign
	port   []byte // ends the port behind the value and a colon: the last colon before it ends the value
	keep   bool   // lit is the beginning of the next field, and stays
	braced byte   // the value begins so, or is not there, and then lit is not either; 0: none

	quick quick
}

// Span is where a field stands in its line.
type Span struct {
	Start, End int32
	// One more than the number that the text is, where that was seen while the line was
	// cut.
	number int64
}

func span(start, end int) Span { return Span{Start: int32(start), End: int32(end)} }

// Of is the text of a field.
func (s Span) Of(line []byte) []byte { return line[s.Start:s.End] }

// Int is the number that the text is. False says that nobody has looked yet, or that the
// text is none.
func (s Span) Int() (n int64, ok bool) { return s.number - 1, s.number > 0 }

// MaxLine is the longest line that is read, in bytes: Apache cuts a request at 8 KiB and
// a header at as much, so a line beyond it is no request.
const MaxLine = 1 << 20

// Field finds a field by name; -1 is none.
func (f *Format) Field(name string) int {
	for i := range f.Fields {
		if f.Fields[i].Name == name {
			return i
		}
	}
	return -1
}

// Scan cuts a line, without its end of line, into spans, of which there have to be as
// many as Fields.
func (f *Format) Scan(line []byte, spans []Span) LineKind {
	if f.scan != nil {
		l := f.scan(line, spans)
		if l == RequestLine {
			if !f.valid(line, spans) {
				return BadLine
			}
			return f.classify(line, spans)
		}
		return l
	}
	at := 0
	if f.trailing {
		line = bytes.TrimRight(line, " ") // what is left out at the end leaves its blank
	}
	if len(line) > 0 && line[0] == byteOrder[0] && bytes.HasPrefix(line, byteOrder) {
		at = len(byteOrder)
	}
	if len(f.prefix) > 0 {
		if !bytes.HasPrefix(line[at:], f.prefix) {
			return BadLine
		}
		at += len(f.prefix)
	}
	begin := at
	for i := 0; ; i++ {
		if i, at = f.scanQuick(line, i, at, spans); i == len(f.steps) {
			break
		}
		s := &f.steps[i]
		if s.braced != 0 && (at == len(line) || line[at] != s.braced) {
			spans[s.field] = span(at, at)
			if at = s.afterOmitted(line, at); at < 0 {
				return f.scanBacktrack(line, begin, spans)
			}
			continue
		}
		n := s.end(line[at:])
		if n < 0 || s.number && n > 0 && line[at]-'0' > 9 && line[at] != '-' && line[at] != '+' {
			return f.scanBacktrack(line, begin, spans)
		}
		spans[s.field] = span(at, at+n)
		at += n + s.quick.over
	}
	if at != len(line) || !f.valid(line, spans) {
		return f.scanBacktrack(line, begin, spans)
	}
	return f.classify(line, spans)
}

// connection reports whether a line has no method, no protocol and no status: Envoy writes
// one for each connection of TCP, too.
func (f *Format) connection(line []byte, spans []Span) bool {
	for _, at := range f.absent {
		if text := string(spans[at].Of(line)); text != "-" && text != "0" {
			return false
		}
	}
	return true
}

// classify says what a line is that was cut. It leaves the brackets around an IPv6 address out, so that it is the same client in
// each format, and moves what stands alone in braces, where two fields may, to a field of
// its own: which of the two it is the line does not say.
func (f *Format) classify(line []byte, spans []Span) LineKind {
	if f.absent != nil && f.connection(line, spans) {
		return OtherLine
	}
	for _, i := range f.addresses {
		if s := &spans[i]; s.End-s.Start > 2 && line[s.Start] == '[' && line[s.End-1] == ']' {
			*s = Span{Start: s.Start + 1, End: s.End - 1}
		}
	}
	if f.lone == 0 {
		return RequestLine
	}
	first, second, lone := &spans[f.lone-2], &spans[f.lone-1], &spans[f.lone]
	*lone = Span{Start: first.Start, End: first.Start}
	if first.End > first.Start && second.End == second.Start {
		*lone, *first = *first, *lone
	}
	return RequestLine
}

// check is a field whose text is checked once a line is cut, in the way that most lines
// pass at once.
type check struct {
	field  int
	kind   Kind
	status bool
}

// valid reports whether the fields of a line that was cut are what they have to be.
func (f *Format) valid(line []byte, spans []Span) bool {
	for i := range f.checks {
		c := &f.checks[i]
		s := spans[c.field]
		switch {
		case s.number > 0: // digits, as was seen when it was cut
			if !c.status || s.End-s.Start == 3 {
				continue
			}
		case c.kind == Address:
			if quickIPv4(line, int(s.Start), int(s.End)) {
				continue
			}
		case c.kind == Ident && s.End-s.Start == 1 && line[s.Start] == '-':
			continue
		}
		if !f.Fields[c.field].Fits(s.Of(line)) {
			return false
		}
	}
	return true
}

// afterOmitted is where the line goes on behind a value that was left out with the blank behind
// it, or -1.
func (s *step) afterOmitted(line []byte, at int) int {
	lit := bytes.TrimPrefix(s.lit, []byte(" "))
	if !bytes.HasPrefix(line[at:], lit) {
		if at++; at > len(line) || line[at-1] != ' ' || !bytes.HasPrefix(line[at:], lit) {
			return -1
		}
	}
	return at + len(lit)
}

// Rescan is Scan for a line that it has cut into what cannot be: the first end of each
// field was not the right one.
func (f *Format) Rescan(line []byte, spans []Span) LineKind {
	if f.scan != nil || f.joined {
		return BadLine
	}
	at := 0
	if f.trailing {
		line = bytes.TrimRight(line, " ") // what is left out at the end leaves its blank
	}
	if bytes.HasPrefix(line, byteOrder) {
		at = len(byteOrder)
	}
	if !bytes.HasPrefix(line[at:], f.prefix) {
		return BadLine
	}
	return f.scanBacktrack(line, at+len(f.prefix), spans)
}

// end is how long the field at the beginning of text is, or -1.
func (s *step) end(text []byte) int {
	if s.braced != 0 { // a brace in a value is #7D
		n := bytes.IndexByte(text, '}') + 1
		if s.braced == '"' && n < len(text) {
			n++
		}
		if n == 0 || !bytes.HasPrefix(text[n:], s.lit) || len(s.lit) == 0 && n < len(text) {
			return -1
		}
		return n
	}
	if len(s.lit) == 0 {
		return len(text)
	}
	if s.port != nil {
		n := len(text)
		if len(s.port) > 0 {
			n = max(bytes.Index(text, s.port), 0)
		}
		return bytes.LastIndexByte(text[:n], ':')
	}
	first, from := s.lit[0], 0
	for {
		n := bytes.IndexByte(text[from:], first)
		if n < 0 {
			return -1
		}
		n += from
		if s.quoted && escaped(text, n) {
			from = n + 1
			continue
		}
		if !bytes.HasPrefix(text[n:], s.lit) {
			if s.strict {
				return -1
			}
			from = n + 1
			continue
		}
		return n
	}
}

// escaped says whether the byte at n stands behind an odd number of backslashes.
func escaped(text []byte, n int) bool {
	odd := false
	for n--; n >= 0 && text[n] == '\\'; n-- {
		odd = !odd
	}
	return odd
}
