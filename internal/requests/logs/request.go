// Requests: the data in a log line about a request, and its meaning for Puppet.

package logs

import (
	"bytes"

	"fettle.dev/fettle/internal/logformat"
)

// Request holds the data of one request. Its texts are slices of Line and valid as long as
// Line; unescaped texts are copies.
type Request struct {
	Raw      []byte           // the line as logged
	Line     []byte           // line without another program's wrapper
	Spans    []logformat.Span // positions of the format's fields
	Time     int64            // arrival, in microseconds since 1970
	Duration int64            // in microseconds; -1: unknown
	Status   int              // 0: unknown
	Method   []byte
	URL      []byte // path and query
	Path     []byte
	Query    []byte // without the ?
	Protocol []byte

	puppet Puppet
	split  bool // puppet is valid
	format *logformat.Format
	marked bool // values may be escaped
}

// Reader reads log lines of one format.
type Reader struct {
	Format *logformat.Format

	time, duration, request, method, url, path, query, protocol, status int

	scan   func(line []byte, spans []logformat.Span) logformat.LineKind
	clock  logformat.Clock
	unwrap logformat.Unwrapper
	joiner logformat.Joiner
	marks  bool // lines may contain escaped values
	asks   bool // lines may contain a query
}

// NewReader returns a reader for a format. Only one goroutine may use it.
func NewReader(f *logformat.Format) *Reader {
	return &Reader{Format: f, scan: f.Scanner(), joiner: f.Joiner(), marks: true, asks: true,
		time: f.Field(logformat.FieldTime), duration: f.Field(logformat.FieldDuration), request: f.Field(logformat.FieldRequest),
		method: f.Field(logformat.FieldMethod), url: f.Field(logformat.FieldURL), path: f.Field(logformat.FieldPath), query: f.Field(logformat.FieldQuery),
		protocol: f.Field(logformat.FieldProtocol), status: f.Field(logformat.FieldStatus),
	}
}

// Block prepares for the lines of a block. One search of the block determines whether any of
// them can have escaped values or a query.
func (d *Reader) Block(data []byte) {
	d.marks = d.Format.Joined() || d.Format.MayHaveEscapes(data)
	d.asks = d.marks || bytes.IndexByte(data, '?') >= 0 // the ? may be escaped too
}

// Unended returns the number of multi-line requests in progress.
func (d *Reader) Unended() int { return d.joiner.Open() }

// Unbegun returns the number of multi-line requests whose beginning was not read.
func (d *Reader) Unbegun() int { return d.joiner.Lost }

// Unjoined returns the number of partial lines without their last part, and drops them.
func (d *Reader) Unjoined() int { return d.unwrap.TakeUnjoined() }

// Read reads a line into r. r is valid if the result is logformat.RequestLine. Data that the
// line lacks is empty in r.
func (d *Reader) Read(line []byte, r *Request) logformat.LineKind {
	if len(r.Spans) != len(d.Format.Fields) {
		r.Spans = make([]logformat.Span, len(d.Format.Fields))
	}
	r.Raw = line
	line, part := d.unwrap.Unwrap(d.Format, line)
	if part {
		return logformat.OtherLine
	}
	var l logformat.LineKind
	if d.Format.Joined() {
		line, l = d.joiner.Add(line, r.Spans)
	} else {
		l = d.scan(line, r.Spans)
	}
	if l != logformat.RequestLine {
		return l
	}
	r.Line, r.split, r.format = line, false, d.Format
	// Of a line with many members only a few are read: they are searched one by one.
	r.marked = d.marks && (d.Format.Keyed() || d.Format.MayHaveEscapes(line))
	if !d.values(r) && (d.Format.Rescan(line, r.Spans) != logformat.RequestLine || !d.values(r)) {
		return logformat.BadLine
	}
	return logformat.RequestLine
}

// values parses the fields of a line and reports whether all are valid.
func (d *Reader) values(r *Request) bool {
	fields := d.Format.Fields
	r.Duration, r.Time, r.Status = -1, 0, 0
	if d.duration >= 0 {
		us, ok := r.Spans[d.duration].Int()
		if ok {
			us, ok = fields[d.duration].Whole(us)
		} else {
			us, ok = fields[d.duration].Duration(r.Field(d.duration))
		}
		if ok {
			r.Duration = us
		} else if !fields[d.duration].Fits(r.Field(d.duration)) {
			return false
		}
	}
	if d.time >= 0 {
		us, ok := fields[d.time].Time(r.Field(d.time), &d.clock)
		if !ok {
			return false
		}
		if d.Format.TimeIsEnd && r.Duration > 0 {
			us -= r.Duration
		}
		if us < firstTime || us > lastTime {
			return false
		}
		r.Time = us
	}
	if d.status >= 0 {
		n, ok := r.Spans[d.status].Int()
		if !ok {
			text := r.Field(d.status)
			if n, _ = logformat.Int(text); !fields[d.status].Fits(text) {
				return false
			}
		}
		r.Status = int(n)
	}
	if d.request >= 0 {
		r.ask(r.Field(d.request), d.asks)
		return true
	}
	r.Method, r.URL, r.Path, r.Query, r.Protocol = nil, nil, nil, nil, nil
	if d.method >= 0 {
		r.Method = r.Field(d.method)
	}
	if d.protocol >= 0 {
		r.Protocol = r.Field(d.protocol)
	}
	if d.url >= 0 {
		r.setURL(r.Field(d.url), d.asks)
	}
	if d.path >= 0 {
		r.Path = r.Field(d.path)
		if d.url < 0 {
			r.URL = r.Path
		}
	}
	if d.query >= 0 {
		r.Query = bytes.TrimPrefix(r.Field(d.query), []byte("?"))
	}
	return true
}

// Limits of times in JSON, the years 1 to 9999, in microseconds since 1970. Only times that
// were read in a wrong unit exceed them.
const (
	firstTime = -62135596800e6
	lastTime  = 253402300799e6
)

// ask splits "METHOD URL PROTOCOL". Any other text (TLS sent to a plain port, or nothing)
// becomes a URL without a method.
func (r *Request) ask(text []byte, asks bool) {
	method := word(text)
	if method == 0 {
		r.Method, r.Protocol = nil, nil
		r.setURL(text, asks)
		return
	}
	r.Method = text[:method]
	rest := text[method+1:]
	if n := len(rest); n > 9 && rest[n-9] == ' ' && string(rest[n-8:n-3]) == "HTTP/" {
		r.Protocol = rest[n-8:]
		rest = rest[:n-9]
	} else if n > 7 && string(rest[n-7:n-1]) == " HTTP/" {
		r.Protocol = rest[n-6:]
		rest = rest[:n-7]
	} else {
		r.Protocol = nil
	}
	r.setURL(rest, asks)
}

// word returns the length of the method, at most 20, before a space, or 0 without one.
func word(text []byte) int {
	for i, c := range text[:min(len(text), 21)] {
		if c == ' ' {
			return i
		}
		if (c|0x20 < 'a' || c|0x20 > 'z') && c != '-' && c != '_' {
			break
		}
	}
	return 0
}

func (r *Request) setURL(url []byte, asks bool) {
	r.URL, r.Path, r.Query = url, url, nil
	if len(url) > 0 && url[0] != '/' {
		url = relative(url)
		r.Path = url
	}
	if !asks {
		return
	}
	if n := bytes.IndexByte(url, '?'); n >= 0 {
		r.Path, r.Query = url[:n], url[n+1:]
	}
}

// relative removes scheme and host from a URL. Clients send such URLs to proxies (RFC 9112,
// 3.2.2), and AWS load balancers log them.
func relative(url []byte) []byte {
	n := bytes.Index(url[:min(len(url), len("https://"))], []byte("://"))
	if n <= 0 {
		return url
	}
	host := url[n+len("://"):]
	if at := bytes.IndexAny(host, "/?"); at >= 0 {
		return host[at:]
	}
	return []byte("/")
}

// Field returns the text of field i, unescaped.
func (r *Request) Field(i int) []byte {
	text := r.Spans[i].Of(r.Line)
	if r.marked {
		return r.format.Fields[i].Escape.Unescape(text)
	}
	return text
}

// Parameter returns the value of a query parameter as sent, or nil.
func (r *Request) Parameter(name string) []byte {
	for rest := r.Query; len(rest) > 0; {
		var one []byte
		if n := bytes.IndexByte(rest, '&'); n >= 0 {
			one, rest = rest[:n], rest[n+1:]
		} else {
			one, rest = rest, nil
		}
		if len(one) > len(name) && one[len(name)] == '=' && string(one[:len(name)]) == name {
			return one[len(name)+1:]
		}
	}
	return nil
}
