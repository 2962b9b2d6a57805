// Types shared by the clients and the engine: a request that is built once and sent often,
// and the result of sending it.

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

// Request is an encoded request. It can be sent any number of times.
type Request struct {
	Method string
	URL    *url.URL
	Header []Field // includes Host, User-Agent and Accept
	Body   []byte
	// Wire is the request encoded for HTTP/1.1.
	Wire []byte
	// Rest is sent after Wire: a body that several requests share.
	Rest []byte
	// Origin is the index of the origin in the Set.
	Origin int
	// Idempotent marks a request that may be sent twice even if its method is not idempotent.
	Idempotent bool
}

// Repeatable reports whether the request may be sent again if a kept-alive connection turns out
// to be closed (RFC 9110, 9.2.2).
func (r *Request) Repeatable() bool {
	if r.Idempotent {
		return true
	}
	switch r.Method {
	case "GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE":
		return true
	}
	return false
}

// Failure is the reason for an incomplete answer.
type Failure string

// Failures. Unsent and Unfinished mean that the run ended before the answer.
const (
	None       Failure = ""
	Timeout    Failure = "timeout"
	Refused    Failure = "connection-refused"
	Unreached  Failure = "not-connected" // other connection failures
	TLS        Failure = "tls"
	Closed     Failure = "closed-early" // the connection ended before or within an answer
	Protocol   Failure = "protocol"     // malformed answer, or one above the limits
	Unsent     Failure = "not-sent"     // no connection became free
	Unfinished Failure = "cut-off"      // still in flight a timeout after the end of the plan
	Local      Failure = "local-limit"  // this machine has no free port or file descriptor
	Other      Failure = "other"
	// Interrupted means that the run was interrupted while the request was in flight.
	Interrupted Failure = "interrupted"
)

// Waited reports whether the failure counts as a latency of at least the time waited. Omitting
// such failures would make the latencies look better.
func (f Failure) Waited() bool {
	return f == Timeout || f == Unsent || f == Unfinished || f == Interrupted
}

// Answer is the result of a request.
type Answer struct {
	Status  int
	In      int64 // bytes received, including headers, without TLS and HTTP/2 overhead
	Failure Failure
	Err     error // cause of Failure
}

// Client sends one request at a time. Close may be called at any time and cuts off the
// request in flight.
type Client interface {
	Exchange(r *Request, until time.Time) Answer
	Close()
}

// ErrNoAnswer is returned if a connection ended before the first byte of an answer.
var ErrNoAnswer = errors.New("the server closed the connection without an answer")

// ProtocolError describes a malformed answer. Its text may quote the answer.
type ProtocolError string

func (e ProtocolError) Error() string { return string(e) }

// TLSError is returned for a failed handshake.
type TLSError struct{ Err error }

func (e *TLSError) Error() string { return e.Err.Error() }
func (e *TLSError) Unwrap() error { return e.Err }

// Failed returns the answer for an error. connecting means that it occurred while connecting.
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
	// With TLS 1.3 a server can refuse the certificate after the handshake; "remote error" is
	// the name that crypto/tls gives the operation.
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

// FailureCount counts failures of one kind.
type FailureCount struct {
	N       int64  `json:"n"`
	Example string `json:"example,omitempty"` // the first error
}

// Pause waits for d. If ctx ends first, it returns the cause.
func Pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(max(0, d))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return ctx.Err()
	}
}
