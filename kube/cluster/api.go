// Package cluster provides access to a cluster for all parts of kubectl-fettle: API requests, the
// node cache, node drains, the state of pods and nodes, coalesced events, metrics, and copies of
// objects.
package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

// api sends many concurrent HTTP requests to a Kubernetes API server over several connections, each
// with a deadline.

// PerLane is the maximum number of concurrent requests per connection. By default, API servers
// allow 100 streams (k8s.io/apiserver, secure_serving.go).
const PerLane = 90

// Deadline is the default time limit for a response.
const Deadline = 60 * time.Second

// maxAnswer limits a response that is read as a whole, in bytes.
const maxAnswer = 64 << 20

// Server is a client of one API server.
type Server struct {
	base *url.URL
	// whole sends requests with large or endless responses, lanes those for single objects.
	whole http.RoundTripper
	lanes []http.RoundTripper
	agent string
	// within is the time limit for a response.
	within time.Duration
	// headers caches request headers. Requests share them and must not change them.
	headers sync.Map // of headerOf and http.Header
}

type headerOf struct {
	accept string
	media  string // media type of the body, or ""
}

// As sets the User-Agent of the requests.
func (s *Server) As(agent string) *Server {
	s.agent = agent
	return s
}

// Within sets the time limit for responses, unless d is 0 or less. Stream has no time limit.
func (s *Server) Within(d time.Duration) *Server {
	if d > 0 {
		s.within = d
	}
	return s
}

func (s *Server) header(accept, media string) http.Header {
	key := headerOf{accept, media}
	if h, ok := s.headers.Load(key); ok {
		return h.(http.Header)
	}
	h := http.Header{"Accept": {accept}}
	if media != "" {
		h.Set("Content-Type", media)
	}
	if s.agent != "" {
		h.Set("User-Agent", s.agent)
	}
	s.headers.Store(key, h)
	return h
}

// Lanes returns the number of connections needed for inFlight concurrent requests.
func Lanes(inFlight int) int { return max(1, (inFlight+PerLane-1)/PerLane) }

// New returns a Server for an address. whole is the transport for lists and watches. lanes has one
// transport per connection for single objects; without lanes, whole serves both. The transports
// must authenticate by themselves and follow no redirects.
func New(base *url.URL, whole http.RoundTripper, lanes ...http.RoundTripper) *Server {
	if len(lanes) == 0 {
		lanes = []http.RoundTripper{whole}
	}
	own := *base
	own.Path = strings.TrimSuffix(own.Path, "/")
	return &Server{base: &own, whole: whole, lanes: lanes, within: Deadline}
}

// Base returns the server's address.
func (s *Server) Base() string { return s.base.String() }

// Answer is a response of the server.
type Answer struct {
	Status int
	Body   []byte
	// After is the delay that Retry-After requests, or 0.
	After time.Duration
}

// Do sends a request and reads the response. lane may be any number and selects the connection;
// body may be nil. An error means a failed connection; an error status is an Answer.
func (s *Server) Do(ctx context.Context, lane int, method, path string, body []byte) (Answer, error) {
	return s.do(ctx, s.lanes[lane%len(s.lanes)], method, path, body, "application/json", asJSON)
}

// asJSON is the default media type of request bodies.
const asJSON = "application/json"

// Patch is like Do, but sends a patch of the given media type.
func (s *Server) Patch(ctx context.Context, lane int, path, media string, body []byte) (Answer, error) {
	return s.do(ctx, s.lanes[lane%len(s.lanes)], http.MethodPatch, path, body, "application/json", media)
}

// whole is a response body that the transport has already read.
type whole interface{ Bytes() []byte }

func (s *Server) do(ctx context.Context, over http.RoundTripper, method, path string, body []byte, accept, media string) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, s.within)
	defer cancel()
	resp, err := s.send(ctx, over, method, path, body, accept, media)
	if err != nil {
		return Answer{}, err
	}
	defer resp.Body.Close()
	a := Answer{Status: resp.StatusCode}
	if w, is := resp.Body.(whole); is {
		a.Body = w.Bytes()
	} else {
		a.Body, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	}
	if text := resp.Header.Get("Retry-After"); text != "" {
		if n, err := strconv.Atoi(text); err == nil && n >= 0 {
			a.After = min(time.Duration(n)*time.Second, Deadline)
		}
	}
	return a, err
}

func (s *Server) send(ctx context.Context, over http.RoundTripper, method, path string, body []byte, accept, media string) (*http.Response, error) {
	if body == nil {
		media = ""
	}
	at := *s.base
	var query string
	path, query, _ = strings.Cut(path, "?")
	at.Path, at.RawQuery = at.Path+path, query
	req := (&http.Request{
		Method: method, URL: &at, Host: at.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: s.header(accept, media),
	}).WithContext(ctx)
	if body != nil {
		req.ContentLength = int64(len(body))
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
		req.Body, _ = req.GetBody()
	}
	resp, err := over.RoundTrip(req)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, at.Redacted(), err)
	}
	return resp, nil
}

// Stream requests an endless response and returns its body, which the caller closes.
func (s *Server) Stream(ctx context.Context, path string) (io.ReadCloser, error) {
	resp, err := s.send(ctx, s.whole, http.MethodGet, path, nil, "application/json", "")
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
		resp.Body.Close()
		return nil, Answer{Status: resp.StatusCode, Body: text}.Err()
	}
	return resp.Body, nil
}

// Get decodes a JSON response into a value. Any status but 200 is an error.
func (s *Server) Get(ctx context.Context, path string, into any) error {
	return s.get(ctx, s.whole, path, into, "application/json")
}

// GetMetadata is like Get, but reads only the metadata of an object or a list.
func (s *Server) GetMetadata(ctx context.Context, path string, into any) error {
	return s.get(ctx, s.whole, path, into, "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1")
}

func (s *Server) get(ctx context.Context, over http.RoundTripper, path string, into any, accept string) error {
	a, err := s.do(ctx, over, http.MethodGet, path, nil, accept, "")
	if err != nil {
		return err
	}
	if a.Status != http.StatusOK {
		return a.Err()
	}
	if raw, ok := into.(*[]byte); ok {
		*raw = a.Body
		return nil
	}
	if err := json.Unmarshal(a.Body, into); err != nil {
		return fmt.Errorf("%s%s: the answer does not look like an API server's: %w", s.Base(), path, err)
	}
	return nil
}

// Error is an error status from the server.
type Error struct {
	Status  int
	Reason  string // such as AlreadyExists
	Message string
}

func (e *Error) Error() string {
	text := e.Message
	if text == "" {
		text = http.StatusText(e.Status)
	}
	return fmt.Sprintf("the API server answers %d: %s", e.Status, text)
}

// Err returns the error for an answer with an error status, otherwise nil.
func (a Answer) Err() error {
	e := &Error{Status: a.Status}
	var status struct{ Reason, Message string }
	if json.Unmarshal(a.Body, &status) == nil {
		e.Reason, e.Message = status.Reason, status.Message
	}
	if e.Message == "" {
		e.Message = strings.TrimSpace(string(a.Body[:min(len(a.Body), 200)]))
	}
	return e
}

// IsStatus reports whether err is an Error with this status.
func IsStatus(err error, status int) bool {
	var e *Error
	return errors.As(err, &e) && e.Status == status
}

// Version returns the version of the API server, such as v1.34.4.
func (s *Server) Version(ctx context.Context) (string, error) {
	var v struct{ GitVersion string }
	err := s.Get(ctx, "/version", &v)
	return v.GitVersion, err
}

// OpenShift returns the OpenShift version, such as 4.17.3; "" for other Kubernetes.
func (s *Server) OpenShift(ctx context.Context) (string, error) {
	var version struct {
		Status struct{ Desired struct{ Version string } }
	}
	err := s.Get(ctx, "/apis/config.openshift.io/v1/clusterversions/version", &version)
	if IsStatus(err, http.StatusNotFound) {
		return "", nil
	}
	return version.Status.Desired.Version, err
}

// Cluster returns the UID of namespace kube-system, which identifies the cluster.
func (s *Server) Cluster(ctx context.Context) (string, error) {
	m, err := s.Metadata(ctx, 0, "/api/v1/namespaces/kube-system")
	return m.UID, err
}

// Metadata is the part of an object's metadata that fettle reads.
type Metadata struct {
	Name, Namespace, UID, ResourceVersion string
	Labels, Annotations                   map[string]string
	DeletionTimestamp                     string
}

// Metadata reads the metadata of the object at a path.
func (s *Server) Metadata(ctx context.Context, lane int, path string) (Metadata, error) {
	var o struct{ Metadata Metadata }
	err := s.get(ctx, s.lanes[lane%len(s.lanes)], path, &o, "application/json")
	return o.Metadata, err
}
