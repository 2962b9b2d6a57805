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
	// buffer is the size of a read, and approximately the maximum amount of unsent data.
	buffer = 8 << 10
	// streamWindow is large enough to detect an answer above MaxAnswer.
	streamWindow = MaxAnswer + 64<<10
	// connWindow is the maximum number of unread bytes on a connection.
	connWindow = 16 << 20
	// maxHeader limits an answer's header, in bytes.
	maxHeader = 64 << 10
	// writeWithin is the minimum time that the server has to accept data.
	writeWithin = 30 * time.Second
	// Defaults of RFC 9113 (6.5.2) until the server sends settings. The number of streams is then
	// unlimited; firstStreams is enough.
	firstWindow, firstFrame, firstStreams = 65_535, 16 << 10, 1000
)

// While a response is pending: the silence before a ping, and the wait for its answer. Tests change
// these variables.
var pingAfter, pingWithin = 15 * time.Second, 15 * time.Second

// stream is a pending request. The reader writes its answer until done is closed; after that the
// caller reads it.
type stream struct {
	id     uint32
	window int64 // bytes that may be sent; protected by conn.mu
	done   chan struct{}

	status int
	header http.Header
	body   []byte
	err    error
}

// conn is one HTTP/2 connection. Lock order: writing before mu.
type conn struct {
	net net.Conn
	fr  *http2.Framer

	// writing protects unsent data: buffer, header compression, order of streams. A separate
	// goroutine sends the data, so only its stack grows for TLS. room waits while there is too much
	// unsent data.
	writing sync.Mutex
	room    *sync.Cond
	out     bytes.Buffer
	some    chan struct{} // signals data in out
	encoder *hpack.Encoder
	header  bytes.Buffer
	chunk   []byte
	next    uint32

	mu       sync.Mutex
	changed  *sync.Cond // signals changed windows, ended streams, or the end
	streams  map[uint32]*stream
	active   int   // streams, including those being opened
	most     int   // limit of active; 0 before the server's settings
	settled  bool  // the server has sent its settings
	window   int64 // bytes that may be sent in all streams together
	initial  int64 // window of new streams
	maxFrame int
	away     bool // new streams are not allowed
	err      error

	heard atomic.Int64 // when the server last sent something, in Unix nanoseconds
	watch *time.Timer
	taken int // received bytes for which the server has no new window yet; used by the reader
}

// open starts HTTP/2 on a network connection.
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
	c.mu.Lock() // look waits for this lock
	c.watch = time.AfterFunc(pingAfter, c.look)
	c.mu.Unlock()
	go c.write()
	go c.read()
	return c, nil
}

// lock locks conn.writing.
func (c *conn) lock() { c.writing.Lock() }

func (c *conn) unlock() {
	c.writing.Unlock()
	c.tell()
}

// tell wakes the writer for new data or the end of the connection.
func (c *conn) tell() {
	select {
	case c.some <- struct{}{}:
	default: // the writer is already woken
	}
}

// write sends all pending data repeatedly, until the connection ends.
func (c *conn) write() {
	defer func() { // wake callers that started to wait after the connection failed
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
		_ = c.net.SetWriteDeadline(time.Now().Add(writeWithin)) // the write itself reports a closed connection
		if _, err := c.net.Write(sending); err != nil {
			c.fail(err)
			return
		}
	}
}

// going reports whether the connection is still open.
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

// exchange sends a request and waits for the complete answer.
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

// enter waits until the server allows another stream, and reserves one.
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
		return errAway // nothing was sent
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

// await waits until a stream has a window or has ended; ended says which.
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

// cancel ends a stream and sends a reset to the server.
func (c *conn) cancel(s *stream, code http2.ErrCode) {
	c.lock()
	c.reset(s, code)
	c.unlock()
}

// reset is cancel for callers that hold writing.
func (c *conn) reset(s *stream, code http2.ErrCode) {
	if c.finish(s, http2.StreamError{StreamID: s.id, Code: code}) {
		_ = c.fr.WriteRSTStream(s.id, code) // only into the buffer
	}
}

// finish ends a stream. It returns false if the stream had already ended.
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
		_ = c.net.Close() // this ends the reader
	}
	return true
}

// fail ends the connection and all pending streams with an error.
func (c *conn) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = fmt.Errorf("the connection is lost: %w", err)
	}
	_ = c.net.Close() // this ends the reader, whose error comes later
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

// look pings the server during silence, and fails the connection if it does not respond.
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
