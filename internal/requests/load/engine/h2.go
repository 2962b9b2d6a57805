// h2 is a client of HTTP/2 (RFC 9113), with golang.org/x/net/http2: requests are
// streams, of which several share a connection.

package engine

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
)

// Limits of what a server may make this side keep, in bytes.
const (
	maxHeader     = 64 << 10
	maxStream     = 256 << 10 // not yet read
	maxConnection = 1 << 20   // of all its streams
)

// Connection is a connection to an origin, opened when it is needed.
type Connection struct {
	Dialer *Dialer

	mu     sync.Mutex
	conn   net.Conn
	client *http2.ClientConn
	closed bool

	answered atomic.Bool // there was an answer of HTTP/2
	older    atomic.Bool // what came begins as an answer of HTTP/1
}

// begin is a connection without TLS, of which the first bytes are looked at: nothing has
// said before whether the server speaks HTTP/2.
type begin struct {
	net.Conn
	older *atomic.Bool
	first []byte // the reader's
}

func (b *begin) Read(p []byte) (int, error) {
	const older = "HTTP/1."
	n, err := b.Conn.Read(p)
	if missing := len(older) - len(b.first); missing > 0 {
		b.first = append(b.first, p[:min(n, missing)]...)
		if string(b.first) == older {
			b.older.Store(true)
		}
	}
	return n, err
}

// get is the connection as it can take a request.
func (c *Connection) get(until time.Time) (*http2.ClientConn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, net.ErrClosed
	}
	if c.client != nil && c.client.CanTakeNewRequest() {
		return c.client, nil
	}
	if c.client != nil {
		// Streams that are under way over it come to their end.
		c.client.SetDoNotReuse()
		c.client, c.conn = nil, nil
	}
	conn, err := c.Dialer.Dial(until)
	if err != nil {
		return nil, err
	}
	transport, err := http2.ConfigureTransports(&http.Transport{HTTP2: &http.HTTP2Config{MaxReceiveBufferPerStream: maxStream, MaxReceiveBufferPerConnection: maxConnection}})
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	transport.AllowHTTP, transport.DisableCompression, transport.MaxHeaderListSize = true, true, maxHeader
	if c.Dialer.TLS == nil {
		conn = &begin{Conn: conn, older: &c.older}
	}
	client, err := transport.NewClientConn(conn)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	c.conn, c.client = conn, client
	return client, nil
}

func (c *Connection) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.conn != nil {
		_ = c.conn.Close()
	}
}

// Stream sends requests over a connection that others may use as well.
type Stream struct {
	Connection *Connection
	buffer     [16 << 10]byte
}

// Exchange sends a request and reads its answer to the end.
func (s *Stream) Exchange(r *Request, until time.Time) Answer {
	answer, again := s.once(r, until)
	if again && r.Repeatable() {
		s.Connection.Dialer.Counts.Reopened.Add(1)
		answer, _ = s.once(r, until)
	}
	return answer
}

// once sends the request. again says that the server was closing the connection and has
// not looked at it.
func (s *Stream) once(r *Request, until time.Time) (a Answer, again bool) {
	client, err := s.Connection.get(until)
	if err != nil {
		return Failed(err, true), false
	}
	ctx, cancel := context.WithDeadline(s.Connection.Dialer.Context, until)
	defer cancel()
	answer, err := client.RoundTrip(h2Request(ctx, r))
	if err != nil {
		return s.Connection.failed(ctx, err), unseen(err)
	}
	s.Connection.answered.Store(true)
	in := int64(0)
	for {
		n, err := answer.Body.Read(s.buffer[:])
		in += int64(n)
		if err != nil {
			_ = answer.Body.Close()
			if errors.Is(err, io.EOF) {
				return Answer{Status: answer.StatusCode, In: in}, false
			}
			return failed(ctx, err), false
		}
	}
}

// h2Request is the request as the library takes it.
func h2Request(ctx context.Context, r *Request) *http.Request {
	out := (&http.Request{Method: r.Method, URL: r.URL, Host: r.URL.Host, Header: http.Header{}}).WithContext(ctx)
	for _, f := range r.Header {
		if f.Name == "Host" {
			out.Host = f.Value
			continue
		}
		out.Header.Add(f.Name, f.Value)
	}
	if len(r.Body) > 0 {
		out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(r.Body)), int64(len(r.Body))
	}
	return out
}

// unseen says of an error that the server has not taken the request: it was going away (RFC
// 9113, 6.8) or refused the stream (8.7). The library has no names for its own two errors.
func unseen(err error) bool {
	var stream http2.StreamError
	return errors.As(err, &stream) && stream.Code == http2.ErrCodeRefusedStream ||
		strings.Contains(err.Error(), "client conn not usable") || strings.Contains(err.Error(), "graceful shutdown GOAWAY")
}

// failed is the answer of an error before one of HTTP/2 has come.
func (c *Connection) failed(ctx context.Context, err error) Answer {
	a := failed(ctx, err)
	switch {
	case c.answered.Load() || a.Failure == Timeout || ctx.Err() != nil:
	case c.older.Load():
		return Failed(ProtocolError("the server answers in HTTP/1, and not in HTTP/2: leave --http2 out, or load it by https, where both agree on it"), false)
	case a.Failure == Closed:
		return Failed(c.Dialer.Ended(err), false)
	}
	return a
}

// unmade says of an error that the connection has ended before the server's first frame. The
// library has no name for it.
func unmade(err error) bool {
	return strings.Contains(err.Error(), "client conn could not be established")
}

// failed is the answer of an error of HTTP/2.
func failed(ctx context.Context, err error) Answer {
	a := Failed(err, false)
	var away http2.GoAwayError
	var stream http2.StreamError
	var connection http2.ConnectionError
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		a.Failure = Timeout
	case ctx.Err() != nil, errors.As(err, &away), unmade(err):
		a.Failure = Closed
	case errors.As(err, &stream), errors.As(err, &connection):
		a.Failure = Protocol
	case a.Failure == Other:
		a.Failure = Protocol // what else the library finds wrong is the server's frames
	}
	return a
}

// Close ends the connection and all that is under way over it.
func (s *Stream) Close() { s.Connection.close() }

var _ Client = (*Stream)(nil)
