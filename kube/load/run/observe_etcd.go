package run

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	"fettle.dev/fettle/internal/prometheus"
	"fettle.dev/fettle/kube/cluster"
	"fettle.dev/fettle/kube/etcd"
)

// Metrics of etcd that are read (etcd.io, docs, metrics).
const (
	walFsync      = "etcd_disk_wal_fsync_duration_seconds"
	etcdSize      = "etcd_mvcc_db_total_size_in_bytes"
	etcdQuota     = "etcd_server_quota_backend_bytes"
	hasLeader     = "etcd_server_has_leader"
	leaderChanges = "etcd_server_leader_changes_seen_total"
)

// Member is an etcd member with readable metrics.
type Member struct {
	// Name is the member's address or its pod.
	Name string
	// read reads its metrics page, within Patience.
	read func(context.Context) (string, error)
}

// Patience is the time limit for a page of metrics.
const Patience = 5 * time.Second

// MemberOf returns a member whose metrics the function read returns within Patience; errors of read
// must name the member.
func MemberOf(name string, read func(context.Context) (string, error)) *Member {
	return &Member{name, read}
}

// Check reads a member's metrics once. It returns an error if the brake cannot watch the member.
func (m *Member) Check(ctx context.Context) error {
	_, err := m.look(ctx)
	return err
}

// Members returns the members that run as pods and serve metrics without a certificate, read
// through the API server. There may be none.
func Members(ctx context.Context, s *cluster.Server) []*Member {
	var all []*Member
	for _, where := range []etcd.Place{etcd.KubeSystem, etcd.OpenShift} {
		pods, err := etcd.Pods(ctx, s, where)
		if err != nil {
			continue // no rights, or no such namespace
		}
		for _, p := range pods {
			port := openPort(p.Option("listen-metrics-urls"))
			if port == "" {
				continue
			}
			name, path := "pod "+p.Name, "/api/v1/namespaces/"+p.Namespace+"/pods/http:"+p.Name+":"+port+"/proxy/metrics"
			all = append(all, &Member{name, func(ctx context.Context) (string, error) {
				ctx, cancel := context.WithTimeout(ctx, Patience)
				defer cancel()
				var text []byte
				if err := s.Get(ctx, path, &text); err != nil {
					return "", fmt.Errorf("%s: %w", name, err)
				}
				return string(text), nil
			}})
		}
	}
	return all
}

// openPort returns the port of the first URL that serves metrics over HTTP to other machines, or
// "".
func openPort(urls string) string {
	for text := range strings.SplitSeq(urls, ",") {
		u, err := url.Parse(strings.TrimSpace(text))
		if err == nil && u.Scheme == "http" && u.Port() != "" && u.Hostname() != "localhost" && !strings.HasPrefix(u.Hostname(), "127.") && u.Hostname() != "::1" {
			return u.Port()
		}
	}
	return ""
}

// page is a snapshot of a member's metrics.
type page struct {
	fsync         map[float64]float64
	bytes, quota  float64
	leader        bool
	leaderChanges float64
}

func (m *Member) look(ctx context.Context) (*page, error) {
	text, err := m.read(ctx)
	if err != nil {
		return nil, err
	}
	p := prometheus.ParseMetrics(text)
	if _, is := p.Values[hasLeader]; !is {
		return nil, fmt.Errorf("%s: no metric %s; check that this is the address of etcd", m.Name, hasLeader)
	}
	return &page{
		fsync: p.Histograms[walFsync][""], bytes: p.Values[etcdSize], quota: p.Values[etcdQuota],
		leader: p.Values[hasLeader] == 1, leaderChanges: p.Values[leaderChanges],
	}, nil
}

// Database returns the size of etcd's database in bytes (the largest member's, or the API server's
// figure) and the members' smallest quota. 0 means unknown; a quota below 0 means none.
func Database(ctx context.Context, s *cluster.Server, members []*Member) (size, quota int64) {
	for _, m := range members {
		p, err := m.look(ctx)
		if err != nil {
			continue
		}
		size = max(size, int64(p.bytes))
		if q := int64(p.quota); q != 0 && (quota <= 0 || q > 0 && q < quota) {
			quota = q
		}
	}
	if size == 0 {
		if x, err := Scrape(ctx, s); err == nil {
			size = int64(x.DatabaseBytes)
		}
	}
	return size, quota
}

// Etcd is one member's report on a run.
type Etcd struct {
	Member    string  `json:"member"`
	FsyncN    int     `json:"fsync_n"`
	FsyncP99S float64 `json:"fsync_p99_s"`
	// DatabaseBytes is the size at the run's end. QuotaBytes is the member's quota; 0 means
	// unknown, below 0 means no quota.
	DatabaseBytes int64 `json:"database_bytes"`
	QuotaBytes    int64 `json:"quota_bytes,omitempty"`
	LeaderChanges int   `json:"leader_changes"`
}

// etcdBetween returns a member's report for the time between two pages.
func (m *Member) etcdBetween(before, after *page) Etcd {
	p99, n, _ := quantile(minus(after.fsync, before.fsync), 0.99)
	return Etcd{
		Member: m.Name, FsyncN: int(n), FsyncP99S: p99, DatabaseBytes: int64(after.bytes), QuotaBytes: int64(after.quota),
		LeaderChanges: int(max(0, after.leaderChanges-before.leaderChanges)),
	}
}
