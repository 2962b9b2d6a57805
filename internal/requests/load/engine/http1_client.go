package engine

import (
	"errors"
	"net"
	"sync"
	"syscall"
	"time"
)

// HTTP1Client sends requests to one origin over one connection at a time. It opens the
// connection on demand and keeps it until the server closes it.
type HTTP1Client struct {
	Dialer *Dialer
	// OneEach closes each connection after one request.
	OneEach bool
	// Keep receives the last answer, if not nil. It must not be changed during an exchange.
	Keep *Capture
	// Small saves memory: a buffer is taken when an answer arrives, not while it is awaited.
	Small bool

	parser   parser
	deadline time.Time // of conn
	socket   socket    // of conn
	mu       sync.Mutex
	conn     net.Conn
	closed   bool
}

// Exchange sends a request and reads its answer to the end.
func (c *HTTP1Client) Exchange(r *Request, until time.Time) Answer {
	conn, kept := c.conn, true
	c.parser.keep = c.Keep
	defer c.parser.release()
	if conn != nil && !r.Repeatable() && c.socket.stale() {
		c.Dialer.Counts.Reopened.Add(1)
		c.drop()
		conn = nil
	}
	for {
		if conn == nil {
			kept = false
			var err error
			if conn, err = c.open(until); err != nil {
				return Failed(err, true)
			}
		}
		before := c.parser.in
		status, closing, err := c.once(conn, r, until)
		if err == nil {
			if closing || c.OneEach {
				c.drop()
			}
			return Answer{Status: status, In: c.parser.in - before}
		}
		c.drop()
		if !kept && c.parser.in == before && ended(err) {
			err = c.Dialer.Ended(err)
		}
		if !kept || c.parser.in != before || !r.Repeatable() || !ended(err) {
			return Failed(err, false)
		}
		// The server closed the idle connection, which is allowed: repeat on a new one.
		c.Dialer.Counts.Reopened.Add(1)
		conn = nil
	}
}

// ended reports whether err means that the server closed the connection.
func ended(err error) bool {
	return errors.Is(err, ErrNoAnswer) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// once sends the request and reads the answer. An answer counts even if the server closed
// the connection before it read the whole request.
func (c *HTTP1Client) once(conn net.Conn, r *Request, until time.Time) (status int, closing bool, err error) {
	// Setting a deadline costs as much as counting an answer. So it is set slightly later than
	// necessary, and the next requests reuse it.
	if until.After(c.deadline) {
		c.deadline = until.Add(time.Until(until) / 16)
		if err := conn.SetDeadline(c.deadline); err != nil {
			return 0, true, err
		}
	}
	_, unsent := conn.Write(r.Wire)
	if len(r.Rest) > 0 && unsent == nil {
		_, unsent = conn.Write(r.Rest)
	}
	if unsent != nil && (len(r.Body)+len(r.Rest) == 0 || errors.Is(unsent, net.ErrClosed)) {
		return 0, true, unsent
	}
	if c.Small && unsent == nil {
		c.socket.wait()
	}
	status, closing, err = c.parser.answer(r.Method == "HEAD")
	if unsent != nil {
		if err != nil {
			err = unsent
		}
		closing = true
	}
	return status, closing, err
}

// open dials the origin and keeps the connection. It returns an error after Close.
func (c *HTTP1Client) open(until time.Time) (net.Conn, error) {
	conn, err := c.Dialer.Dial(until)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, errors.Join(net.ErrClosed, conn.Close())
	}
	c.conn, c.deadline = conn, time.Time{}
	c.socket = socketOf(conn)
	c.parser.reset(conn)
	return conn, nil
}

// drop closes the current connection, if any.
func (c *HTTP1Client) drop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn != nil {
		_ = c.conn.Close()
		c.conn = nil
	}
}

// Close closes the connection and cuts off the request in flight.
func (c *HTTP1Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.conn != nil {
		_ = c.conn.Close()
	}
}

var _ Client = (*HTTP1Client)(nil)
