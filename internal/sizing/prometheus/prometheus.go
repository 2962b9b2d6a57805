// Package prometheus asks a running Prometheus how much it takes in and what that
// costs it, so that the next one can be sized by it.
package prometheus

import (
	"bufio"
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
)

// Usage is what a server takes in and needs.
type Usage struct {
	// Series are those in memory now.
	Series float64
	// SamplesPerSecond is the ingestion, 1/s.
	SamplesPerSecond float64
	// BytesPerSample is what a sample needs on disk, bytes.
	BytesPerSample float64
	// BytesFrom says how BytesPerSample was found.
	BytesFrom string
	// Resident is the memory of the process, bytes; 0 where nothing says it.
	Resident float64
	// Retention is how long samples are kept, as the server says it; "" where it does
	// not.
	Retention string
	// Nodes and Pods of the cluster that it watches; 0 where it watches none.
	Nodes, Pods float64
}

// Disk is what samples of a time need, in bytes.
func (u *Usage) Disk(keep time.Duration) float64 {
	return keep.Seconds() * u.SamplesPerSecond * u.BytesPerSample
}

// assumed is taken where no block was compacted yet: the upper end of the 1 to 2
// bytes that https://prometheus.io/docs/prometheus/latest/storage/ gives.
const assumed = 2

// maxAnswer caps an answer, in bytes.
const maxAnswer = 16 << 20

// Server is a Prometheus by its address.
type Server struct {
	base  *url.URL
	token string
	http  *http.Client
}

// Open checks an address, http or https, and a bearer token, which may be empty. A
// token goes by https only, or to this machine.
func Open(address, token string) (*Server, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("%q is no address: want one such as http://localhost:9090", address)
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("the address has a user, a query or a fragment: want one such as http://localhost:9090")
	}
	if token = strings.TrimSpace(token); token != "" && u.Scheme == "http" && !loopback(u.Hostname()) {
		return nil, errors.New("the token is not sent without encryption: use https, or a tunnel to this machine")
	}
	return &Server{u, token, &http.Client{
		CheckRedirect: func(next *http.Request, _ []*http.Request) error { return &redirect{next.URL} },
	}}, nil
}

func loopback(name string) bool {
	ip := net.ParseIP(name)
	return name == "localhost" || ip != nil && ip.IsLoopback()
}

const appended = "prometheus_tsdb_head_samples_appended_total"

// ingestion is over ten minutes, or over the time since the server started: rate
// divides by all of its window, also where there are samples of a part of it only,
// and a server that is a minute old would seem to take in a tenth.
const ingestion = "max(sum by (instance) (increase(" + appended + "[10m])) / on (instance) clamp_max(max by (instance) (time() - process_start_time_seconds), 600))"

// patience is the time that all questions have together.
const patience = 30 * time.Second

// Measure asks for all of it, within half a minute. Series and ingestion have to be
// known; the rest is taken where it is there.
func (s *Server) Measure(ctx context.Context) (*Usage, error) { return s.measure(ctx, patience) }

func (s *Server) measure(ctx context.Context, patience time.Duration) (*Usage, error) {
	ctx, stop := context.WithTimeoutCause(ctx, patience, &impatience{patience})
	defer stop()
	own := map[string]float64(nil)
	u := &Usage{}
	for _, q := range []struct {
		to    *float64
		query string
		own   string // the server's own metric, for one that does not watch itself
		need  string
	}{
		{&u.Series, "max(prometheus_tsdb_head_series)", "prometheus_tsdb_head_series", "how many series it has"},
		{&u.SamplesPerSecond, ingestion, "", "how many samples a second it takes in"},
		{&u.Resident, `max(process_resident_memory_bytes{job=~".*prometheus.*"})`, "process_resident_memory_bytes", ""},
		{&u.BytesPerSample, "sum(rate(prometheus_tsdb_compaction_chunk_size_bytes_sum[1d])) / sum(rate(prometheus_tsdb_compaction_chunk_samples_sum[1d]))", "", ""},
		{&u.Nodes, "count(kube_node_info)", "", ""},
		{&u.Pods, "count(kube_pod_info)", "", ""},
	} {
		v, known, err := s.query(ctx, q.query)
		if err == nil && !known && q.query == ingestion {
			v, known, err = s.query(ctx, "max(sum by (instance) (rate("+appended+"[10m])))")
		}
		if err != nil {
			return nil, err
		}
		if !known && own == nil {
			own = s.own(ctx)
		}
		if !known && q.own != "" {
			v, known = own[q.own]
		}
		if !known && q.to == &u.SamplesPerSecond {
			v, known = sinceStart(own)
		}
		switch {
		case known:
			*q.to = v
		case q.need != "":
			return nil, fmt.Errorf("%s does not say %s: have it watch itself (a scrape job for its own /metrics), or name the Prometheus that does", s.base.Host, q.need)
		}
	}
	u.BytesFrom = "measured over the blocks compacted in a day"
	if u.BytesPerSample <= 0 {
		u.BytesPerSample, u.BytesFrom = assumed, "not measured, as no block was compacted yet: the upper end of what its documents say"
		if own["prometheus_tsdb_compaction_chunk_samples_sum"] > 0 {
			u.BytesPerSample = own["prometheus_tsdb_compaction_chunk_size_bytes_sum"] / own["prometheus_tsdb_compaction_chunk_samples_sum"]
			u.BytesFrom = "measured over the blocks compacted since it started"
		}
	}
	u.Retention = s.retention(ctx)
	return u, nil
}

// sinceStart is the ingestion from the server's own counters: the mean since it
// started.
func sinceStart(own map[string]float64) (float64, bool) {
	total, ok := own[appended]
	started := own["process_start_time_seconds"]
	seconds := float64(time.Now().Unix()) - started
	if !ok || started <= 0 || seconds < 1 {
		return 0, false
	}
	return total / seconds, true
}

// query asks one expression whose answer is one number. known is false where it has
// none.
func (s *Server) query(ctx context.Context, expression string) (value float64, known bool, err error) {
	var answer struct {
		Status, Error string
		Data          struct {
			ResultType string
			Result     []struct{ Value [2]any }
		}
	}
	if err := s.json(ctx, "api/v1/query?query="+url.QueryEscape(expression), &answer); err != nil {
		return 0, false, err
	}
	if answer.Status == "" {
		return 0, false, fmt.Errorf("%s answers in JSON, and not as Prometheus does: name the address below which /api/v1/query is", s.base.Host)
	}
	if answer.Status != "success" {
		return 0, false, fmt.Errorf("%s does not answer %s: %s", s.base.Host, expression, answer.Error)
	}
	if len(answer.Data.Result) == 0 {
		return 0, false, nil
	}
	text, _ := answer.Data.Result[0].Value[1].(string)
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, false, fmt.Errorf("%s answers %q to %s", s.base.Host, text, expression)
	}
	return v, !math.IsNaN(v) && !math.IsInf(v, 0) && v >= 0, nil
}

func (s *Server) retention(ctx context.Context) string {
	var answer struct {
		Data struct{ StorageRetention string }
	}
	if err := s.json(ctx, "api/v1/status/runtimeinfo", &answer); err != nil {
		return "" // an old one, or a proxy that lets queries through only
	}
	return answer.Data.StorageRetention
}

// own are the server's metrics without labels, and the sum over the labels of those
// with some.
func (s *Server) own(ctx context.Context) map[string]float64 {
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
		what := "with what is no JSON"
		if strings.HasPrefix(strings.TrimSpace(string(body[:min(len(body), 512)])), "<") {
			what = "with a page for browsers"
		}
		return fmt.Errorf("%s answers %s: it is no Prometheus, or a login is before it: name the address below which /api/v1/query is", s.base.Host, what)
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
		return nil, s.unreached(ctx, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, s.unreached(ctx, err)
	case len(body) > maxAnswer:
		return nil, fmt.Errorf("%s answers with more than %d MiB", s.base.Host, maxAnswer>>20)
	}
	return body, s.refused(resp)
}
