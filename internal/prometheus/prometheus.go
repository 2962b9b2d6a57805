// Package prometheus queries a Prometheus server, explains connection errors, and parses the
// metrics pages of other programs. Benchmarks, findings and experiments use it.
package prometheus

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"fettle.dev/fettle/internal/text"
)

// maxAnswer is the largest accepted answer, in bytes.
const maxAnswer = 16 << 20

// Server is a Prometheus server at an address.
type Server struct {
	base  *url.URL
	token string
	http  *http.Client
}

// Open checks a server's address (http or https) and a bearer token, which may be empty.
// Tokens are sent only over https or to this machine.
func Open(address, token string) (*Server, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("%q is not an address; use one such as http://localhost:9090", address)
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("the address has a user, a query or a fragment; use one such as http://localhost:9090")
	}
	if token = strings.TrimSpace(token); token != "" && u.Scheme == "http" && !loopback(u.Hostname()) {
		return nil, errors.New("the token is not sent without encryption; use https, or a tunnel to this machine")
	}
	return &Server{u, token, &http.Client{
		CheckRedirect: func(next *http.Request, _ []*http.Request) error { return &redirectError{next.URL} },
	}}, nil
}

func loopback(name string) bool {
	ip := net.ParseIP(name)
	return name == "localhost" || ip != nil && ip.IsLoopback()
}

// WithTimeout returns a context with a timeout, which errors of requests then mention.
func WithTimeout(ctx context.Context, patience time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, patience, &timeoutError{patience})
}

// Host returns the server's host and port.
func (s *Server) Host() string { return s.base.Host }

// Query evaluates an expression whose current result is one number. known is false if there is
// no result, or if it is not finite.
func (s *Server) Query(ctx context.Context, expression string) (value float64, known bool, err error) {
	kind, result, err := s.evaluate(ctx, "query", url.Values{"query": {expression}})
	if err != nil {
		return 0, false, err
	}
	// https://prometheus.io/docs/prometheus/latest/querying/api/, expression query
	// result formats.
	var vector []struct{ Value [2]any }
	switch kind {
	case "scalar":
		vector = make([]struct{ Value [2]any }, 1)
		err = json.Unmarshal(result, &vector[0].Value)
	case "vector":
		err = json.Unmarshal(result, &vector)
	default:
		return 0, false, fmt.Errorf("%s answers the query %s with a %s; the result must be one number (an instant vector of one series, or a scalar)", s.base.Host, expression, cmp.Or(kind, "result without a type"))
	}
	switch {
	case err != nil:
		return 0, false, fmt.Errorf("invalid answer of %s to the query %s: %w", s.base.Host, expression, err)
	case len(vector) == 0:
		return 0, false, nil
	case len(vector) > 1:
		return 0, false, fmt.Errorf("%s answers the query %s with %d series; select one by sum(...), max(...) or labels", s.base.Host, expression, len(vector))
	}
	text, _ := vector[0].Value[1].(string)
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, false, fmt.Errorf("%s answers %q to the query %s; the result must be a number", s.base.Host, text, expression)
	}
	return v, !math.IsNaN(v) && !math.IsInf(v, 0), nil
}

// evaluate makes a query, "query" or "query_range", and returns the type and the JSON of its result.
func (s *Server) evaluate(ctx context.Context, endpoint string, parameters url.Values) (kind string, result json.RawMessage, err error) {
	var answer struct {
		Status, Error string
		Data          struct {
			ResultType string
			Result     json.RawMessage
		}
	}
	if err := s.json(ctx, "api/v1/"+endpoint+"?"+parameters.Encode(), &answer); err != nil {
		return "", nil, err
	}
	if answer.Status == "" {
		return "", nil, fmt.Errorf("%s answers with JSON that Prometheus does not write; use the base address of /api/v1/query", s.base.Host)
	}
	if answer.Status != "success" {
		return "", nil, fmt.Errorf("%s rejects the query %s: %s", s.base.Host, parameters.Get("query"), answer.Error)
	}
	return answer.Data.ResultType, answer.Data.Result, nil
}

// Sample is the value of a series at a time.
type Sample struct {
	Time  time.Time
	Value float64
}

// Range returns the values of an expression of one series, in steps from a time to another. Values
// that are not finite are left out.
func (s *Server) Range(ctx context.Context, expression string, from, to time.Time, step time.Duration) ([]Sample, error) {
	seconds := func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
	_, result, err := s.evaluate(ctx, "query_range", url.Values{"query": {expression}, "start": {seconds(float64(from.Unix()))}, "end": {seconds(float64(to.Unix()))}, "step": {seconds(step.Seconds())}})
	if err != nil {
		return nil, err
	}
	var matrix []struct{ Values [][2]any }
	switch err := json.Unmarshal(result, &matrix); {
	case err != nil:
		return nil, fmt.Errorf("invalid answer of %s to the query %s: %w", s.base.Host, expression, err)
	case len(matrix) == 0:
		return nil, fmt.Errorf("%s has no values of %s in this time", s.base.Host, expression)
	case len(matrix) > 1:
		return nil, fmt.Errorf("%s answers the query %s with %d series; select one by sum(...), max(...) or labels", s.base.Host, expression, len(matrix))
	}
	var out []Sample
	for _, pair := range matrix[0].Values {
		at, timed := pair[0].(float64)
		text, _ := pair[1].(string)
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || !timed {
			return nil, fmt.Errorf("%s answers %v at %v to the query %s; the result must be numbers", s.base.Host, pair[1], pair[0], expression)
		}
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			out = append(out, Sample{time.UnixMilli(int64(math.Round(1000 * at))), v})
		}
	}
	return out, nil
}

// addressed matches URL:TEXT, a URL without a colon in its path and the text after the next colon.
var addressed = text.LazyRegexp(`^(https?://(?:\[[0-9a-fA-F:.]+\]|[^/:\[\]]+)(?::\d+)?(?:/[^:]*)?):(.+)$`)

// CutAddress splits URL:EXPRESSION.
func CutAddress(words string) (address, expression string, ok bool) {
	m := addressed().FindStringSubmatch(words)
	if m == nil {
		return "", "", false
	}
	return m[1], m[2], true
}

// Retention returns how long the server keeps samples, in Prometheus notation, or "" if
// unknown.
func (s *Server) Retention(ctx context.Context) string {
	var answer struct {
		Data struct{ StorageRetention string }
	}
	if err := s.json(ctx, "api/v1/status/runtimeinfo", &answer); err != nil {
		return "" // an old server, or a proxy that only allows queries
	}
	return answer.Data.StorageRetention
}

// OwnMetrics returns the server's own metrics by name, summed over all label sets.
func (s *Server) OwnMetrics(ctx context.Context) map[string]float64 {
	out := map[string]float64{}
	body, err := s.get(ctx, "metrics")
	if err != nil {
		return out
	}
	lines := bufio.NewScanner(strings.NewReader(string(body)))
	for lines.Scan() {
		line := lines.Text()
		at := strings.LastIndexByte(line, ' ')
		if at < 0 || strings.HasPrefix(line, "#") {
			continue
		}
		name, _, _ := strings.Cut(line[:at], "{")
		if v, err := strconv.ParseFloat(line[at+1:], 64); err == nil && !math.IsNaN(v) && !math.IsInf(v, 0) {
			out[name] += v
		}
	}
	return out
}

func (s *Server) json(ctx context.Context, path string, into any) error {
	body, err := s.get(ctx, path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, into); err != nil {
		what := "with something other than JSON"
		if strings.HasPrefix(strings.TrimSpace(string(body[:min(len(body), 512)])), "<") {
			what = "with an HTML page"
		}
		return fmt.Errorf("%s answers %s: not a Prometheus, or a login page in front; use the base address of /api/v1/query", s.base.Host, what)
	}
	return nil
}

func (s *Server) get(ctx context.Context, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(s.base.String(), "/")+"/"+path, nil)
	if err != nil {
		return nil, err
	}
	if s.token != "" {
		req.Header.Set("Authorization", "Bearer "+s.token)
	}
	resp, err := s.http.Do(req)
	if err != nil {
		return nil, s.connectionError(ctx, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, s.connectionError(ctx, err)
	case len(body) > maxAnswer:
		return nil, fmt.Errorf("the answer of %s is larger than %d MiB", s.base.Host, maxAnswer>>20)
	}
	return body, s.statusError(resp)
}
