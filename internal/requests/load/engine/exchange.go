// exchange has the words that the clients and the engine share: a request that
// is made once and sent often, and what came of sending it.

package engine

import (
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"os"
	"syscall"
	"time"
)

// Field is one line of a header.
type Field struct{ Name, Value string }

// Request is what is asked, ready to be sent any number of times.
type Request struct {
	Method string
	URL    *url.URL
	Header []Field // with Host, User-Agent and Accept
	Body   []byte
	// Wire is the request as HTTP/1.1 sends it.
	Wire []byte
	// Origin is the number of the origin that is asked, among those of the run.
	Origin int
	// Harmless says that to send it twice does no harm, whatever its method.
	Harmless bool
}

// Repeatable says whether the request may be sent again where a connection that was kept
// open turns out to be closed (RFC 9110, 9.2.2).
func (r *Request) Repeatable() bool {
	if r.Harmless {
		return true
	}
	switch r.Method {
	case "GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE":
		return true
	}
	return false
}

// Failure is why there is no whole answer.
type Failure string

// The failures. Unsent and Unfinished are those of a run that ended first; Interrupted
// says nothing against the server.
const (
	None       Failure = ""
	Timeout    Failure = "timeout"
	Refused    Failure = "connection-refused"
	Unreached  Failure = "not-connected" // any other failure of connecting
	TLS        Failure = "tls"
	Closed     Failure = "closed-early" // the connection ended within an answer, or before it
	Protocol   Failure = "protocol"     // what came is no HTTP, or more than is taken
	Unsent     Failure = "not-sent"     // no connection became free for it
	Unfinished Failure = "cut-off"      // it was under way a timeout after the end of the plan
	Local      Failure = "local-limit"  // this machine has no port or file left for it
	Other      Failure = "other"
	// Interrupted was under way when somebody ended the run before its plan did.
	Interrupted Failure = "interrupted"
)

// Waited says of a failure that its time is known to be at least what was waited, and
// that to leave it out would flatter the others.
func (f Failure) Waited() bool {
	return f == Timeout || f == Unsent || f == Unfinished || f == Interrupted
}

// Answer is what came of a request.
type Answer struct {
	Status  int
	In      int64 // bytes that came, headers included; under TLS and HTTP/2 without theirs
	Failure Failure
	Err     error // of a failure
}

// Client sends requests, one at a time, and keeps what it needs for the next one. Close
// may be called at any time and ends what is under way.
type Client interface {
	Exchange(r *Request, until time.Time) Answer
	Close()
}

// ErrNoAnswer is a connection that ended before the first byte of an answer.
var ErrNoAnswer = errors.New("the server closed the connection without an answer")

// ProtocolError is an answer that is none. Its text has been made by the server in part
// and quotes that.
type ProtocolError string

func (e ProtocolError) Error() string { return string(e) }

// TLSError is a handshake that failed.
type TLSError struct{ Err error }

func (e *TLSError) Error() string { return e.Err.Error() }
func (e *TLSError) Unwrap() error { return e.Err }

// Failed is the answer of an error. connecting says that there was no connection yet.
func Failed(err error, connecting bool) Answer {
	a := Answer{Err: err, Failure: Other}
	var broken ProtocolError
	var secured *TLSError
	var op *net.OpError
	var netErr net.Error
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded), errors.As(err, &netErr) && netErr.Timeout():
		a.Failure = Timeout
	case errors.As(err, &broken):
		a.Failure = Protocol
	// With TLS 1.3 a server can refuse the certificate when the handshake is done; crypto/tls
	// calls the operation so.
	case errors.As(err, &secured), errors.As(err, &op) && op.Op == "remote error":
		a.Failure = TLS
	case errors.Is(err, syscall.EADDRNOTAVAIL), errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		a.Failure = Local
	case connecting && errors.Is(err, syscall.ECONNREFUSED):
		a.Failure = Refused
	case connecting:
		a.Failure = Unreached
	case errors.Is(err, ErrNoAnswer), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, net.ErrClosed):
		a.Failure = Closed
	}
	return a
}
