// Package logformat parses request logs, one request per line. It compiles formats in the
// syntax of server configurations (Apache's LogFormat, nginx's log_format, HAProxy's
// log-format, logback-access patterns), reads JSON lines, and detects the format of a log.
// Package requests/logs uses it.
//
// A Format is compiled once; Scan then splits lines into fields without copying.
package logformat

import "bytes"

// Layout is the notation of a time.
type Layout uint8

// Layouts.
const (
	CLF         Layout = iota // 18/Mar/2012:04:02:25 +0000, in Apache, nginx and logback-access
	CLFMilli                  // 18/Mar/2012:04:02:25.123, in HAProxy, in the server's time zone
	ISO                       // 2012-03-18T04:02:25+00:00, optionally with fractions or a space instead of T
	Unix                      // number of Unit nanoseconds since 1970
	Strftime                  // a strftime(3) pattern
	DateAndTime               // date and time of day in two members of a JSON object
)

// Names of fields with a defined meaning. Other fields are texts for grouping and comparison.
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
	// List reports whether the text may contain several numbers, one for each attempt,
	// separated by commas or colons (nginx' $upstream_response_time). They are added up.
	List   bool
	Sum    bool   // for a List: all parts are required
	Escape Escape // how the value is escaped
	// Lenient reports whether a number may have an exponent, and a duration a unit, as in
	// JSON: 9.2e-05, 1.2s.
	Lenient bool
	// Names reports whether an Address may be a host name (Apache's HostnameLookups).
	Names bool
	// Digits reports whether a Duration has only digits, no decimal point (Apache, HAProxy).
	Digits bool
	// Braced reports whether the value is in braces. A missing value is omitted with the space
	// after it (HAProxy's captured headers).
	Braced bool

	pattern *pattern // for Strftime
	quotes  bool     // there are quotes around the braces
	strict  bool     // in quotes: a line with an unescaped quote inside has another format
	atEnd   bool     // time of the response, while other fields have the time of the request
}

// Format is a compiled format.
type Format struct {
	Name   string // "Apache's combined log"
	Source string // origin: the LogFormat, or its location
	Fields []Field
	// Text is a detected format in the syntax of --format, or empty if it cannot be written so.
	Text string
	// TimeIsEnd reports whether a line's time is that of the response (nginx, logback-access),
	// not of the request (Apache, HAProxy).
	TimeIsEnd bool

	// UnitUnknown names a member of JSON lines that is a duration in an unknown unit. It is
	// not used as the duration.
	UnitUnknown string

	// NoMember reports whether the first lines all lack the member that the user named as the
	// duration. Members lists their members, and Numbers the possible durations.
	NoMember         bool
	Members, Numbers []string

	// NoZone reports whether times are in the server's time zone and the lines do not name it.
	NoZone bool
	// Why explains why a format was detected.
	Why string
	// Guessed describes the assumptions about the format that the lines do not prove, or is empty.
	Guessed string

	prefix []byte
	steps  []step
	lone   int     // index in Fields of a value that may belong to either of the two fields before it; 0 if none
	checks []check // fields checked after a line was split
	// unparsed are those of checks that scanQuick may have split without parsing a number.
	unparsed  []check
	addresses []int // indexes of Address fields
	// backslash and hash report whether any field has escapes of that kind.
	backslash, hash bool
	wrap            *wrap // text that another program adds to each line
	trailing        bool  // lines may end in blanks
	scan            func(line []byte, spans []Span) LineKind
	json            *jsonScanner // of lines that are JSON objects
	absent          []int        // fields that are all - or 0 in a line for a connection, which is not a request
	joined, rails   bool
	zone            string // server's time zone, from the first lines of a joined format
}

// LineKind is the result of parsing a line.
type LineKind uint8

// Kinds of lines.
const (
	BadLine     LineKind = iota // does not match the format
	RequestLine                 // a request
	OtherLine                   // matches the format, but is not a request
)

// Joined reports whether a request has several lines. They must be read with a Joiner instead
// of Scan.
func (f *Format) Joined() bool { return f.joined }

// Keyed reports whether lines have named members, as in JSON and key=value.
func (f *Format) Keyed() bool { return f.Name == JSONLines || f.Name == PairLines }

// step is one field and the literal after it.
type step struct {
	field  int    // index in Fields
	lit    []byte // ends the field; empty for the end of the line
	quoted bool   // quotes after an odd number of backslashes do not end it
	strict bool   // the first quote must end the value, or the line has another format
	number bool   // the value begins with a digit or a sign
	port   []byte // ends the port; the last colon before it ends the value
	keep   bool   // lit also begins the next field
	braced byte   // the value begins with this byte, or is omitted together with lit; 0 if not braced

	quick quick
}

// Span is the position of a field in its line.
type Span struct {
	Start, End int32
	// number is the number in the text plus one, or 0 if it was not parsed.
	number int64
}

func span(start, end int) Span { return Span{Start: int32(start), End: int32(end)} }

// Of returns the text of the field in its line.
func (s Span) Of(line []byte) []byte { return line[s.Start:s.End] }

// Int returns the number in the text. ok is false if the text was not parsed or is not a number.
func (s Span) Int() (n int64, ok bool) { return s.number - 1, s.number > 0 }

// MaxLine is the maximum length of a line, in bytes. Apache limits request lines and headers
// to 8 KiB each, so longer lines are not requests.
const MaxLine = 1 << 20

// Field returns the index of the field with the given name, or -1.
func (f *Format) Field(name string) int {
	for i := range f.Fields {
		if f.Fields[i].Name == name {
			return i
		}
	}
	return -1
}

// Scan splits a line, without its line end, into spans. The length of spans must be that of
// Fields.
func (f *Format) Scan(line []byte, spans []Span) LineKind {
	if f.scan != nil {
		return f.checked(f.scan(line, spans), line, spans)
	}
	at := 0
	if f.trailing {
		line = bytes.TrimRight(line, " ") // an omitted last value leaves a blank
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
	begin, checks := at, f.unparsed
	for i := 0; ; i++ {
		if i, at = f.scanQuick(line, i, at, spans); i == len(f.steps) {
			break
		}
		checks = f.checks
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
		at += n + s.skip()
	}
	if at != len(line) || !f.valid(checks, line, spans) {
		return f.scanBacktrack(line, begin, spans)
	}
	return f.classify(line, spans)
}

// Scanner returns a function that splits lines like Scan, but remembers the members of earlier
// JSON lines, which is faster. Only one goroutine may use it.
func (f *Format) Scanner() func(line []byte, spans []Span) LineKind {
	if f.json == nil {
		return f.Scan
	}
	s := newShapes(f.json)
	return func(line []byte, spans []Span) LineKind { return f.checked(s.scan(line, spans), line, spans) }
}

// checked returns the kind of a line whose fields were found by name.
func (f *Format) checked(kind LineKind, line []byte, spans []Span) LineKind {
	if kind != RequestLine {
		return kind
	}
	if !f.valid(f.checks, line, spans) {
		return BadLine
	}
	return f.classify(line, spans)
}

// connection reports whether a line has no method, protocol and status. Envoy logs TCP
// connections too.
func (f *Format) connection(line []byte, spans []Span) bool {
	for _, at := range f.absent {
		if text := string(spans[at].Of(line)); text != "-" && text != "0" {
			return false
		}
	}
	return true
}

// classify returns the kind of a split line. It removes the brackets around an IPv6 address,
// so clients are equal across formats. It also moves a value in braces that may belong to
// either of two fields to a field of its own.
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

// check is a field to check after a line was split.
type check struct {
	field  int
	kind   Kind
	status bool
}

// valid reports whether all fields in checks are valid in a split line.
func (f *Format) valid(checks []check, line []byte, spans []Span) bool {
	for i := range checks {
		c := &checks[i]
		s := spans[c.field]
		switch {
		case s.number > 0: // digits were parsed during the split
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

// afterOmitted returns the position after an omitted value and its blank, or -1 if the value
// is not omitted.
func (s *step) afterOmitted(line []byte, at int) int {
	lit := s.omittedLit()
	if !bytes.HasPrefix(line[at:], lit) {
		if at++; at > len(line) || line[at-1] != ' ' || !bytes.HasPrefix(line[at:], lit) {
			return -1
		}
	}
	return at + len(lit)
}

// omittedLit returns what is left of the literal after an omitted value: its blank is omitted too.
func (s *step) omittedLit() []byte { return bytes.TrimPrefix(s.lit, []byte(" ")) }

// Rescan splits a line again if Scan returned invalid values because it ended a field too early.
func (f *Format) Rescan(line []byte, spans []Span) LineKind {
	if f.scan != nil || f.joined {
		return BadLine
	}
	at := 0
	if f.trailing {
		line = bytes.TrimRight(line, " ") // an omitted last value leaves a blank
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
