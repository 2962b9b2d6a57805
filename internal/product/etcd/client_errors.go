package etcd

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"
)

// StatusError is a response with an error status.
type StatusError struct {
	At   string // URL and path of the request
	Code int    // of HTTP
}

func (e *StatusError) Error() string {
	return strings.TrimSpace(fmt.Sprintf("%s answers %d %s", e.At, e.Code, http.StatusText(e.Code)))
}

// inWords returns the gateway's message for an error status. The response has the same message in
// two fields.
func inWords(code int, text []byte) string {
	var said struct{ Error, Message string }
	switch err := json.Unmarshal(text, &said); {
	case err == nil && said.Error+said.Message != "":
		return ": " + cmp.Or(said.Message, said.Error)
	case code == http.StatusNotFound:
		return ": etcd's JSON gateway is off (--enable-grpc-gateway), or etcd is older than 3.4"
	}
	return ""
}

// Why is the kind of reason that a member does not respond.
type Why string

// The reasons.
const (
	Late      Why = "late"      // no response within the time limit
	Unheard   Why = "unheard"   // nothing listens at the address
	Untrusted Why = "untrusted" // no trusted authority issued its certificate
	Stranger  Why = "stranger"  // it rejects this client's certificate or requires one
	Plain     Why = "plain"     // it does not use TLS
	Other     Why = "other"
)

// Advice has a remedy for each reason; each caller has its own.
type Advice map[Why]string

// Unreached is the error of a member that does not respond.
type Unreached struct {
	URL string
	Why Why
	// Wait is the time that the client waited.
	Wait   time.Duration
	advice string
	err    error
}

func (e *Unreached) Error() string {
	text := ""
	switch e.Why {
	case Late:
		text = fmt.Sprintf("no answer from %s within %s; etcd is busy, or a firewall drops the packets", e.URL, e.Wait)
	case Unheard:
		text = "nothing listens at " + e.URL
	case Untrusted:
		text = "the certificate of " + e.URL + " is not trusted"
	case Stranger:
		text = e.URL + " does not accept this client"
	case Plain:
		text = e.URL + " does not use TLS; use http:// if intended"
	default:
		text = fmt.Sprintf("cannot query %s: %v", e.URL, e.err)
		if errors.Is(e.err, io.EOF) && strings.HasPrefix(e.URL, "https:") {
			text += "; the server may not use TLS: use http:// if intended"
		}
		return text
	}
	if e.advice != "" {
		text += ": " + e.advice
	}
	err := e.err
	if alert := (*net.OpError)(nil); e.Why == Stranger && errors.As(err, &alert) {
		err = alert // the alert alone, without net/http's context
	}
	if e.Why == Untrusted || e.Why == Stranger {
		text += fmt.Sprintf(" (%v)", err)
	}
	return text
}

func (e *Unreached) Unwrap() error { return e.err }

// unreached converts a failed request to an Unreached error, or returns asker's error if the
// caller's context has ended.
func (c *Client) unreached(asker, bounded context.Context, err error, wait time.Duration) error {
	if asker.Err() != nil {
		return asker.Err()
	}
	var of *url.Error
	if errors.As(err, &of) {
		err = of.Err
	}
	why := reason(bounded, err)
	return &Unreached{URL: c.URL, Why: why, Wait: wait, advice: c.advice[why], err: err}
}

func reason(bounded context.Context, err error) Why {
	var (
		alert *net.OpError
		noTLS tls.RecordHeaderError
		cert  *tls.CertificateVerificationError
	)
	switch {
	case errors.Is(bounded.Err(), context.DeadlineExceeded):
		return Late
	case errors.Is(err, syscall.ECONNREFUSED):
		return Unheard
	case errors.As(err, &cert):
		return Untrusted
	case errors.As(err, &alert) && alert.Op == "remote error": // a TLS alert
		return Stranger
	case errors.As(err, &noTLS), errors.Is(err, http.ErrSchemeMismatch):
		return Plain
	}
	return Other
}
