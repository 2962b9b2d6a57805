package mux

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// errFull means that the server has lowered the number of streams in the meantime.
var errFull = errors.New("too many streams")

// begin assigns a stream's ID; IDs follow the order in which headers are written.
func (c *conn) begin(s *stream) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil || c.away {
		c.active--
		return errAway
	}
	if len(c.streams) >= c.most {
		c.active--
		return errFull
	}
	if len(c.streams) == 0 {
		c.heard.Store(time.Now().UnixNano()) // silence counts from here, because nothing was pending
	}
	s.id, s.window = c.next, c.initial
	c.streams[s.id] = s
	if c.next += 2; c.next > math.MaxInt32 {
		c.away = true
	}
	return nil
}

// send writes a request. After an error the stream does not exist.
func (c *conn) send(ctx context.Context, req *http.Request, s *stream) error {
	left := int64(0)
	if req.Body != nil {
		left = req.ContentLength
	}
	c.lock()
	defer c.unlock()
	c.waitForRoom()
	if err := c.begin(s); err != nil {
		return err
	}
	if err := c.writeHeader(req, s.id, left); err != nil {
		c.fail(err)
		return err
	}
	for left > 0 {
		c.waitForRoom()
		n := c.grant(s, left)
		if n == 0 {
			c.unlock()
			ended, err := c.await(ctx, s)
			c.lock()
			if err != nil {
				c.reset(s, http2.ErrCodeCancel)
				return err
			}
			if ended { // answered before the whole request was sent
				_ = c.fr.WriteRSTStream(s.id, http2.ErrCodeNo)
				return nil
			}
			continue
		}
		if len(c.chunk) < n {
			c.chunk = make([]byte, n)
		}
		chunk := c.chunk[:n]
		if _, err := io.ReadFull(req.Body, chunk); err != nil {
			c.reset(s, http2.ErrCodeCancel)
			return fmt.Errorf("cannot read the body of a request: %w", err)
		}
		left -= int64(n)
		if err := c.fr.WriteData(s.id, left == 0, chunk); err != nil {
			c.fail(err)
			return err
		}
	}
	return nil
}

// waitForRoom waits until there is little unsent data. The caller holds writing.
func (c *conn) waitForRoom() {
	for c.out.Len() > buffer && c.going() {
		c.tell()
		c.room.Wait()
	}
}

// grant takes from the windows and returns how many body bytes may be written now.
func (c *conn) grant(s *stream, left int64) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.streams[s.id] != s {
		return 0
	}
	n := max(0, min(left, s.window, c.window, int64(min(c.maxFrame, firstFrame))))
	s.window -= n
	c.window -= n
	return int(n)
}

// writeHeader writes a request's header frames.
func (c *conn) writeHeader(req *http.Request, id uint32, length int64) error {
	c.header.Reset()
	field := func(name, value string) {
		_ = c.encoder.WriteField(hpack.HeaderField{Name: name, Value: value}) // only into the buffer
	}
	host := req.Host
	if host == "" {
		host = req.URL.Host
	}
	field(":authority", host)
	field(":method", req.Method)
	field(":path", req.URL.RequestURI())
	field(":scheme", req.URL.Scheme)
	for name, values := range req.Header {
		switch name = strings.ToLower(name); name {
		case "host", "connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade", "content-length":
			continue // HTTP/1.1 only (RFC 9113, 8.2.2), or sent as a pseudo-header
		}
		for _, v := range values {
			field(name, v)
		}
	}
	if length > 0 {
		field("content-length", strconv.FormatInt(length, 10))
	}
	block := c.header.Bytes()
	first := block[:min(len(block), firstFrame)]
	block = block[len(first):]
	err := c.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: first, EndStream: length == 0, EndHeaders: len(block) == 0})
	for len(block) > 0 && err == nil {
		part := block[:min(len(block), firstFrame)]
		block = block[len(part):]
		err = c.fr.WriteContinuation(id, len(block) == 0, part)
	}
	return err
}
