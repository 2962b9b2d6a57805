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
	"net/http"
	"net/url"
	"time"
)

// maxAnswer is the size limit of a response, in bytes: a page of metrics has some hundred KiB.
const maxAnswer = 16 << 20

// Access has a client's credentials, in PEM or empty. Without a CA, the client trusts the machine's
// CAs.
type Access struct {
	CA, Cert, Key []byte
}

// Client sends HTTP requests to one address of a member, with limits of time and size. It is safe
// for concurrent use.
type Client struct {
	// URL is http://HOST[:PORT] or https://HOST[:PORT].
	URL    string
	http   *http.Client
	advice Advice
}

// New checks the address and the credentials without connecting. It ignores the credentials for
// http.
func New(address string, a Access, advice Advice) (*Client, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return nil, fmt.Errorf("%q is not a member address; want one such as https://10.0.0.1:2379", address)
	}
	if u.User != nil || u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("%q: want only scheme, host and port, such as https://10.0.0.1:2379", u.Redacted())
	}
	c := &Client{URL: u.Scheme + "://" + u.Host, advice: advice}
	transport := &http.Transport{MaxIdleConnsPerHost: 2, IdleConnTimeout: time.Minute}
	if u.Scheme == "https" {
		if transport.TLSClientConfig, err = a.config(); err != nil {
			return nil, err
		}
	}
	c.http = &http.Client{
		Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return errors.New("the server redirects, so it is not an etcd member; check the address")
		},
	}
	return c, nil
}

func (a Access) config() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if len(a.CA) > 0 {
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(a.CA) {
			return nil, errors.New("the CA file has no certificate in PEM")
		}
	}
	switch {
	case len(a.Cert) == 0 && len(a.Key) == 0:
	case len(a.Cert) == 0 || len(a.Key) == 0:
		return nil, errors.New("want both a client certificate and its key")
	default:
		pair, err := tls.X509KeyPair(a.Cert, a.Key)
		if err != nil {
			return nil, fmt.Errorf("the certificate: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// Get requests a page, such as /metrics, and waits at most wait. The error is a *StatusError for an
// error status, and an *Unreached if there is no response.
func (c *Client) Get(ctx context.Context, page string, wait time.Duration) ([]byte, error) {
	return c.ask(ctx, http.MethodGet, page, nil, wait)
}

// Call calls a method of the API through the member's JSON gateway, such as
// /v3/maintenance/status (etcd, "gRPC gateway"). It returns the errors of Get, with the
// gateway's own message.
func (c *Client) Call(ctx context.Context, method string, asked any, wait time.Duration) ([]byte, error) {
	body, err := json.Marshal(asked)
	if err != nil {
		return nil, err
	}
	text, err := c.ask(ctx, http.MethodPost, method, body, wait)
	var status *StatusError
	if errors.As(err, &status) {
		err = fmt.Errorf("%w%s", err, inWords(status.Code, text))
	}
	return text, err
}

func (c *Client) ask(ctx context.Context, method, path string, body []byte, wait time.Duration) ([]byte, error) {
	bounded, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	req, err := http.NewRequestWithContext(bounded, method, c.URL+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.unreached(ctx, bounded, err, wait)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, c.unreached(ctx, bounded, err, wait)
	case len(text) > maxAnswer:
		return nil, fmt.Errorf("the answer of %s%s is larger than %d MiB", c.URL, path, maxAnswer>>20)
	case resp.StatusCode != http.StatusOK:
		return text, &StatusError{c.URL + path, resp.StatusCode}
	}
	return text, nil
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }
