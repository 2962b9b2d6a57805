// An HTTP/2 client (RFC 9113) on top of golang.org/x/net/http2: requests are streams that share
// a connection.

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

// Limits on the memory that a server can make this client use, in bytes.
const (
	maxHeader     = 64 << 10
	maxStream     = 256 << 10 // unread data of one stream
	maxConnection = 1 << 20   // of all streams of a connection
)

// Connection is an HTTP/2 connection to an origin, opened on demand.
type Connection struct {
	Dialer *Dialer

	mu     sync.Mutex
	conn   net.Conn
	client *http2.ClientConn
	closed bool

	answered atomic.Bool // an HTTP/2 answer was received
	older    atomic.Bool // the first bytes were those of an HTTP/1 answer
}

// begin is a connection without TLS that inspects its first received bytes. Without TLS
// nothing negotiates HTTP/2, so the server may answer in HTTP/1.
type begin struct {
	net.Conn
	older *atomic.Bool
	first []byte // used by the reader only
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

// get returns a connection that can take a request.
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
		// Streams in flight on this connection are still completed.
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

// Stream sends requests over a shared connection.
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

// once sends the request. again reports whether the server was closing the connection and did
// not process the request.
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

// h2Request converts a request for net/http.
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

// unseen reports whether the server did not process the request: it was shutting down (RFC
// 9113, 6.8) or refused the stream (8.7). http2 does not export these two errors.
func unseen(err error) bool {
	var stream http2.StreamError
	return errors.As(err, &stream) && stream.Code == http2.ErrCodeRefusedStream ||
		strings.Contains(err.Error(), "client conn not usable") || strings.Contains(err.Error(), "graceful shutdown GOAWAY")
}

// failed returns the answer for an error before the first HTTP/2 answer.
func (c *Connection) failed(ctx context.Context, err error) Answer {
	a := failed(ctx, err)
	switch {
	case c.answered.Load() || a.Failure == Timeout || ctx.Err() != nil:
	case c.older.Load():
		return Failed(ProtocolError("the server answers in HTTP/1, not HTTP/2: leave out --http2, or use https, which negotiates the version"), false)
	case a.Failure == Closed:
		return Failed(c.Dialer.Ended(err), false)
	}
	return a
}

// unmade reports whether the connection ended before the server's first frame. http2 does not
// export this error.
func unmade(err error) bool {
	return strings.Contains(err.Error(), "client conn could not be established")
}

// failed returns the answer for an HTTP/2 error.
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
		a.Failure = Protocol // http2's other errors report invalid frames
	}
	return a
}

// Close closes the shared connection and cuts off all of its requests.
func (s *Stream) Close() { s.Connection.close() }

var _ Client = (*Stream)(nil)
