// request says what a line of a log tells of one request: when it came, how long
// it took, what was asked for by whom, and what that means to Puppet.

package logs

import (
	"bytes"

	"fettle.dev/fettle/internal/logformat"
)

// Request is one request. Its texts are parts of Line and are gone with it, but for those
// that were written otherwise than the client sent them.
type Request struct {
	Raw      []byte           // the line as the log has it
	Line     []byte           // without what another program wrote around it
	Spans    []logformat.Span // of the format's fields
	Time     int64            // when it came, in microseconds since 1970
	Duration int64            // in microseconds; -1: the line does not say
	Status   int              // 0: the line does not say
	Method   []byte
	URL      []byte // path and query
	Path     []byte
	Query    []byte // without the ?
	Protocol []byte

	puppet Puppet
	split  bool // puppet is made
	format *logformat.Format
	marked bool // a value may be written otherwise than the client sent it
}

// Reader makes requests of lines of one format.
type Reader struct {
	Format *logformat.Format

	time, duration, request, method, url, path, query, protocol, status int

	clock  logformat.Clock
	unwrap logformat.Unwrapper
	joiner logformat.Joiner
	marks  bool // lines may have marked values
	asks   bool // lines may have a query
}

// NewReader reads lines of a format. One reader is used by one goroutine.
func NewReader(f *logformat.Format) *Reader {
	return &Reader{Format: f, joiner: f.Joiner(), marks: true, asks: true,
		time: f.Field(logformat.FieldTime), duration: f.Field(logformat.FieldDuration), request: f.Field(logformat.FieldRequest),
		method: f.Field(logformat.FieldMethod), url: f.Field(logformat.FieldURL), path: f.Field(logformat.FieldPath), query: f.Field(logformat.FieldQuery),
		protocol: f.Field(logformat.FieldProtocol), status: f.Field(logformat.FieldStatus),
	}
}

// Block says of which block the next lines are, up to the next call of it: one look at
// the block tells of all of them whether a value may be marked, or have a query.
func (d *Reader) Block(data []byte) {
	d.marks = d.Format.Joined() || d.Format.MayHaveEscapes(data)
	d.asks = d.marks || bytes.IndexByte(data, '?') >= 0 // ? itself may be marked
}

// Unended is how many requests have begun in lines read and not ended, and Unbegun how
// many ended whose beginning was in none, where a request has several lines.
func (d *Reader) Unended() int { return d.joiner.Open() }

// Unbegun is said at Unended.
func (d *Reader) Unbegun() int { return d.joiner.Lost }

// Unjoined is how many parts of lines that were read wait for their last one, and forgets them.
func (d *Reader) Unjoined() int { return d.unwrap.TakeUnjoined() }

// Read reads a line; format.Whole says that r is a request. What the line does not have
// (a duration of -, the request of a client that sent none) is absent in r.
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
		l = d.Format.Scan(line, r.Spans)
	}
	if l != logformat.RequestLine {
		return l
	}
	r.Line, r.split, r.format, r.marked = line, false, d.Format, d.marks && d.Format.MayHaveEscapes(line)
	if !d.values(r) && (d.Format.Rescan(line, r.Spans) != logformat.RequestLine || !d.values(r)) {
		return logformat.BadLine
	}
	return logformat.RequestLine
}

// values reads what the fields of a line mean; false says that one of them cannot be.
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

// The years 1 to 9999, in microseconds since 1970: JSON has no others, and a log that
// does is read in a wrong unit.
const (
	firstTime = -62135596800e6
	lastTime  = 253402300799e6
)

// ask takes METHOD URL PROTOCOL apart. What is not written so (a client that spoke TLS
// to a port without it, or nothing) is a URL without a method.
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

// word is how long a method before a blank is, 20 letters at the most, or 0.
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

// relative is a URL without its scheme and host (RFC 9112, 3.2.2: what a client sends to a
// proxy, and an AWS load balancer writes); what is not written so is itself.
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

// Field is the text of a format's field, as the client sent it.
func (r *Request) Field(i int) []byte {
	text := r.Spans[i].Of(r.Line)
	if r.marked {
		return r.format.Fields[i].Escape.Unescape(text)
	}
	return text
}

// Parameter is the value of a parameter of the query, as it was sent; nil without it.
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
