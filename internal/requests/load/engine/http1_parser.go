// An HTTP/1.1 client for one request at a time: it sends a prepared request and reads the
// answer to its end without keeping it. No answer (RFC 9112) takes more memory than the buffer.

package engine

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"sync"

	internaltext "fettle.dev/fettle/internal/text"
)

// Limits on answers.
const (
	bufferBytes = 16 << 10
	maxLine     = 8 << 10  // a line of a header or chunk
	maxHead     = 64 << 10 // a whole header or trailer
	maxInterim  = 16       // 1xx answers before the final one
)

// parser reads answers.
type parser struct {
	from io.Reader
	buf  []byte
	r, w int   // bounds of the unread part of buf
	in   int64 // bytes read in all
	// keep receives the header and the body of an answer, if not nil.
	keep *Capture
}

// Capture is a kept answer. Its slices are reused for the next one.
type Capture struct {
	Head []byte // header lines of the final answer, each followed by a line feed
	Body []byte
	// Most limits the kept bytes of the body; 0 keeps none. Cut reports that there were more.
	Most int
	Cut  bool
}

func (c *Capture) reset() { c.Head, c.Body, c.Cut = c.Head[:0], c.Body[:0], false }

func (c *Capture) add(part []byte) {
	n := min(len(part), c.Most-len(c.Body))
	c.Body = append(c.Body, part[:n]...)
	c.Cut = c.Cut || n < len(part)
}

// Buffers are held only while an answer is read.
var buffers = sync.Pool{New: func() any { return new([bufferBytes]byte) }}

// release returns the buffer.
func (p *parser) release() {
	if p.buf != nil {
		buffers.Put((*[bufferBytes]byte)(p.buf))
	}
	p.buf, p.r, p.w = nil, 0, 0
}

// reset makes the parser read from another connection.
func (p *parser) reset(from io.Reader) {
	p.from, p.r, p.w = from, 0, 0
}

// fill reads more bytes into the buffer.
func (p *parser) fill() error {
	if p.buf == nil {
		p.buf = buffers.Get().(*[bufferBytes]byte)[:]
	}
	if p.r == p.w {
		p.r, p.w = 0, 0
	} else if p.w == len(p.buf) {
		copy(p.buf, p.buf[p.r:p.w])
		p.r, p.w = 0, p.w-p.r
	}
	n, err := p.from.Read(p.buf[p.w:])
	p.w += n
	p.in += int64(n)
	switch {
	case n > 0:
		return nil
	case err == nil:
		return io.ErrNoProgress
	}
	return err
}

// line returns the next line without its line end. It is valid until the next call.
func (p *parser) line() ([]byte, error) {
	searched := 0
	for {
		if i := bytes.IndexByte(p.buf[p.r+searched:p.w], '\n'); i >= 0 {
			line := p.buf[p.r : p.r+searched+i]
			p.r += searched + i + 1
			if len(line) > maxLine {
				return nil, tooLong(line)
			}
			if n := len(line); n > 0 && line[n-1] == '\r' {
				line = line[:n-1]
			}
			return line, nil
		}
		searched = p.w - p.r
		if searched > maxLine {
			return nil, tooLong(p.buf[p.r:p.w])
		}
		if err := p.fill(); err != nil {
			return nil, err
		}
	}
}

func tooLong(line []byte) error {
	return ProtocolError(internaltext.Sprintf("a line of more than %d bytes, which begins with %q", maxLine, sample(line)))
}

// sample returns up to 40 bytes of the server's text for an error message.
func sample(text []byte) []byte { return text[:min(len(text), 40)] }

// head holds the parsed header of an answer.
type head struct {
	status  int
	length  int64 // of the body; -1 if not given
	chunked bool
	close   bool // the connection ends after this answer
}

// answer reads an answer to its end. toHEAD means that the request was HEAD: no body follows.
// The connection can be reused unless closing is true.
func (p *parser) answer(toHEAD bool) (status int, closing bool, err error) {
	began := p.in - int64(p.w-p.r)
	for range maxInterim {
		h, err := p.head()
		if err != nil {
			if p.in == began && errors.Is(err, io.EOF) {
				return 0, true, ErrNoAnswer
			}
			return 0, true, unexpected(err)
		}
		switch {
		case h.status == 101:
			return 0, true, ProtocolError("unexpected 101 Switching Protocols")
		case h.status < 200:
			continue
		}
		closing, err = p.body(h, toHEAD)
		if err != nil {
			return 0, true, unexpected(err)
		}
		if !closing && p.r != p.w {
			return 0, true, ProtocolError(fmt.Sprintf("data after the announced end of the answer: %q", sample(p.buf[p.r:p.w])))
		}
		return h.status, closing, nil
	}
	return 0, true, ProtocolError(internaltext.Sprintf("more than %d answers of 1xx", maxInterim))
}

// unexpected converts io.EOF within an answer to io.ErrUnexpectedEOF.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// head reads the status line and the header.
func (p *parser) head() (head, error) {
	line, err := p.line()
	if err != nil {
		return head{}, err
	}
	h := head{length: -1}
	if p.keep != nil {
		p.keep.reset()
	}
	if !h.first(line) {
		return h, ProtocolError(fmt.Sprintf("not an HTTP/1.1 status line: %q", sample(line)))
	}
	for left := maxHead; ; {
		line, err := p.line()
		if err != nil || len(line) == 0 {
			return h, err
		}
		if left -= len(line) + 2; left < 0 {
			return h, ProtocolError(internaltext.Sprintf("a header of more than %d bytes", maxHead))
		}
		if err := h.field(line); err != nil {
			return h, err
		}
		if p.keep != nil {
			p.keep.Head = append(append(p.keep.Head, line...), '\n')
		}
	}
}

// first parses a status line such as HTTP/1.1 200 OK.
func (h *head) first(line []byte) bool {
	const begins = "HTTP/1."
	if len(line) < len("HTTP/1.1 200") || string(line[:len(begins)]) != begins || line[8] != ' ' || len(line) > 12 && line[12] != ' ' {
		return false
	}
	h.close = line[7] == '0'
	if line[7] != '0' && line[7] != '1' {
		return false
	}
	for _, c := range line[9:12] {
		if c < '0' || c > '9' {
			return false
		}
		h.status = 10*h.status + int(c-'0')
	}
	return h.status >= 100
}

// field parses a header line that concerns the body or the connection; it ignores others.
func (h *head) field(line []byte) error {
	if line[0] == ' ' || line[0] == '\t' {
		return ProtocolError(fmt.Sprintf("a folded line in a header: %q", sample(line)))
	}
	colon := bytes.IndexByte(line, ':')
	if colon <= 0 || line[colon-1] == ' ' || line[colon-1] == '\t' {
		return ProtocolError(fmt.Sprintf("a header line without a name: %q", sample(line)))
	}
	// Compare the length first: it distinguishes nearly all lines.
	switch name := line[:colon]; {
	case len(name) == len("content-length") && is(name, "content-length"):
		n, ok := number(trim(line[colon+1:]), 10)
		if !ok || h.length >= 0 && h.length != n {
			return ProtocolError(fmt.Sprintf("an invalid or repeated Content-Length: %q", sample(line)))
		}
		h.length = n
	case len(name) == len("transfer-encoding") && is(name, "transfer-encoding"):
		codings := bytes.Split(line[colon+1:], []byte(","))
		if h.chunked {
			return ProtocolError("a transfer coding after chunked")
		}
		h.chunked = is(trim(codings[len(codings)-1]), "chunked")
		if !h.chunked {
			h.length, h.close = -1, true // the body ends when the connection closes
		}
	case len(name) == len("connection") && is(name, "connection"):
		for option := range bytes.SplitSeq(line[colon+1:], []byte(",")) {
			switch option = trim(option); {
			case is(option, "close"):
				h.close = true
			case is(option, "keep-alive"):
				h.close = false
			}
		}
	}
	return nil
}

// trim removes spaces and tabs.
func trim(text []byte) []byte { return bytes.Trim(text, " \t") }

// is reports whether text equals name, ignoring case.
func is(text []byte, name string) bool {
	return len(text) == len(name) && strings.EqualFold(string(text), name)
}

// number parses digits in a base. ok is false if they do not form an int64.
func number(digits []byte, base int64) (n int64, ok bool) {
	for _, c := range digits {
		var d int64
		switch {
		case '0' <= c && c <= '9':
			d = int64(c - '0')
		case base == 16 && 'a' <= c && c <= 'f':
			d = int64(c-'a') + 10
		case base == 16 && 'A' <= c && c <= 'F':
			d = int64(c-'A') + 10
		default:
			return 0, false
		}
		if n > (math.MaxInt64-d)/base {
			return 0, false
		}
		n = n*base + d
	}
	return n, len(digits) > 0
}

// body skips the body. closing reports whether the connection cannot be reused.
func (p *parser) body(h head, toHEAD bool) (closing bool, err error) {
	switch {
	case toHEAD, h.status == 204, h.status == 304:
		return h.close, nil
	case h.chunked:
		// A length in addition to chunked is an attempt at request smuggling (RFC 9112, 6.3).
		return h.close || h.length >= 0, p.chunks()
	case h.length >= 0:
		return h.close, p.skip(h.length)
	}
	for {
		p.pass(p.w - p.r)
		if err := p.fill(); errors.Is(err, io.EOF) {
			return true, nil
		} else if err != nil {
			return true, err
		}
	}
}

// pass goes past n bytes of the body in the buffer, which are kept if requested.
func (p *parser) pass(n int) {
	if p.keep != nil && p.keep.Most > 0 {
		p.keep.add(p.buf[p.r : p.r+n])
	}
	p.r += n
}

// skip skips n bytes of a body.
func (p *parser) skip(n int64) error {
	for {
		have := min(n, int64(p.w-p.r))
		p.pass(int(have))
		if n -= have; n == 0 {
			return nil
		}
		if err := p.fill(); err != nil {
			return err
		}
	}
}

// chunks skips a chunked body and its trailer.
func (p *parser) chunks() error {
	for {
		line, err := p.line()
		if err != nil {
			return err
		}
		digits, _, _ := bytes.Cut(line, []byte(";"))
		size, ok := number(bytes.TrimRight(digits, " \t"), 16)
		if !ok {
			return ProtocolError(fmt.Sprintf("invalid chunk size: %q", sample(line)))
		}
		if size == 0 {
			return p.trailer()
		}
		if err := p.skip(size); err != nil {
			return err
		}
		if line, err = p.line(); err != nil {
			return err
		}
		if len(line) > 0 {
			return ProtocolError(fmt.Sprintf("a chunk is longer than announced: %q", sample(line)))
		}
	}
}

func (p *parser) trailer() error {
	for left := maxHead; ; {
		line, err := p.line()
		if err != nil || len(line) == 0 {
			return err
		}
		if left -= len(line) + 2; left < 0 {
			return ProtocolError(internaltext.Sprintf("a trailer of more than %d bytes", maxHead))
		}
	}
}
