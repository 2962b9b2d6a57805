package mux

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

const (
	// buffer is the size of a read, and about the maximum of unsent data.
	buffer = 8 << 10
	// streamWindow allows detection of an answer that is too large.
	streamWindow = MaxAnswer + 64<<10
	// connWindow is the maximum number of unread answer bytes on a connection.
	connWindow = 16 << 20
	// maxHeader caps the header of an answer, in bytes.
	maxHeader = 64 << 10
	// writeWithin is the minimum time limit for the server to accept data.
	writeWithin = 30 * time.Second
	// Defaults of RFC 9113 (6.5.2) without settings from the server; it then allows any number of
	// streams, and this number is enough.
	firstWindow, firstFrame, firstStreams = 65_535, 16 << 10, 1000
)

// Times of silence after which a server is pinged, and after which the connection is given up,
// while a response is pending. They are variables for tests.
var pingAfter, pingWithin = 15 * time.Second, 15 * time.Second

// stream is a pending request. Only the reader writes its answer until done is closed; then the
// caller reads it.
type stream struct {
	id     uint32
	window int64 // what may be sent; of conn.mu
	done   chan struct{}

	status int
	header http.Header
	body   []byte
	err    error
}

// conn is a connection. A goroutine that holds writing may lock mu, never the other way round.
type conn struct {
	net net.Conn
	fr  *http2.Framer

	// writing protects the unsent data: the buffer, the compression, the order of streams. A
	// separate goroutine sends it, so that only its stack grows for TLS; room waits while there is
	// too much of it.
	writing sync.Mutex
	room    *sync.Cond
	out     bytes.Buffer
	some    chan struct{} // there is something in out
	encoder *hpack.Encoder
	header  bytes.Buffer
	chunk   []byte
	next    uint32

	mu       sync.Mutex
	changed  *sync.Cond // windows, streams, the end
	streams  map[uint32]*stream
	active   int   // streams, and those about to be one
	most     int   // of active; 0 until the server has said what it allows
	settled  bool  // it has
	window   int64 // what may be sent in all streams together
	initial  int64 // window of a new stream
	maxFrame int
	away     bool // no new streams
	err      error

	heard atomic.Int64 // when the server said something, Unix nanoseconds
	watch *time.Timer
	taken int // bytes of answers that the server has not been given back; of the reader
}

// open starts HTTP/2 on a connection.
func open(n net.Conn) (*conn, error) {
	c := &conn{
		net: n, some: make(chan struct{}, 1), next: 1, streams: map[uint32]*stream{},
		window: firstWindow, initial: firstWindow, maxFrame: firstFrame,
	}
	c.changed = sync.NewCond(&c.mu)
	c.encoder = hpack.NewEncoder(&c.header)
	c.room = sync.NewCond(&c.writing)
	c.fr = http2.NewFramer(&c.out, bufio.NewReaderSize(n, buffer))
	c.fr.SetReuseFrames()
	c.fr.SetMaxReadFrameSize(firstFrame)
	c.fr.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	c.fr.MaxHeaderListSize = maxHeader
	c.lock()
	c.out.WriteString(http2.ClientPreface)
	err := errors.Join(c.fr.WriteSettings(
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
	go c.write()
	go c.read()
	return c, nil
}

// lock locks writing.
func (c *conn) lock() { c.writing.Lock() }

func (c *conn) unlock() {
	c.writing.Unlock()
	c.tell()
}

// tell wakes the writer because of new data, or the end of the connection.
func (c *conn) tell() {
	select {
	case c.some <- struct{}{}:
	default: // it has not looked since it was told
	}
}

// write sends all pending data at a time, until the connection ends.
func (c *conn) write() {
	defer func() { // who came to wait after the connection failed is told now
		c.lock()
		c.room.Broadcast()
		c.writing.Unlock()
	}()
	var sending []byte
	for range c.some {
		c.lock()
		sending = append(sending[:0], c.out.Bytes()...)
		c.out.Reset()
		c.room.Broadcast()
		c.writing.Unlock()
		if len(sending) == 0 {
			if !c.going() {
				return
			}
			continue
		}
		_ = c.net.SetWriteDeadline(time.Now().Add(writeWithin)) // a closed one is found by the write
		if _, err := c.net.Write(sending); err != nil {
			c.fail(err)
			return
		}
	}
}

// going reports whether the connection has not ended.
func (c *conn) going() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err == nil
}

// usable reports whether the connection accepts another request.
func (c *conn) usable() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err == nil && !c.away
}

// exchange sends a request and waits for its answer.
func (c *conn) exchange(req *http.Request) (*stream, error) {
	ctx := req.Context()
	s := &stream{done: make(chan struct{})}
	for {
		if err := c.enter(ctx); err != nil {
			return nil, err
		}
		err := c.send(ctx, req, s)
		if err == nil {
			break
		}
		if !errors.Is(err, errFull) {
			return nil, err
		}
	}
	select {
	case <-s.done:
		return s, s.err
	case <-ctx.Done():
		c.cancel(s, http2.ErrCodeCancel)
		return nil, context.Cause(ctx)
	}
}

// enter waits until the server allows another stream, and reserves it.
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

// await returns when a stream has a window, or has ended.
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

// cancel cancels a stream and sends the reset to the server.
func (c *conn) cancel(s *stream, code http2.ErrCode) {
	c.lock()
	c.reset(s, code)
	c.unlock()
}

// reset is cancel for callers that hold writing.
func (c *conn) reset(s *stream, code http2.ErrCode) {
	if c.finish(s, http2.StreamError{StreamID: s.id, Code: code}) {
		_ = c.fr.WriteRSTStream(s.id, code) // into memory
	}
}

// finish ends a stream. It returns false if the stream has ended before.
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

// fail ends the connection and all pending streams.
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
	c.room.Broadcast()
	c.tell()
}

// look detects an unresponsive server.
func (c *conn) look() {
	c.mu.Lock()
	waited, over := len(c.streams) > 0 || !c.settled, c.err != nil
	c.mu.Unlock()
	silent := time.Since(time.Unix(0, c.heard.Load()))
	switch {
	case over:
		return
	case waited && silent > pingAfter+pingWithin:
		c.fail(fmt.Errorf("no data from the server for %s", silent.Round(time.Second)))
		return
	case waited && silent > pingAfter:
		c.lock()
		_ = c.fr.WritePing(false, [8]byte{'f', 'e', 't', 't', 'l', 'e'})
		c.unlock()
	}
	c.watch.Reset(pingAfter / 3)
}
