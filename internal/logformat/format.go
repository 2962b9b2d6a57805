// Package logformat parses request logs, one request per line. It compiles formats in
// the syntax of server configurations (Apache's LogFormat, nginx's log_format,
// HAProxy's log-format, logback-access patterns), reads JSON lines, and detects which
// format a log has. Package requests/logs uses it.
//
// A Format is compiled once; Scan then splits lines into fields without copying.
package logformat

import "bytes"

// Layout is the notation of a time.
type Layout uint8

// The layouts.
const (
	CLF         Layout = iota // 18/Mar/2012:04:02:25 +0000, in Apache, nginx and logback-access
	CLFMilli                  // 18/Mar/2012:04:02:25.123, in HAProxy, in the server's time zone
	ISO                       // 2012-03-18T04:02:25+00:00, optionally with fractions or a space instead of T
	Unix                      // number of Unit nanoseconds since 1970
	Strftime                  // a strftime(3) pattern
	DateAndTime               // date and time of day in two members of a JSON object
)

// Names of fields with a defined meaning. Fields with other names are text for
// grouping and comparison.
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
	FieldHost     = "host" // the requested virtual host
)

// Field is one value of a line.
type Field struct {
	Name   string // lower case, words separated by _
	Source string // in the server's format: %D, $request_time
	Kind   Kind
	Layout Layout
	Unit   int64 // nanoseconds per unit of a Duration or Unix time
	// List reports whether the text may contain several numbers, for several attempts,
	// separated by commas or colons (nginx' $upstream_response_time). They are added.
	List   bool
	Sum    bool   // for a List: all parts must be present
	Escape Escape // how the value is escaped
	// Lenient reports whether a number may have an exponent, and a duration a
	// unit, as in JSON: 9.2e-05, 1.2s.
	Lenient bool
	// Names reports whether an Address may be a host name (Apache's HostnameLookups).
	Names bool
	// Digits reports whether a Duration has no decimal point (Apache, HAProxy).
	Digits bool
	// Braced reports whether the value is in braces, or omitted with the following
	// space (HAProxy's captured headers).
	Braced bool

	pattern *pattern // for Strftime
	quotes  bool     // around the braces
	strict  bool     // in quotes: an unescaped quote inside means that the line has another format
	atEnd   bool     // a time of the response, while others are of the request
}

// Format is a compiled format.
type Format struct {
	Name   string // "Apache's combined log"
	Source string // the origin: the LogFormat, or its location
	Fields []Field
	// Text is the format in the syntax of --format, if it was detected and has one.
	Text string
	// TimeIsEnd reports whether a line's time is the response's (nginx, logback-access), not the
	// request's (Apache, HAProxy).
	TimeIsEnd bool

	// UnitUnknown is a member of JSON lines that is a duration in an unknown unit;
	// it is not used as one.
	UnitUnknown string

	// NoMember reports whether none of the first lines has the member that was named as the
	// duration. Members lists their members, Numbers the possible durations.
	NoMember         bool
	Members, Numbers []string

	// NoZone reports whether times are in the server's time zone without naming it.
	NoZone bool
	// Why explains why a format was detected.
	Why string
	// Guessed describes what the lines do not prove about the format, or is empty.
	Guessed string

	prefix    []byte
	steps     []step
	lone      int     // index in Fields of the value that may belong to either of the two fields before it; 0: none
	checks    []check // fields that are checked after a line is split
	addresses []int   // indexes of Address fields
	// backslash and hash report whether any field has escapes of that kind.
	backslash, hash bool
	wrap            *wrap // what another program adds to each line
	trailing        bool  // trailing blanks may remain
	scan            func(line []byte, spans []Span) LineKind
	absent          []int // fields: a line in which all of them are - or 0 is a connection, not a request
	joined, rails   bool
	zone            string // the server's time zone, from the first lines of a joined format
}

// LineKind classifies a line.
type LineKind uint8

// The kinds of lines.
const (
	BadLine     LineKind = iota // not in the format
	RequestLine                 // a request
	OtherLine                   // in the format, but not a request
)

// Joined reports whether a request has several lines, to be read with a Joiner
// instead of Scan.
func (f *Format) Joined() bool { return f.joined }

// Keyed reports whether lines have named members: JSON, or key=value.
func (f *Format) Keyed() bool { return f.Name == JSONLines || f.Name == PairLines }

// step is one field and the text after it.
type step struct {
	field  int    // index in Fields
	lit    []byte // ends the field; empty: the line end does
	quoted bool   // quotes after an odd number of backslashes do not end it
	strict bool   // the first quote must end the value, or the line has another format
	number bool   // the value begins with a digit or sign
	port   []byte // ends the port after the value and a colon; the last colon before it ends the value
	keep   bool   // lit is part of the next field
	braced byte   // the value begins with it, or is omitted together with lit; 0: none

	quick quick
}

// Span is the position of a field in its line.
type Span struct {
	Start, End int32
	// number is one more than the number in the text, or 0 if that was not parsed yet.
	number int64
}

func span(start, end int) Span { return Span{Start: int32(start), End: int32(end)} }

// Of returns the text of the field.
func (s Span) Of(line []byte) []byte { return line[s.Start:s.End] }

// Int returns the number in the text. ok is false if it was not parsed yet, or is not a number.
func (s Span) Int() (n int64, ok bool) { return s.number - 1, s.number > 0 }

// MaxLine is the longest line that is read, in bytes. Apache limits request
// lines and headers to 8 KiB each, so longer lines are not requests.
const MaxLine = 1 << 20

// Field returns the index of the field with a name, or -1.
func (f *Format) Field(name string) int {
	for i := range f.Fields {
		if f.Fields[i].Name == name {
			return i
		}
	}
	return -1
}

// Scan splits a line, without its line end, into spans, which must have the
// length of Fields.
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
		line = bytes.TrimRight(line, " ") // an omitted last value leaves its blank
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

// connection reports whether a line has no method, protocol and status: Envoy
// also logs TCP connections.
func (f *Format) connection(line []byte, spans []Span) bool {
	for _, at := range f.absent {
		if text := string(spans[at].Of(line)); text != "-" && text != "0" {
			return false
		}
	}
	return true
}

// classify determines the kind of a split line. It also removes the brackets around an
// IPv6 address, so that clients are equal across formats, and moves a single value in
// braces that may belong to either of two fields to a field of its own.
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

// check is a field that is checked after a line is split.
type check struct {
	field  int
	kind   Kind
	status bool
}

// valid reports whether the checked fields of a split line are valid.
func (f *Format) valid(line []byte, spans []Span) bool {
	for i := range f.checks {
		c := &f.checks[i]
		s := spans[c.field]
		switch {
		case s.number > 0: // digits, as parsed while splitting
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

// afterOmitted returns the position after an omitted value and its blank, or
// -1.
func (s *step) afterOmitted(line []byte, at int) int {
	lit := bytes.TrimPrefix(s.lit, []byte(" "))
	if !bytes.HasPrefix(line[at:], lit) {
		if at++; at > len(line) || line[at-1] != ' ' || !bytes.HasPrefix(line[at:], lit) {
			return -1
		}
	}
	return at + len(lit)
}

// Rescan splits a line again that Scan split into invalid values, because the
// first end of a field was not the right one.
func (f *Format) Rescan(line []byte, spans []Span) LineKind {
	if f.scan != nil || f.joined {
		return BadLine
	}
	at := 0
	if f.trailing {
		line = bytes.TrimRight(line, " ") // an omitted last value leaves its blank
	}
	if bytes.HasPrefix(line, byteOrder) {
		at = len(byteOrder)
	}
	if !bytes.HasPrefix(line[at:], f.prefix) {
		return BadLine
	}
	return f.scanBacktrack(line, at+len(f.prefix), spans)
}

// end returns the length of the field at the beginning of text, or -1.
func (s *step) end(text []byte) int {
	if s.braced != 0 { // braces in values are escaped as #7D
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

// escaped reports whether the byte at n follows an odd number of backslashes.
func escaped(text []byte, n int) bool {
	odd := false
	for n--; n >= 0 && text[n] == '\\'; n-- {
		odd = !odd
	}
	return odd
}
