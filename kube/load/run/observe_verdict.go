package run

import (
	"cmp"
	"slices"
)

// Kubernetes' objectives for API calls at the 99th percentile, in seconds: of one object,
// and of lists of a namespace or the cluster (kubernetes/community, sig-scalability/slos;
// ClusterLoader2 enforces them so).
const (
	objectLimitS = 1
	listLimitS   = 30
)

// leastCalls is how many calls it takes to know a 99th percentile: where none of 300 is
// above a limit, at most one in a hundred of all is, at 95 %.
const leastCalls = 300

// Calls is what the servers report of one kind of calls during the run, of all clients.
type Calls struct {
	Series
	N      int     `json:"n"`
	P50S   float64 `json:"p50_s"`
	P99S   float64 `json:"p99_s"`
	LimitS float64 `json:"limit_s"`
	// Verdict is met, missed, or cannot tell: of too few calls.
	Verdict string `json:"verdict"`
}

// Servers is what the API server's metrics say of a run. They are of the one API server
// that answered, where there are several.
type Servers struct {
	Calls    []Calls `json:"calls"`
	EtcdP99S float64 `json:"etcd_p99_s"`
	EtcdN    int     `json:"etcd_n"`
	Rejected int     `json:"rejected"`
	// DatabaseBytes is the size of etcd's database at the end, and Grown by how much it
	// has grown.
	DatabaseBytes int64 `json:"database_bytes,omitempty"`
	GrownBytes    int64 `json:"database_grown_bytes,omitempty"`
	// Members are what etcd says itself, where it can be asked.
	Members []Etcd `json:"etcd_members,omitempty"`
}

// Compare is what was between two samples.
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

// Missed are the sorts of calls that took too long.
func (s *Servers) Missed() []Calls {
	var all []Calls
	for _, c := range s.Calls {
		if c.Verdict == "missed" {
			all = append(all, c)
		}
	}
	return all
}
