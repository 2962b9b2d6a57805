package run

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/kube/cluster"
)

// Metrics that are read (kubernetes.io, reference/instrumentation/metrics).
const (
	requests    = "apiserver_request_duration_seconds"
	observeEtcd = "etcd_request_duration_seconds"
	rejected    = "apiserver_flowcontrol_rejected_requests_total"
	size        = "apiserver_storage_size_bytes"
)

// Series identifies one histogram of API calls.
type Series struct {
	Verb     string `json:"verb"`
	Resource string `json:"resource"`
	Scope    string `json:"scope"` // scope of the calls: resource, namespace or cluster
}

// Sample is a snapshot of the API server's metrics: counters since its start.
type Sample struct {
	// Requests are bucket counts of API calls, by upper bound in seconds. Etcd are those of the API
	// server's calls to etcd.
	Requests map[Series]map[float64]float64
	Etcd     map[float64]float64
	// Rejected counts requests that priority and fairness rejected.
	Rejected float64
	// DatabaseBytes is the size of etcd's database; 0 if the server does not report it.
	DatabaseBytes float64
}

// maxLine limits a line of metrics, in bytes.
const maxLine = 64 << 10

// Scrape reads the metrics of the API server.
func Scrape(ctx context.Context, s *cluster.Server) (*Sample, error) {
	ctx, cancel := context.WithTimeout(ctx, cluster.Deadline)
	defer cancel()
	body, err := s.Stream(ctx, "/metrics")
	if err != nil {
		return nil, err
	}
	defer body.Close()
	return Parse(body)
}

// Parse parses Prometheus' text format, and skips metrics that the sample does not need.
func Parse(text io.Reader) (*Sample, error) {
	x := &Sample{Requests: map[Series]map[float64]float64{}, Etcd: map[float64]float64{}}
	lines := bufio.NewScanner(text)
	lines.Buffer(make([]byte, 16<<10), maxLine)
	seen := false
	for lines.Scan() {
		line := lines.Text()
		switch {
		case strings.HasPrefix(line, requests+"_bucket{"):
			seen = true
			labels, value, ok := split(line)
			if !ok || skipped(labels) {
				continue
			}
			k := Series{labels["verb"], labels["resource"], labels["scope"]}
			if x.Requests[k] == nil {
				x.Requests[k] = map[float64]float64{}
			}
			x.Requests[k][bound(labels["le"])] += value
		case strings.HasPrefix(line, observeEtcd+"_bucket{"):
			if labels, value, ok := split(line); ok {
				x.Etcd[bound(labels["le"])] += value
			}
		case strings.HasPrefix(line, rejected+"{"):
			if _, value, ok := split(line); ok {
				x.Rejected += value
			}
		case strings.HasPrefix(line, size+"{"):
			if _, value, ok := split(line); ok {
				x.DatabaseBytes = max(x.DatabaseBytes, value)
			}
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	if !seen {
		return nil, fmt.Errorf("the metrics have no %s", requests)
	}
	return x, nil
}

// skipped reports whether calls with these labels are long-running, to which Kubernetes' objectives
// do not apply.
func skipped(labels map[string]string) bool {
	switch labels["verb"] {
	case "WATCH", "CONNECT", "WATCHLIST":
		return true
	}
	switch labels["subresource"] {
	case "log", "exec", "attach", "portforward", "proxy":
		return true
	}
	return labels["resource"] == ""
}

func bound(text string) float64 {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return math.Inf(1)
	}
	return v
}

// split parses NAME{A="B",...} VALUE.
func split(line string) (labels map[string]string, value float64, ok bool) {
	open, end := strings.IndexByte(line, '{'), strings.LastIndexByte(line, '}')
	if open < 0 || end < open {
		return nil, 0, false
	}
	word, _, _ := strings.Cut(strings.TrimSpace(line[end+1:]), " ")
	value, err := strconv.ParseFloat(word, 64)
	if err != nil || math.IsNaN(value) || math.IsInf(value, 0) {
		return nil, 0, false
	}
	labels = map[string]string{}
	for rest := line[open+1 : end]; rest != ""; {
		name, after, found := strings.Cut(rest, `="`)
		if !found {
			return nil, 0, false
		}
		stop := 0
		for stop < len(after) && after[stop] != '"' {
			if after[stop] == '\\' {
				stop++
			}
			stop++
		}
		if stop >= len(after) {
			return nil, 0, false
		}
		labels[strings.TrimLeft(name, ", ")] = after[:stop]
		rest = strings.TrimLeft(after[stop+1:], ", ")
	}
	return labels, value, true
}

// minus returns the increase of buckets.
func minus(now, before map[float64]float64) map[float64]float64 {
	d := make(map[float64]float64, len(now))
	for le, n := range now {
		d[le] = max(0, n-before[le]) // a restarted server counts from 0
	}
	return d
}

// quantile returns a quantile of the calls in seconds, interpolated within its bucket, and the
// number n of calls. over means that it is in the last bucket; the value is then the bucket's lower
// bound.
func quantile(buckets map[float64]float64, q float64) (value float64, n float64, over bool) {
	var bounds []float64
	for le := range buckets {
		bounds = append(bounds, le)
	}
	slices.Sort(bounds)
	if len(bounds) == 0 {
		return 0, 0, false
	}
	if n = buckets[bounds[len(bounds)-1]]; n <= 0 {
		return 0, 0, false
	}
	lower, below := 0.0, 0.0
	for _, le := range bounds {
		if count := buckets[le]; count >= q*n {
			if math.IsInf(le, 1) {
				return lower, n, true
			}
			return lower + (le-lower)*(q*n-below)/max(count-below, 1e-9), n, false
		}
		lower, below = le, buckets[le]
	}
	return lower, n, true
}

// Kubernetes' objectives for the 99th percentile of API calls, in seconds: for one object, and for
// lists of a namespace or of the cluster (kubernetes/community, sig-scalability/slos, as in
// ClusterLoader2).
const (
	objectLimitS = 1
	listLimitS   = 30
)

// leastCalls is the minimum number of calls for a 99th percentile: if none of 300 exceeds a limit,
// at most 1 % of all calls do, with 95 % confidence.
const leastCalls = 300

// Calls summarizes one kind of call by all clients during the run, from the API server's metrics.
type Calls struct {
	Series
	N      int     `json:"n"`
	P50S   float64 `json:"p50_s"`
	P99S   float64 `json:"p99_s"`
	LimitS float64 `json:"limit_s"`
	// Verdict is met, missed, or, with too few calls, cannot tell.
	Verdict string `json:"verdict"`
}

// Servers are the API server's metrics for a run. With several API servers, they are those of the
// one that answered.
type Servers struct {
	Calls    []Calls `json:"calls"`
	EtcdP99S float64 `json:"etcd_p99_s"`
	EtcdN    int     `json:"etcd_n"`
	Rejected int     `json:"rejected"`
	// DatabaseBytes is the size of etcd's database at the end, and GrownBytes its growth.
	DatabaseBytes int64 `json:"database_bytes,omitempty"`
	GrownBytes    int64 `json:"database_grown_bytes,omitempty"`
	// Members are etcd's own reports, if it can be queried.
	Members []Etcd `json:"etcd_members,omitempty"`
}

// Compare returns the changes between two samples.
func Compare(before, after *Sample) *Servers {
	s := &Servers{Calls: []Calls{}, Rejected: int(max(0, after.Rejected-before.Rejected))}
	for k, buckets := range after.Requests {
		d := minus(buckets, before.Requests[k])
		p99, n, over := quantile(d, 0.99)
		if n < 1 {
			continue
		}
		p50, _, _ := quantile(d, 0.5)
		c := Calls{Series: k, N: int(n), P50S: p50, P99S: p99, LimitS: objectLimitS, Verdict: "met"}
		if k.Scope != "resource" {
			c.LimitS = listLimitS
		}
		switch {
		case n < leastCalls:
			c.Verdict = "cannot tell"
		case p99 > c.LimitS || over:
			c.Verdict = "missed"
		}
		s.Calls = append(s.Calls, c)
	}
	slices.SortFunc(s.Calls, func(a, b Calls) int {
		return cmp.Or(cmp.Compare(b.N, a.N), cmp.Compare(a.Verb+a.Resource+a.Scope, b.Verb+b.Resource+b.Scope))
	})
	d := minus(after.Etcd, before.Etcd)
	p99, n, _ := quantile(d, 0.99)
	s.EtcdP99S, s.EtcdN = p99, int(n)
	if after.DatabaseBytes > 0 {
		s.DatabaseBytes = int64(after.DatabaseBytes)
		if before.DatabaseBytes > 0 {
			s.GrownBytes = int64(after.DatabaseBytes - before.DatabaseBytes)
		}
	}
	return s
}

// Missed returns the kinds of calls that took too long.
func (s *Servers) Missed() []Calls {
	var all []Calls
	for _, c := range s.Calls {
		if c.Verdict == "missed" {
			all = append(all, c)
		}
	}
	return all
}
