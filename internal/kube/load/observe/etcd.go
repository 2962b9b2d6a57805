package observe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"fettle.dev/fettle/internal/component/metrics"
	"fettle.dev/fettle/internal/kube/load/api"
)

// The metrics of etcd that are read (etcd.io, docs, metrics).
const (
	walFsync      = "etcd_disk_wal_fsync_duration_seconds"
	etcdSize      = "etcd_mvcc_db_total_size_in_bytes"
	etcdQuota     = "etcd_server_quota_backend_bytes"
	hasLeader     = "etcd_server_has_leader"
	leaderChanges = "etcd_server_leader_changes_seen_total"
)

// Member is one of etcd that tells its metrics.
type Member struct {
	// Name is where: an address, or the pod.
	Name string
	// read gets its page.
	read func(context.Context) (string, error)
}

// maxPage caps a page of metrics, and askEtcd is how long one may take.
const (
	maxPage = 8 << 20
	askEtcd = 5 * time.Second
)

// MemberAt is one whose metrics are at an address: http://127.0.0.1:2381, with or without
// /metrics. https is for a certificate that this machine trusts.
func MemberAt(address string) (*Member, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return nil, fmt.Errorf("%q: want where a member of etcd tells its metrics, as http://127.0.0.1:2381", address)
	}
	if strings.Trim(u.Path, "/") == "" {
		u.Path = "/metrics"
	}
	page := u.String()
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return &Member{u.Scheme + "://" + u.Host, func(ctx context.Context) (string, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, page, nil)
		if err != nil {
			return "", err
		}
		resp, err := client.Do(req)
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return "", errors.New(resp.Status)
		}
		text, err := io.ReadAll(io.LimitReader(resp.Body, maxPage))
		return string(text), err
	}}, nil
}

// Members finds those that run as pods and tell their metrics without a certificate to
// more than their own machine, through the API server. There may be none.
func Members(ctx context.Context, s *api.Server) []*Member {
	var all []*Member
	for _, where := range []string{"kube-system/pods?labelSelector=component%3Detcd", "openshift-etcd/pods?labelSelector=app%3Detcd"} {
		var pods struct {
			Items []struct {
				Metadata struct{ Name, Namespace string }
				Spec     struct {
					Containers []struct{ Command, Args []string }
				}
			}
		}
		if err := s.Get(ctx, "/api/v1/namespaces/"+where, &pods); err != nil {
			continue // no rights, or no such namespace
		}
		for _, p := range pods.Items {
			port := ""
			for _, c := range p.Spec.Containers {
				if port == "" {
					port = openPort(append(c.Command, c.Args...))
				}
			}
			if port == "" {
				continue
			}
			path := "/api/v1/namespaces/" + p.Metadata.Namespace + "/pods/http:" + p.Metadata.Name + ":" + port + "/proxy/metrics"
			all = append(all, &Member{"pod " + p.Metadata.Name, func(ctx context.Context) (string, error) {
				var text []byte
				err := s.Get(ctx, path, &text)
				return string(text), err
			}})
		}
	}
	return all
}

// openPort is where a command line of etcd has it tell its metrics to other machines.
func openPort(words []string) string {
	for i, w := range words {
		value, is := strings.CutPrefix(w, "--listen-metrics-urls")
		if !is {
			continue
		}
		if value == "" && i+1 < len(words) {
			value = words[i+1]
		}
		for text := range strings.SplitSeq(strings.TrimPrefix(value, "="), ",") {
			u, err := url.Parse(strings.TrimSpace(text))
			if err == nil && u.Scheme == "http" && u.Port() != "" && u.Hostname() != "localhost" && !strings.HasPrefix(u.Hostname(), "127.") && u.Hostname() != "::1" {
				return u.Port()
			}
		}
	}
	return ""
}

// page is the metrics of a member at one moment.
type page struct {
	fsync         map[float64]float64
	bytes, quota  float64
	leader        bool
	leaderChanges float64
}

func (m *Member) look(ctx context.Context) (*page, error) {
	ctx, cancel := context.WithTimeout(ctx, askEtcd)
	defer cancel()
	text, err := m.read(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.Name, err)
	}
	p := metrics.Read(text)
	if _, is := p.Values[hasLeader]; !is {
		return nil, fmt.Errorf("%s: its metrics have no %s: is it etcd?", m.Name, hasLeader)
	}
	return &page{
		fsync: p.Histograms[walFsync][""], bytes: p.Values[etcdSize], quota: p.Values[etcdQuota],
		leader: p.Values[hasLeader] == 1, leaderChanges: p.Values[leaderChanges],
	}, nil
}

// Etcd is what a member says of a run.
type Etcd struct {
	Member    string  `json:"member"`
	FsyncN    int     `json:"fsync_n"`
	FsyncP99S float64 `json:"fsync_p99_s"`
	// DatabaseBytes is the size at the end, QuotaBytes what it may be; 0 for not said.
	DatabaseBytes int64 `json:"database_bytes"`
	QuotaBytes    int64 `json:"quota_bytes,omitempty"`
	LeaderChanges int   `json:"leader_changes"`
}

// etcdBetween is what was between two looks.
func (m *Member) etcdBetween(before, after *page) Etcd {
	p99, n, _ := quantile(minus(after.fsync, before.fsync), 0.99)
	return Etcd{
		Member: m.Name, FsyncN: int(n), FsyncP99S: p99, DatabaseBytes: int64(after.bytes), QuotaBytes: int64(after.quota),
		LeaderChanges: int(max(0, after.leaderChanges-before.leaderChanges)),
	}
}
