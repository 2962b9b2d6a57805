// http1 is an HTTP/1.1 client for one request at a time on a connection: it sends
// what was made before and reads the answer to its end without keeping it. A server can
// say what it likes (RFC 9112): the memory that an answer takes is that of the buffer.

package engine

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
)

// Limits of what is taken from a server.
const (
	bufferBytes = 16 << 10
	maxLine     = 8 << 10  // a line of a header, of a chunk
	maxHead     = 64 << 10 // all lines of a header, and of a trailer
	maxInterim  = 16       // answers 1xx before the final one
)

// parser reads answers.
type parser struct {
	from io.Reader
	buf  []byte
	r, w int   // what of buf was read and is not yet used
	in   int64 // bytes read in all
}

// reset makes the parser read from another connection.
func (p *parser) reset(from io.Reader) {
	if p.buf == nil {
		p.buf = make([]byte, bufferBytes)
	}
	p.from, p.r, p.w = from, 0, 0
}

// fill reads more.
func (p *parser) fill() error {
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

// line is the next line without its end; it holds until the next call.
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
	return ProtocolError(fmt.Sprintf("a line of more than %d bytes, which begins with %q", maxLine, sample(line)))
}

// sample is the beginning of what a server has said, for a message.
func sample(text []byte) []byte { return text[:min(len(text), 40)] }

// head is what the header of an answer says of it.
type head struct {
	status  int
	length  int64 // of the body; -1 where it is not told
	chunked bool
	close   bool // the connection ends with this answer
}

// answer reads an answer to its end; toHEAD says that it has no body. The connection can
// be used again unless close is true.
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
			return 0, true, ProtocolError("101 Switching Protocols, which was not asked for")
		case h.status < 200:
			continue
		}
		closing, err = p.body(h, toHEAD)
		if err != nil {
			return 0, true, unexpected(err)
		}
		if !closing && p.r != p.w {
			return 0, true, ProtocolError(fmt.Sprintf("more than the answer announced: %q", sample(p.buf[p.r:p.w])))
		}
		return h.status, closing, nil
	}
	return 0, true, ProtocolError(fmt.Sprintf("more than %d answers of 1xx", maxInterim))
}

// unexpected is the error of an end within an answer.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// head reads the first line and the header.
func (p *parser) head() (head, error) {
	line, err := p.line()
	if err != nil {
		return head{}, err
	}
	h := head{length: -1}
	if !h.first(line) {
		return h, ProtocolError(fmt.Sprintf("it does not begin as an answer of HTTP/1.1 does: %q", sample(line)))
	}
	for left := maxHead; ; {
		line, err := p.line()
		if err != nil || len(line) == 0 {
			return h, err
		}
		if left -= len(line) + 2; left < 0 {
			return h, ProtocolError(fmt.Sprintf("a header of more than %d bytes", maxHead))
		}
		if err := h.field(line); err != nil {
			return h, err
		}
	}
}

// first reads HTTP/1.1 200 OK.
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

// field takes what a line says of the body and the connection.
func (h *head) field(line []byte) error {
	if line[0] == ' ' || line[0] == '\t' {
		return ProtocolError(fmt.Sprintf("a folded line in a header: %q", sample(line)))
	}
	colon := bytes.IndexByte(line, ':')
	if colon <= 0 || line[colon-1] == ' ' || line[colon-1] == '\t' {
		return ProtocolError(fmt.Sprintf("a line without a name in a header: %q", sample(line)))
	}
	// The length decides first: it tells nearly all lines apart.
	switch name := line[:colon]; {
	case len(name) == len("content-length") && is(name, "content-length"):
		n, ok := number(trim(line[colon+1:]), 10)
		if !ok || h.length >= 0 && h.length != n {
			return ProtocolError(fmt.Sprintf("a length that is none, or a second one: %q", sample(line)))
		}
		h.length = n
	case len(name) == len("transfer-encoding") && is(name, "transfer-encoding"):
		codings := bytes.Split(line[colon+1:], []byte(","))
		if h.chunked {
			return ProtocolError("a coding after chunked")
		}
		h.chunked = is(trim(codings[len(codings)-1]), "chunked")
		if !h.chunked {
			h.length, h.close = -1, true // its end is that of the connection
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

// trim takes spaces and tabs away.
func trim(text []byte) []byte {
	for len(text) > 0 && (text[0] == ' ' || text[0] == '\t') {
		text = text[1:]
	}
	for n := len(text); n > 0 && (text[n-1] == ' ' || text[n-1] == '\t'); n-- {
		text = text[:n-1]
	}
	return text
}

// is compares with a name in lower case.
func is(text []byte, name string) bool {
	if len(text) != len(name) {
		return false
	}
	for i := range len(name) {
		c := text[i]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != name[i] {
			return false
		}
	}
	return true
}

// number reads digits alone; false where there are none, others, or too many.
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

// body passes over the body, and says whether the connection ends with it.
func (p *parser) body(h head, toHEAD bool) (closing bool, err error) {
	switch {
	case toHEAD, h.status == 204, h.status == 304:
		return h.close, nil
	case h.chunked:
		// With both, the length is somebody's attempt to smuggle (RFC 9112, 6.3).
		return h.close || h.length >= 0, p.chunks()
	case h.length >= 0:
		return h.close, p.skip(h.length)
	}
	for {
		p.r = p.w
		if err := p.fill(); errors.Is(err, io.EOF) {
			return true, nil
		} else if err != nil {
			return true, err
		}
	}
}

// skip passes over n bytes.
func (p *parser) skip(n int64) error {
	for {
		have := min(n, int64(p.w-p.r))
		p.r += int(have)
		if n -= have; n == 0 {
			return nil
		}
		if err := p.fill(); err != nil {
			return err
		}
	}
}

// chunks passes over a chunked body and its trailer.
func (p *parser) chunks() error {
	for {
		line, err := p.line()
		if err != nil {
			return err
		}
		digits, _, _ := bytes.Cut(line, []byte(";"))
		size, ok := number(bytes.TrimRight(digits, " \t"), 16)
		if !ok {
			return ProtocolError(fmt.Sprintf("the size of a chunk is none: %q", sample(line)))
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
			return ProtocolError(fmt.Sprintf("a chunk is longer than it says: %q", sample(line)))
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
			return ProtocolError(fmt.Sprintf("a trailer of more than %d bytes", maxHead))
		}
	}
}
