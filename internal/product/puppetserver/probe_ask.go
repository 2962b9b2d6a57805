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

// Limits of a response, in bytes.
const (
	maxBody   = 16 << 20
	maxHeader = 64 << 10
)

// toConnect limits connecting, because a firewall may drop packets.
const toConnect = 10 * time.Second

// question describes one request.
type question struct {
	path, query string
	node        bool // use the node's certificate
	unverified  bool // do not verify the server's certificate; nothing secret is sent
	header      map[string]string
}

func (q question) String() string { return "GET " + q.path }

// reply is the response to a question, or why it is missing.
type reply struct {
	status int
	header http.Header
	body   []byte
	// away is the error if connecting failed. closed is the error if the server closed the
	// connection without a response.
	away, closed error
	err          error // any other error
}

// awayError wraps the error of a failed connection.
type awayError struct{ error }

func (e awayError) Unwrap() error { return e.error }

// ask makes one request on a new connection, because a client certificate belongs to a connection.
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
	// Headers like the agents': a cache may keep separate responses for each value.
	request.Header.Set("Accept", "application/json, text/pson")
	if major, _, ok := strings.Cut(strings.TrimPrefix(r.UserAgent, "Puppet/"), "."); ok && len(major) == 1 && major >= "8" {
		request.Header.Set("Accept", "application/json") // Puppet 8 dropped PSON
	}
	request.Header.Set("Accept-Encoding", "gzip;q=1.0,deflate;q=0.6,identity;q=0.3")
	request.Header.Set("User-Agent", "fettle")
	if r.UserAgent != "" {
		request.Header.Set("User-Agent", r.UserAgent)
	}
	for name, value := range q.header {
		request.Header.Set(name, value)
	}
	answer, err := t.RoundTrip(request) // follows no redirects
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

// connect connects to the first socket that accepts.
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

// failed classifies an error as a reply. A server that requires a certificate sends an alert, or
// closes the connection (RFC 8446, 4.4.2.4 and 6).
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

// probeText reads a response's body, up to the limit.
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

// reason returns why the reply gives no answer.
func (a reply) reason() string {
	var unknown *tls.CertificateVerificationError
	switch {
	case a.away != nil:
		return "no answer: " + a.away.Error()
	case a.closed != nil:
		return "no answer: " + a.closed.Error()
	case errors.As(a.err, &unknown):
		return "the server's certificate is not signed by the CA: " + unknown.Err.Error()
	case a.err != nil:
		return a.err.Error()
	}
	return fmt.Sprintf("status %d", a.status)
}

// refused reports whether the server demands a certificate or rejects the client's. nginx responds
// with status 400 and a page (ngx_http_special_response.c, 495 and 496).
func (a reply) refused() bool {
	return a.closed != nil || a.status == http.StatusUnauthorized || a.status == http.StatusForbidden ||
		a.status == http.StatusBadRequest && bytes.Contains(bytes.ToLower(a.body), []byte("certificate"))
}
