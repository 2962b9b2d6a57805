package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"fettle.dev/fettle/kube/cluster"
)

// ofServer returns the metrics of a server after the given numbers of calls below 50 ms, and
// between one and two seconds.
func ofServer(quick, slow int) string {
	var b strings.Builder
	fmt.Fprintln(&b, "# HELP apiserver_request_duration_seconds x")
	for _, x := range []struct {
		le string
		n  int
	}{{"0.05", quick}, {"1", quick}, {"2", quick + slow}, {"+Inf", quick + slow}} {
		fmt.Fprintf(&b, `apiserver_request_duration_seconds_bucket{component="apiserver",dry_run="",group="",le="%s",resource="configmaps",scope="resource",subresource="",verb="POST",version="v1"} %d`+"\n", x.le, x.n)
		fmt.Fprintf(&b, `apiserver_request_duration_seconds_bucket{le="%s",resource="pods",scope="resource",subresource="log",verb="GET"} %d`+"\n", x.le, x.n)
		fmt.Fprintf(&b, `apiserver_request_duration_seconds_bucket{le="%s",resource="pods",scope="cluster",subresource="",verb="WATCH"} %d`+"\n", x.le, x.n)
		fmt.Fprintf(&b, `etcd_request_duration_seconds_bucket{operation="create",type="a\"b",le="%s"} %d`+"\n", x.le, x.n)
	}
	fmt.Fprintf(&b, "apiserver_flowcontrol_rejected_requests_total{reason=\"queue-full\"} %d\n", slow)
	fmt.Fprintf(&b, "apiserver_storage_size_bytes{storage_cluster_id=\"etcd-0\"} %d\n", 1000*(quick+slow))
	return b.String()
}

func sample(t *testing.T, quick, slow int) *Sample {
	t.Helper()
	x, err := Parse(strings.NewReader(ofServer(quick, slow)))
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func TestCompare(t *testing.T) {
	s := Compare(sample(t, 1000, 500), sample(t, 1990, 510))
	if len(s.Calls) != 1 {
		t.Fatalf("%+v", s.Calls)
	}
	c := s.Calls[0]
	// 990 of 1000 are below 50 ms: the 99th percentile is there.
	if c.N != 1000 || c.Verdict != "met" || math.Abs(c.P99S-0.05) > 1e-9 || math.Abs(c.P50S-0.05*500/990) > 1e-9 || c.Resource != "configmaps" {
		t.Errorf("%+v", c)
	}
	if s.Rejected != 10 || s.GrownBytes != 1_000_000 || s.EtcdN != 1000 {
		t.Errorf("%+v", s)
	}
	s = Compare(sample(t, 1000, 500), sample(t, 1000, 1000))
	if c := s.Calls[0]; c.Verdict != "missed" || c.P99S < 1.9 || len(s.Missed()) != 1 {
		t.Errorf("%+v", c)
	}
	if s := Compare(sample(t, 10, 5), sample(t, 10, 300)); s.Calls[0].Verdict != "cannot tell" {
		t.Errorf("of 295 calls: %+v", s.Calls)
	}
	// Of nothing there is no infinity, which JSON could not hold.
	if p99, n, _ := quantile(map[float64]float64{0.1: 0, math.Inf(1): 0}, 0.99); p99 != 0 || n != 0 {
		t.Errorf("of nothing: %v of %v", p99, n)
	}
	// A server that began anew has counted less than before.
	if s := Compare(sample(t, 1000, 500), sample(t, 10, 0)); len(s.Calls) != 0 {
		t.Errorf("%+v", s.Calls)
	}
}

// TestObserveBrake tests that each condition of the brake ends a run, and that a healthy cluster
// does not.
func TestObserveBrake(t *testing.T) {
	for want, set := range map[string]func(*Brake, *looking, *observeServer){
		"":                                 func(*Brake, *looking, *observeServer) {},
		"rejected 60 of 200 requests":      func(b *Brake, _ *looking, _ *observeServer) { b.Throttled.Store(60); b.Answered.Store(140) },
		"API server calls to etcd: p99 is": func(_ *Brake, l *looking, s *observeServer) { l.slow = 1; s.slow = 900 },
		"etcd's database has":              func(b *Brake, l *looking, _ *observeServer) { b.QuotaBytes = 1_300_000; l.members[0].last.quota = 0 },
		"p99 of writing etcd's log to the disk is 1.99 s > ": func(_ *Brake, l *looking, s *observeServer) { l.members[0].slow = 1; s.etcd.slow = 900 },
		"has no leader":             func(_ *Brake, _ *looking, s *observeServer) { s.etcd.lost = true },
		"has chosen another leader": func(_ *Brake, _ *looking, s *observeServer) { s.etcd.changes = 1 },
		"has 90 MiB, more than 80 % of its quota of 100 MiB": func(b *Brake, _ *looking, s *observeServer) { s.etcd.mib = 90; b.QuotaBytes = 1 },
		"1 of 2 nodes are no longer Ready, such as b":        func(_ *Brake, _ *looking, s *observeServer) { s.b = "Unknown" },
	} {
		s := &observeServer{b: "True"}
		http := httptest.NewServer(s)
		base, err := url.Parse(http.URL)
		if err != nil {
			t.Fatal(err)
		}
		member := MemberOf(http.URL, pageAt(http.URL+"/etcd"))
		b := &Brake{Server: cluster.New(base, http.Client().Transport), QuotaBytes: 1 << 30, Members: []*Member{member}}
		before := &page{quota: 100 << 20, fsync: map[float64]float64{0.001: 1000, 1: 1000, 2: 1000, math.Inf(1): 1000}, leader: true, leaderChanges: 3}
		l := looking{last: sample(t, 1000, 0), members: []observeSeen{{first: before, last: before}}}
		if l.ready, l.err = b.ready(t.Context()); l.err != nil {
			t.Fatal(l.err)
		}
		set(b, &l, s)
		b.look(t.Context(), &l)
		http.Close()
		if x := b.Etcd(); len(x) != 1 || x[0].FsyncN != 1000 || x[0].QuotaBytes != 100<<20 || x[0].Member != http.URL {
			t.Errorf("%q: of etcd: %+v", want, x)
		}
		if err := b.Check(); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v", want, err)
		}
	}
}

// TestNoQuota tests that a member that reports -1 has no quota: the brake uses no other quota for
// it, and a second member's quota applies to the cluster.
func TestNoQuota(t *testing.T) {
	s := &observeServer{b: "True"}
	http := httptest.NewServer(s)
	defer http.Close()
	base, err := url.Parse(http.URL)
	if err != nil {
		t.Fatal(err)
	}
	of := func(quota string) *Member {
		return MemberOf(quota, func(context.Context) (string, error) {
			return "etcd_server_has_leader 1\netcd_mvcc_db_total_size_in_bytes 9e9\netcd_server_quota_backend_bytes " + quota + "\n", nil
		})
	}
	none, some, more := of("-1"), of("8.589934592e+09"), of("1.6e+10")
	b := &Brake{Server: cluster.New(base, http.Client().Transport), QuotaBytes: 1, Members: []*Member{none}}
	page, err := none.look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	l := looking{last: sample(t, 1000, 0), members: []observeSeen{{first: page, last: page}}}
	b.look(t.Context(), &l)
	if err := b.Check(); err != nil {
		t.Errorf("without a quota: %v", err)
	}
	for want, members := range map[int64][]*Member{-1: {none}, 8 << 30: {none, more, some}, 16e9: {more, none}} {
		if size, quota := Database(t.Context(), b.Server, members); size != 9e9 || quota != want {
			t.Errorf("%d bytes, quota %d, want %d", size, quota, want)
		}
	}
}

type observeServer struct {
	slow int
	b    string
	etcd struct {
		slow, changes, mib int // slow of 1000 writes of the log since the first look
		lost               bool
	}
}

func (s *observeServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/etcd" {
		e := &s.etcd
		for _, x := range []struct {
			le string
			n  int
		}{{"0.001", 2000 - e.slow}, {"1", 2000 - e.slow}, {"2", 2000}, {"+Inf", 2000}} {
			fmt.Fprintf(w, "etcd_disk_wal_fsync_duration_seconds_bucket{le=%q} %d\n", x.le, x.n)
		}
		leader := 1
		if e.lost {
			leader = 0
		}
		fmt.Fprintf(w, "etcd_server_has_leader %d\netcd_server_leader_changes_seen_total %d\netcd_server_quota_backend_bytes 1.048576e+08\netcd_mvcc_db_total_size_in_bytes %d\n", leader, 3+e.changes, e.mib<<20)
		return
	}
	if r.URL.Path == "/metrics" {
		fmt.Fprint(w, ofServer(1100, s.slow))
		return
	}
	fmt.Fprintf(w, `{"items":[{"metadata":{"name":"a"},"status":{"conditions":[{"type":"Ready","status":"True"}]}},{"metadata":{"name":"b"},"status":{"conditions":[{"type":"Ready","status":"%s"}]}}]}`, s.b)
}

// TestMembers tests that members whose metrics other machines can read are found, and queried
// through the API server.
func TestMembers(t *testing.T) {
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/api/v1/namespaces/kube-system/pods":
			fmt.Fprint(w, `{"items":[
				{"metadata":{"name":"etcd-a","namespace":"kube-system"},"spec":{"containers":[{"command":["etcd","--listen-metrics-urls=http://127.0.0.1:2381,http://10.0.0.1:2382"]}]}},
				{"metadata":{"name":"etcd-b","namespace":"kube-system"},"spec":{"containers":[{"command":["etcd"],"args":["--listen-metrics-urls","http://127.0.0.1:2381"]}]}},
				{"metadata":{"name":"etcd-c","namespace":"kube-system"},"spec":{"containers":[{"command":["etcd","--listen-metrics-urls","https://10.0.0.1:2381"]}]}}]}`)
		case "/api/v1/namespaces/kube-system/pods/http:etcd-a:2382/proxy/metrics":
			fmt.Fprint(w, "etcd_server_has_leader 1\n")
		default:
			w.WriteHeader(http.StatusForbidden)
		}
	}))
	defer h.Close()
	base, err := url.Parse(h.URL)
	if err != nil {
		t.Fatal(err)
	}
	all := Members(t.Context(), cluster.New(base, h.Client().Transport))
	if len(all) != 1 || all[0].Name != "pod etcd-a" {
		t.Fatalf("%+v", all)
	}
	if p, err := all[0].look(t.Context()); err != nil || !p.leader {
		t.Errorf("%+v %v", p, err)
	}
	for name, read := range map[string]func(context.Context) (string, error){"403": pageAt(h.URL), "; check that this is the address of etcd": func(context.Context) (string, error) { return "up 1", nil }} {
		if err := MemberOf("x", read).Check(t.Context()); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v, want %s", err, name)
		}
	}
	if err := all[0].Check(t.Context()); err != nil {
		t.Error(err)
	}
}

// pageAt reads a page as the caller's member does.
func pageAt(address string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
		if err != nil {
			return "", err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return "", errors.New(resp.Status)
		}
		text, err := io.ReadAll(resp.Body)
		return string(text), err
	}
}

func FuzzObserveParse(f *testing.F) {
	f.Add([]byte(ofServer(3, 4)))
	f.Add([]byte(`apiserver_request_duration_seconds_bucket{verb="\`))
	f.Fuzz(func(t *testing.T, text []byte) {
		x, err := Parse(strings.NewReader(string(text)))
		if err == nil {
			Compare(&Sample{}, x)
		}
	})
}
