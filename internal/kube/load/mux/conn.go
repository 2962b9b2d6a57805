package mux

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

const (
	// buffer is what is written at a time, one TLS record.
	buffer = 16 << 10
	// streamWindow lets an answer be seen to be too large.
	streamWindow = MaxAnswer + 64<<10
	// connWindow is how many bytes of answers the server may have under way.
	connWindow = 16 << 20
	// maxHeader caps the header of an answer, in bytes.
	maxHeader = 64 << 10
	// writeWithin is how long the server may take nothing, at least.
	writeWithin = 30 * time.Second
	// What RFC 9113 (6.5.2) gives where the server says nothing; it may have any number of
	// streams then, of which this is enough.
	firstWindow, firstFrame, firstStreams = 65_535, 16 << 10, 1000
)

// When a server is asked whether it is there, and given up, if it says nothing while it is
// waited for. They are variables for tests.
var pingAfter, pingWithin = 15 * time.Second, 15 * time.Second

// stream is a request under way. Its answer is written by the reader alone until done is
// closed, and read by the caller after that.
type stream struct {
	id     uint32
	window int64 // what may be sent; of conn.mu
	done   chan struct{}

	status int
	header http.Header
	body   []byte
	err    error
}

// conn is a connection. Who holds writing may take mu, never the other way round.
type conn struct {
	net net.Conn
	fr  *http2.Framer

	// writing is of what is written: the buffer, the compression, the order of streams.
	writing  sync.Mutex
	writers  atomic.Int32 // who wait for it, and will flush
	out      *bufio.Writer
	deadline time.Time
	encoder  *hpack.Encoder
	header   bytes.Buffer
	chunk    []byte
	next     uint32

	mu       sync.Mutex
	changed  *sync.Cond // windows, streams, the end
	streams  map[uint32]*stream
	active   int   // streams, and those about to be one
	most     int   // of active
	window   int64 // what may be sent in all streams together
	initial  int64 // window of a new stream
	maxFrame int
	away     bool // no new streams
	err      error

	heard atomic.Int64 // when the server said something, Unix nanoseconds
	watch *time.Timer
	taken int // bytes of answers that the server has not been given back; of the reader
}

// open begins with HTTP/2 on a connection.
func open(n net.Conn) (*conn, error) {
	c := &conn{
		net: n, out: bufio.NewWriterSize(n, buffer), next: 1, streams: map[uint32]*stream{},
		most: firstStreams, window: firstWindow, initial: firstWindow, maxFrame: firstFrame, chunk: make([]byte, firstFrame),
	}
	c.changed = sync.NewCond(&c.mu)
	c.encoder = hpack.NewEncoder(&c.header)
	c.fr = http2.NewFramer(c.out, bufio.NewReaderSize(n, buffer))
	c.fr.SetReuseFrames()
	c.fr.SetMaxReadFrameSize(firstFrame)
	c.fr.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	c.fr.MaxHeaderListSize = maxHeader
	c.lock()
	_, err := c.out.WriteString(http2.ClientPreface)
	err = errors.Join(err, c.fr.WriteSettings(
		http2.Setting{ID: http2.SettingEnablePush, Val: 0},
		http2.Setting{ID: http2.SettingInitialWindowSize, Val: streamWindow},
		http2.Setting{ID: http2.SettingMaxHeaderListSize, Val: maxHeader},
	), c.fr.WriteWindowUpdate(0, connWindow-firstWindow))
	c.unlock()
	if err != nil {
		return nil, errors.Join(err, n.Close())
	}
	c.heard.Store(time.Now().UnixNano())
	c.mu.Lock() // which look waits for
	c.watch = time.AfterFunc(pingAfter, c.look)
	c.mu.Unlock()
	go c.read()
	return c, nil
}

// lock is for writing; what is written is sent by the last one who unlocks.
func (c *conn) lock() {
	c.writers.Add(1)
	c.writing.Lock()
	c.writers.Add(-1)
	if now := time.Now(); c.deadline.Sub(now) < writeWithin {
		c.deadline = now.Add(2 * writeWithin)
		_ = c.net.SetWriteDeadline(c.deadline) // a closed one is found by the write
	}
}

func (c *conn) unlock() {
	var err error
	if c.writers.Load() == 0 {
		err = c.out.Flush()
	}
	c.writing.Unlock()
	if err != nil {
		c.fail(err)
	}
}

// usable says that the connection takes another request.
func (c *conn) usable() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err == nil && !c.away
}

// exchange sends a request and waits for its answer.
func (c *conn) exchange(req *http.Request) (*stream, error) {
	ctx := req.Context()
	if err := c.enter(ctx); err != nil {
		return nil, err
	}
	s := &stream{done: make(chan struct{})}
	if err := c.send(ctx, req, s); err != nil {
		return nil, err
	}
	select {
	case <-s.done:
		return s, s.err
	case <-ctx.Done():
		c.cancel(s, http2.ErrCodeCancel)
		return nil, context.Cause(ctx)
	}
}

// enter waits until the server allows another stream, and takes it.
func (c *conn) enter(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.active >= c.most {
		defer context.AfterFunc(ctx, c.wake)()
	}
	for c.active >= c.most && c.err == nil && !c.away && ctx.Err() == nil {
		c.changed.Wait()
	}
	switch {
	case c.err != nil || c.away:
		return errAway // nothing of the request was sent
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	c.active++
	return nil
}

func (c *conn) wake() {
	c.mu.Lock()
	c.changed.Broadcast()
	c.mu.Unlock()
}

// begin gives a stream its number, in the order in which headers are written.
func (c *conn) begin(s *stream) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil || c.away {
		c.active--
		return errAway
	}
	if len(c.streams) == 0 {
		c.heard.Store(time.Now().UnixNano()) // it had nothing to say
	}
	s.id, s.window = c.next, c.initial
	c.streams[s.id] = s
	if c.next += 2; c.next > math.MaxInt32 {
		c.away = true
	}
	return nil
}

// send writes a request. When it fails, the stream is none.
func (c *conn) send(ctx context.Context, req *http.Request, s *stream) error {
	left := int64(0)
	if req.Body != nil {
		left = req.ContentLength
	}
	c.lock()
	defer c.unlock()
	if err := c.begin(s); err != nil {
		return err
	}
	if err := c.writeHeader(req, s.id, left); err != nil {
		c.fail(err)
		return err
	}
	for left > 0 {
		n := c.grant(s, left)
		if n == 0 {
			c.unlock()
			ended, err := c.await(ctx, s)
			c.lock()
			if err != nil {
				c.reset(s, http2.ErrCodeCancel)
				return err
			}
			if ended { // answered before it had all
				_ = c.fr.WriteRSTStream(s.id, http2.ErrCodeNo)
				return nil
			}
			continue
		}
		chunk := c.chunk[:n]
		if _, err := io.ReadFull(req.Body, chunk); err != nil {
			c.reset(s, http2.ErrCodeCancel)
			return fmt.Errorf("the body of a request: %w", err)
		}
		left -= int64(n)
		if err := c.fr.WriteData(s.id, left == 0, chunk); err != nil {
			c.fail(err)
			return err
		}
	}
	return nil
}

// grant is how much of a body may be written now, and takes it from the windows.
func (c *conn) grant(s *stream, left int64) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.streams[s.id] != s {
		return 0
	}
	n := max(0, min(left, s.window, c.window, int64(min(c.maxFrame, len(c.chunk)))))
	s.window -= n
	c.window -= n
	return int(n)
}

// await returns when there is a window for a stream, or it has ended.
func (c *conn) await(ctx context.Context, s *stream) (ended bool, err error) {
	defer context.AfterFunc(ctx, c.wake)()
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		switch {
		case c.streams[s.id] != s:
			return true, nil
		case ctx.Err() != nil:
			return false, context.Cause(ctx)
		case s.window > 0 && c.window > 0:
			return false, nil
		}
		c.changed.Wait()
	}
}

// writeHeader writes the header of a request.
func (c *conn) writeHeader(req *http.Request, id uint32, length int64) error {
	c.header.Reset()
	field := func(name, value string) {
		_ = c.encoder.WriteField(hpack.HeaderField{Name: name, Value: value}) // into memory
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
			continue // of HTTP/1.1 (RFC 9113, 8.2.2), or said otherwise
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

// cancel gives a stream up and tells the server.
func (c *conn) cancel(s *stream, code http2.ErrCode) {
	c.lock()
	c.reset(s, code)
	c.unlock()
}

// reset is cancel for who is writing.
func (c *conn) reset(s *stream, code http2.ErrCode) {
	if c.finish(s, http2.StreamError{StreamID: s.id, Code: code}) {
		_ = c.fr.WriteRSTStream(s.id, code) // what fails is found by the flush
	}
}

// finish ends a stream; false if it has ended before.
func (c *conn) finish(s *stream, err error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.streams[s.id] != s {
		return false
	}
	delete(c.streams, s.id)
	c.active--
	s.err = err
	close(s.done)
	c.changed.Broadcast()
	if c.away && len(c.streams) == 0 {
		_ = c.net.Close() // the reader ends with it
	}
	return true
}

// fail ends the connection and all that is under way on it.
func (c *conn) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = fmt.Errorf("the connection is lost: %w", err)
	}
	_ = c.net.Close() // the reader fails with it, and is not the first
	for id, s := range c.streams {
		delete(c.streams, id)
		c.active--
		s.err = c.err
		close(s.done)
	}
	if c.watch != nil {
		c.watch.Stop()
	}
	c.changed.Broadcast()
}

// look finds a server that says nothing any more.
func (c *conn) look() {
	c.mu.Lock()
	waited, over := len(c.streams) > 0, c.err != nil
	c.mu.Unlock()
	silent := time.Since(time.Unix(0, c.heard.Load()))
	switch {
	case over:
		return
	case waited && silent > pingAfter+pingWithin:
		c.fail(fmt.Errorf("the server has said nothing for %s", silent.Round(time.Second)))
		return
	case waited && silent > pingAfter:
		c.lock()
		_ = c.fr.WritePing(false, [8]byte{'f', 'e', 't', 't', 'l', 'e'})
		c.unlock()
	}
	c.watch.Reset(pingAfter / 3)
}
