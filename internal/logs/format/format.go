// Package format knows how a server writes one line for each request: the grammars in
// which servers are told (Apache's LogFormat, nginx's log_format, HAProxy's log-format,
// logback-access' pattern), JSON lines, and how to find out which of them a log has.
//
// A Format is compiled once; Scan then cuts a line into fields without copying it.
package format

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// Kind is what a field's text means.
type Kind uint8

// The kinds of fields.
const (
	Text     Kind = iota
	Time          // when, in the field's Layout
	Duration      // a number of Unit nanoseconds; - and what is below 0 are none
	Number        // a count; - is none
	Request       // METHOD URL PROTOCOL, as the client sent it
	URL           // path and query
)

// Layout is how a time is written.
type Layout uint8

// The layouts of times.
const (
	CLF      Layout = iota // 18/Mar/2012:04:02:25 +0000, as Apache, nginx and logback-access
	CLFMilli               // 18/Mar/2012:04:02:25.123, as HAProxy, in the server's zone
	ISO                    // 2012-03-18T04:02:25+00:00, fractions of a second and a space for T allowed
	Unix                   // a number of Unit nanoseconds since 1970
	Strftime               // as a pattern of strftime(3) has it
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
	Asked  string // as the server's format has it: %D, $request_time
	Kind   Kind
	Layout Layout
	Unit   int64 // nanoseconds of a Duration or a Unix time
	// List says that the text may be several numbers, of several attempts, with commas
	// or colons between them (nginx' $upstream_response_time): they are added.
	List   bool
	Escape Escape // how bytes of the value are written
	// Braced says that the value stands in braces, or is left out with the space behind
	// it (HAProxy's captured headers).
	Braced bool

	pattern *pattern // of Strftime
	quotes  bool     // around the braces
	atEnd   bool     // a time of the answer, where the format's others are of the request
}

// Format is a way to write a line, ready to read lines.
type Format struct {
	Name   string // "Apache's combined log"
	Source string // how it was written: the LogFormat, or where it stands
	Fields []Field
	// TimeIsEnd says that a line's time is when it was written, after the answer
	// (nginx, logback-access), not when the request came (Apache, HAProxy).
	TimeIsEnd bool

	// NoZone says that times are written in the server's own zone without naming it.
	NoZone bool
	// Why says why this is a log's format, where it was found out.
	Why string

	prefix []byte
	steps  []step
	// Of some field the bytes are written otherwise than the client sent them.
	backslash, hash bool
	syslog          bool // what a syslog daemon writes before the line is skipped
	scan            func(line []byte, spans []Span) Line
	joined          bool
}

// Line is what a line is.
type Line uint8

// What a line may be.
const (
	Bad   Line = iota // not of the format
	Whole             // a request
	Other             // of the format, and no request
)

// Joined says that a request has several lines, which Joiner puts together; Scan is not
// for such a format.
func (f *Format) Joined() bool { return f.joined }

// step is one field and what stands behind it.
type step struct {
	field  int    // in Fields
	lit    []byte // ends the field; empty: it ends with the line
	quoted bool   // a quote after an odd number of backslashes does not end it
	number bool   // the value begins with a digit or a sign
	keep   bool   // lit is the beginning of the next field, and stays
	braced byte   // the value begins so, or is not there, and then lit is not either; 0: none

	// How the plain case is cut: by what the field is, since a call to search the line for
	// each of ten short fields costs more than all else that is done with it.
	how   how
	width int    // of fixed
	every uint64 // the first byte of lit, eight times

	// The first four bytes of lit as one number, and the bits of it that count: most
	// literals are "] " or shorter, and one comparison is cheaper than a call.
	word, mask uint32
}

// how is the way in which the end of a field is found where nothing is out of the ordinary.
type how uint8

const (
	bySearch how = iota // lit is searched for
	byShort             // lit is expected soon
	byDigits            // it ends behind the last digit or point
	byWidth             // it is as long as every other
)

// prepare sets how the end of a field is found, and what lit is compared by.
func (s *step) prepare(f *Field) {
	for i, c := range s.lit[:min(len(s.lit), 4)] {
		s.word |= uint32(c) << (8 * i)
		s.mask |= 0xff << (8 * i)
	}
	if len(s.lit) == 0 || s.braced != 0 {
		return
	}
	s.every = uint64(s.lit[0]) * ones
	switch {
	case s.number && !f.List && (s.lit[0] < '0' || s.lit[0] > '9') && s.lit[0] != '.':
		s.how = byDigits
	case f.Kind == Time && f.Layout == CLF:
		s.how, s.width = byWidth, len("18/Mar/2012:04:02:25 +0000")
	case f.Kind == Time && f.Layout == CLFMilli:
		s.how, s.width = byWidth, len("18/Mar/2012:04:02:25.123")
	case f.Kind != Request && f.Kind != URL:
		s.how = byShort
	}
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// plain is how long the field at a place of a line is in the plain case, or -1: then
// end has to find out.
func (s *step) plain(line []byte, at int) int {
	n := 0
	switch s.how {
	case byDigits:
		for at+n < len(line) && (line[at+n]-'0' <= 9 || line[at+n] == '.') {
			n++
		}
	case byWidth:
		n = s.width
	case byShort:
		if at+8 <= len(line) {
			// The lowest of the high bits that are left is that of the first byte that is lit's.
			w := binary.LittleEndian.Uint64(line[at:]) ^ s.every
			if w = (w - ones) &^ w & highs; w != 0 {
				n = bits.TrailingZeros64(w) >> 3
				break
			}
			if at+16 <= len(line) {
				w := binary.LittleEndian.Uint64(line[at+8:]) ^ s.every
				if w = (w - ones) &^ w & highs; w != 0 {
					n = 8 + bits.TrailingZeros64(w)>>3
					break
				}
			}
		}
		fallthrough
	default:
		if len(s.lit) == 0 || s.braced != 0 {
			return -1
		}
		if n = bytes.IndexByte(line[at:], s.lit[0]); n < 0 {
			return -1
		}
	}
	e := at + n
	if e+4 <= len(line) && len(s.lit) <= 4 {
		if binary.LittleEndian.Uint32(line[e:])&s.mask != s.word {
			return -1
		}
	} else if e > len(line) || !bytes.HasPrefix(line[e:], s.lit) {
		return -1
	}
	if s.quoted && n > 0 && line[e-1] == '\\' {
		return -1
	}
	return n
}

// Span is where a field stands in its line.
type Span struct{ Start, End int32 }

// Of is the text of a field.
func (s Span) Of(line []byte) []byte { return line[s.Start:s.End] }

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
func (f *Format) Scan(line []byte, spans []Span) Line {
	if f.scan != nil {
		return f.scan(line, spans)
	}
	at := 0
	if f.syslog {
		line = bytes.TrimRight(line, " ") // what is left out at the end leaves its blank
		at = afterSyslog(line)
	}
	if len(f.prefix) > 0 {
		if !bytes.HasPrefix(line[at:], f.prefix) {
			return Bad
		}
		at += len(f.prefix)
	}
	begin := at
	for i := range f.steps {
		s := &f.steps[i]
		if s.braced != 0 && (at == len(line) || line[at] != s.braced) {
			spans[s.field] = Span{int32(at), int32(at)}
			if at = s.without(line, at); at < 0 {
				return f.scanBack(line, begin, spans)
			}
			continue
		}
		n := s.plain(line, at)
		if n < 0 {
			if n = s.end(line[at:]); n < 0 {
				return f.scanBack(line, begin, spans)
			}
		}
		if s.number && n > 0 && line[at]-'0' > 9 && line[at] != '-' && line[at] != '+' {
			return f.scanBack(line, begin, spans)
		}
		spans[s.field] = Span{int32(at), int32(at + n)}
		at += n + s.skip()
	}
	if at != len(line) {
		return f.scanBack(line, begin, spans)
	}
	return Whole
}

// without is where the line goes on behind a value that was left out with the blank behind
// it, or -1.
func (s *step) without(line []byte, at int) int {
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
func (f *Format) Rescan(line []byte, spans []Span) Line {
	if f.scan != nil || f.joined {
		return Bad
	}
	at := 0
	if f.syslog {
		line = bytes.TrimRight(line, " ") // what is left out at the end leaves its blank
		at = afterSyslog(line)
	}
	if !bytes.HasPrefix(line[at:], f.prefix) {
		return Bad
	}
	return f.scanBack(line, at+len(f.prefix), spans)
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
	first, from := s.lit[0], 0
	for {
		n := bytes.IndexByte(text[from:], first)
		if n < 0 {
			return -1
		}
		n += from
		if s.quoted && escaped(text, n) || !bytes.HasPrefix(text[n:], s.lit) {
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
