package puppetserver

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
	"time"
)

// The limits of a response, in bytes.
const (
	maxBody   = 16 << 20
	maxHeader = 64 << 10
)

// toConnect is the time limit of a connection, as a firewall may drop packets.
const toConnect = 10 * time.Second

// question is one request.
type question struct {
	path, query string
	node        bool // with the certificate of the node
	unverified  bool // the server's certificate is not verified: nothing secret is sent
	header      map[string]string
}

func (q question) String() string { return "GET " + q.path }

// reply is the result of a question.
type reply struct {
	status int
	header http.Header
	body   []byte
	// away is the reason that no connection could be made, and closed the error with which the
	// server closed it without a response.
	away, closed error
	err          error // any other
}

// awayError is returned if no connection could be made.
type awayError struct{ error }

func (e awayError) Unwrap() error { return e.error }

// ask makes one request on its own connection, because the client certificate belongs to the
// connection.
func (r *run) ask(s Site, q question) reply {
	ctx, cancel := context.WithTimeout(r.ctx, r.Timeout)
	defer cancel()
	config := r.TLS.Clone()
	config.InsecureSkipVerify = q.unverified
	if !q.node {
		config.Certificates = nil
	}
	t := &http.Transport{
		DialContext:     func(ctx context.Context, _, _ string) (net.Conn, error) { return connect(ctx, s.Sockets) },
		TLSClientConfig: config, DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: maxHeader,
	}
	defer t.CloseIdleConnections()
	u := &url.URL{Scheme: s.URL.Scheme, Host: s.URL.Host, Path: q.path, RawQuery: q.query}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return reply{err: err}
	}
	// As agents do: a cache may have a separate response for each of these.
	request.Header.Set("Accept", "application/json, text/pson")
	if major, _, ok := strings.Cut(strings.TrimPrefix(r.UserAgent, "Puppet/"), "."); ok && len(major) == 1 && major >= "8" {
		request.Header.Set("Accept", "application/json") // PSON went with Puppet 8
	}
	request.Header.Set("Accept-Encoding", "gzip;q=1.0,deflate;q=0.6,identity;q=0.3")
	request.Header.Set("User-Agent", "fettle")
	if r.UserAgent != "" {
		request.Header.Set("User-Agent", r.UserAgent)
	}
	for name, value := range q.header {
		request.Header.Set(name, value)
	}
	answer, err := t.RoundTrip(request) // redirects are not followed
	if err != nil {
		return failed(err)
	}
	defer answer.Body.Close()
	body, err := probeText(answer)
	if err != nil {
		return failed(err)
	}
	return reply{status: answer.StatusCode, header: answer.Header, body: body}
}

// connect opens a connection to the first of the sockets that accepts one.
func connect(ctx context.Context, sockets []netip.AddrPort) (net.Conn, error) {
	var errs []error
	dialer := net.Dialer{Timeout: toConnect}
	for _, s := range sockets {
		conn, err := dialer.DialContext(ctx, "tcp", s.String())
		if err == nil {
			return conn, nil
		}
		errs = append(errs, err)
	}
	return nil, awayError{errors.Join(errs...)}
}

// failed classifies an error. A server that requires a certificate sends an alert, or closes
// the connection (RFC 8446, 4.4.2.4 and 6).
func failed(err error) reply {
	var away awayError
	var op *net.OpError
	switch {
	case errors.As(err, &away):
		return reply{away: away.error}
	case errors.As(err, &op) && op.Op == "remote error":
		return reply{closed: op.Err}
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return reply{closed: errors.New("the server closed the connection")}
	}
	return reply{err: err}
}

// probeText reads the body of a response.
func probeText(a *http.Response) ([]byte, error) {
	var from io.Reader = a.Body
	var err error
	switch a.Header.Get("Content-Encoding") {
	case "gzip":
		from, err = gzip.NewReader(a.Body)
	case "deflate":
		from, err = zlib.NewReader(a.Body)
	}
	if err != nil {
		return nil, fmt.Errorf("the answer is not %s, although its Content-Encoding says so: %w", a.Header.Get("Content-Encoding"), err)
	}
	body, err := io.ReadAll(io.LimitReader(from, maxBody+1))
	if err == nil && len(body) > maxBody {
		err = fmt.Errorf("the answer is larger than %d MiB", maxBody>>20)
	}
	return body, err
}

// reason returns the reply as the reason of an unknown answer.
func (a reply) reason() string {
	var unknown *tls.CertificateVerificationError
	switch {
	case a.away != nil:
		return "no answer: " + a.away.Error()
	case a.closed != nil:
		return "no answer: " + a.closed.Error()
	case errors.As(a.err, &unknown):
		return "its certificate is not signed by the CA: " + unknown.Err.Error()
	case a.err != nil:
		return a.err.Error()
	}
	return fmt.Sprintf("status %d", a.status)
}

// refused reports whether the server requires a certificate, or another one. nginx responds
// with a page and status 400 (ngx_http_special_response.c, 495 and 496).
func (a reply) refused() bool {
	return a.closed != nil || a.status == http.StatusUnauthorized || a.status == http.StatusForbidden ||
		a.status == http.StatusBadRequest && bytes.Contains(bytes.ToLower(a.body), []byte("certificate"))
}
