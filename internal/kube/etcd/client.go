// Package etcd asks the members of a cluster's etcd over HTTP - their metrics, their
// health and their API through its JSON gateway - and defragments them, one after the
// other.
package etcd

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Access is what a member wants to see of who asks it: PEM, empty for none. Without an
// authority it is the machine's own that are believed.
type Access struct {
	CA, Cert, Key []byte
}

// Member is one, by the address at which it hears clients.
type Member struct {
	// URL is https://HOST:PORT.
	URL  string
	http *http.Client
}

// patience is how long an answer is waited for, but that of a defragmentation.
const patience = 10 * time.Second

// maxAnswer caps an answer, in bytes: a page of metrics has some hundred KiB.
const maxAnswer = 16 << 20

// Open checks addresses and certificates; nobody is asked yet.
func Open(urls []string, a Access) ([]*Member, error) {
	conf, err := a.config()
	if err != nil {
		return nil, err
	}
	var all []*Member
	for _, text := range urls {
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.Port() == "" {
			return nil, fmt.Errorf("%q is no address of a member: want one such as https://10.0.0.1:2379", text)
		}
		if u.User != nil || u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "" {
			return nil, fmt.Errorf("%q has more than host and port: want one such as https://10.0.0.1:2379", text)
		}
		if u.Scheme == "http" && len(a.Cert) > 0 {
			return nil, fmt.Errorf("%s: a certificate is shown by https only", text)
		}
		m := &Member{URL: u.Scheme + "://" + u.Host}
		if slices.ContainsFunc(all, func(o *Member) bool { return o.URL == m.URL }) {
			return nil, fmt.Errorf("%s is named twice", m.URL)
		}
		m.http = &http.Client{
			Transport: &http.Transport{TLSClientConfig: conf, MaxIdleConnsPerHost: 1, IdleConnTimeout: time.Minute},
			CheckRedirect: func(*http.Request, []*http.Request) error {
				return errors.New("a member of etcd does not send elsewhere")
			},
		}
		all = append(all, m)
	}
	return all, nil
}

func (a Access) config() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if len(a.CA) > 0 {
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(a.CA) {
			return nil, errors.New("the authority has no certificate in PEM")
		}
	}
	switch {
	case len(a.Cert) == 0 && len(a.Key) == 0:
	case len(a.Cert) == 0 || len(a.Key) == 0:
		return nil, errors.New("a certificate and its key go together, and one of them is missing")
	default:
		pair, err := tls.X509KeyPair(a.Cert, a.Key)
		if err != nil {
			return nil, fmt.Errorf("the certificate: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// get asks for a page. The answer of a status other than 200 comes with the error.
func (m *Member) get(ctx context.Context, path string) ([]byte, error) {
	return m.ask(ctx, http.MethodGet, path, nil, patience)
}

// call calls a method of the API, such as /v3/maintenance/status (etcd, "gRPC gateway").
func (m *Member) call(ctx context.Context, method string, asked any, wait time.Duration) ([]byte, error) {
	body, err := json.Marshal(asked)
	if err != nil {
		return nil, err
	}
	text, err := m.ask(ctx, http.MethodPost, method, body, wait)
	if err != nil {
		// The gateway says in its own words what is wrong.
		var said struct{ Error, Message string }
		if json.Unmarshal(text, &said) == nil && said.Error+said.Message != "" {
			return nil, fmt.Errorf("%w: %s", err, strings.TrimSpace(said.Error+" "+said.Message))
		}
	}
	return text, err
}

// statusError is an answer that is no success.
type statusError struct {
	code       int
	member, to string
}

func (e *statusError) Error() string {
	return fmt.Sprintf("%s%s answers %d %s", e.member, e.to, e.code, http.StatusText(e.code))
}

func (m *Member) ask(ctx context.Context, method, path string, body []byte, wait time.Duration) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, m.URL+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := m.http.Do(req)
	if err != nil {
		return nil, m.unreached(ctx, err, wait)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, m.unreached(ctx, err, wait)
	case len(text) > maxAnswer:
		return nil, fmt.Errorf("%s%s answers with more than %d MiB", m.URL, path, maxAnswer>>20)
	case resp.StatusCode != http.StatusOK:
		return text, &statusError{resp.StatusCode, m.URL, path}
	}
	return text, nil
}

// unreached says why a member does not answer, and what to do.
func (m *Member) unreached(ctx context.Context, err error, wait time.Duration) error {
	var (
		of    *url.Error
		alert *net.OpError
		noTLS tls.RecordHeaderError
		cert  *tls.CertificateVerificationError
	)
	cause := err
	if errors.As(err, &of) {
		cause = of.Err
	}
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("%s has not answered within %s: it is busy, or something between drops the packets", m.URL, wait)
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("nothing listens at %s: name the address that --advertise-client-urls of the member has, or make a tunnel to it", m.URL)
	case errors.As(err, &cert):
		return fmt.Errorf("the certificate of %s is not trusted: --etcd-cacert names the authority of etcd (%w)", m.URL, cause)
	case errors.As(err, &alert) && alert.Op == "remote error": // an alert of TLS
		return fmt.Errorf("%s does not take this client: --etcd-cert and --etcd-key name a certificate that its authority has signed (%w)", m.URL, cause)
	case errors.As(err, &noTLS), errors.Is(err, http.ErrSchemeMismatch):
		return fmt.Errorf("%s speaks no TLS: http:// instead of https://, if that is meant", m.URL)
	}
	return fmt.Errorf("%s cannot be asked: %w", m.URL, cause)
}

// Close ends the connections.
func (m *Member) Close() { m.http.CloseIdleConnections() }
