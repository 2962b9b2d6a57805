// Package cluster has what all parts of kubectl-fettle need of a cluster: requests to the
// API server, the cache of nodes, draining a node, coalesced events, metrics, and copies of
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

// api asks an API server of Kubernetes over HTTP: many requests at a time, spread
// over connections, each with a deadline.

// PerLane is how many requests are under way on one connection at most. An API server
// allows 100 streams on each unless told otherwise (k8s.io/apiserver, secure_serving.go).
const PerLane = 90

// Deadline is how long an answer may take where nothing else is said.
const Deadline = 60 * time.Second

// maxAnswer caps an answer that is read whole, in bytes.
const maxAnswer = 64 << 20

// Server is an API server.
type Server struct {
	base *url.URL
	// whole is for what is large or does not end, lanes for one object at a time.
	whole http.RoundTripper
	lanes []http.RoundTripper
	agent string
	// within is how long an answer may take.
	within time.Duration
	// headers are those of requests, which share them and must not change them.
	headers sync.Map // of headerOf and http.Header
}

type headerOf struct {
	accept string
	media  string // of the body; "" for none
}

// As has requests say who asks (User-Agent).
func (s *Server) As(agent string) *Server {
	s.agent = agent
	return s
}

// Within has answers take no longer than this, where it is more than 0. What does not end
// (Stream) is not held to it.
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

// Lanes is how many connections so many requests at a time want.
func Lanes(inFlight int) int { return max(1, (inFlight+PerLane-1)/PerLane) }

// New takes the address of a server, a transport for lists and watches, and one for each
// connection over which single objects go; without those it is the one for both. A
// transport authenticates by itself, and follows no redirection.
func New(base *url.URL, whole http.RoundTripper, lanes ...http.RoundTripper) *Server {
	if len(lanes) == 0 {
		lanes = []http.RoundTripper{whole}
	}
	own := *base
	own.Path = strings.TrimSuffix(own.Path, "/")
	return &Server{base: &own, whole: whole, lanes: lanes, within: Deadline}
}

// Base is the address.
func (s *Server) Base() string { return s.base.String() }

// Answer is what a server says.
type Answer struct {
	Status int
	Body   []byte
	// After is how long the server wants to be left alone; 0 where it does not say.
	After time.Duration
}

// Do sends a request and reads its answer, over the connection of a lane, any number. body
// may be nil. The error is that of the connection; what the server refuses is an Answer.
func (s *Server) Do(ctx context.Context, lane int, method, path string, body []byte) (Answer, error) {
	return s.do(ctx, s.lanes[lane%len(s.lanes)], method, path, body, "application/json", asJSON)
}

// asJSON is the default media type of a body.
const asJSON = "application/json"

// Patch sends a patch of a media type as Do does.
func (s *Server) Patch(ctx context.Context, lane int, path, media string, body []byte) (Answer, error) {
	return s.do(ctx, s.lanes[lane%len(s.lanes)], http.MethodPatch, path, body, "application/json", media)
}

// whole is what a transport may have read of an answer already.
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

// Stream asks for an answer that does not end, and hands its body out. The caller closes
// it.
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

// Get gets JSON into a value; any answer but 200 is an error.
func (s *Server) Get(ctx context.Context, path string, into any) error {
	return s.get(ctx, s.whole, path, into, "application/json")
}

// GetMetadata is Get for an object or a list of which only the metadata is wanted.
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
		return fmt.Errorf("%s%s does not answer as an API server does: %w", s.Base(), path, err)
	}
	return nil
}

// Error is what a server refuses.
type Error struct {
	Status  int
	Reason  string // as AlreadyExists
	Message string
}

func (e *Error) Error() string {
	text := e.Message
	if text == "" {
		text = http.StatusText(e.Status)
	}
	return fmt.Sprintf("the API server answers %d: %s", e.Status, text)
}

// Err is what an answer that is no success says.
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

// IsStatus reports whether an error is an answer with a status.
func IsStatus(err error, status int) bool {
	var e *Error
	return errors.As(err, &e) && e.Status == status
}

// Version is that of the API server, as v1.34.4.
func (s *Server) Version(ctx context.Context) (string, error) {
	var v struct{ GitVersion string }
	err := s.Get(ctx, "/version", &v)
	return v.GitVersion, err
}

// OpenShift is the version of OpenShift, as 4.17.3; "" for another Kubernetes.
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

// Cluster is the uid of the namespace kube-system, by which a cluster is known.
func (s *Server) Cluster(ctx context.Context) (string, error) {
	m, err := s.Metadata(ctx, 0, "/api/v1/namespaces/kube-system")
	return m.UID, err
}

// Metadata of an object.
type Metadata struct {
	Name, Namespace, UID, ResourceVersion string
	Labels, Annotations                   map[string]string
	DeletionTimestamp                     string
}

// Metadata gets that of the object at a path.
func (s *Server) Metadata(ctx context.Context, lane int, path string) (Metadata, error) {
	var o struct{ Metadata Metadata }
	err := s.get(ctx, s.lanes[lane%len(s.lanes)], path, &o, "application/json")
	return o.Metadata, err
}
