package etcd

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func work(members []*Member) *Work {
	return &Work{Members: members, Settle: time.Minute, Look: 5 * time.Millisecond, Calm: 20 * time.Millisecond}
}

// Databases of three members, in MiB: 400 with 300 free each.
var fragmented = [][2]uint64{{400, 100}, {400, 100}, {400, 100}}

// TestOrder: history is compacted, members are taken one by one, the leader last, also
// where another leads by then, and those below the limits are left alone.
func TestOrder(t *testing.T) {
	for name, c := range map[string]struct {
		sizes   [][2]uint64
		compact bool
		change  func(*fakeCluster)
		want    string
	}{
		"the leader is last":        {fragmented, false, nil, "m1 m2 m0"},
		"with compaction":           {fragmented, true, nil, "compact 4242 m1 m2 m0"},
		"one is below the limits":   {[][2]uint64{{400, 100}, {400, 390}, {400, 100}}, false, nil, "m2 m0"},
		"much, but a small share":   {[][2]uint64{{4000, 3000}, {4000, 3000}, {4000, 3000}}, false, nil, ""},
		"a large share of little":   {[][2]uint64{{50, 1}, {50, 1}, {50, 1}}, false, nil, ""},
		"only compaction makes it":  {[][2]uint64{{400, 390}, {400, 390}, {400, 390}}, true, func(c *fakeCluster) { c.compacts = 300 << 20 }, "compact 4242 m1 m2 m0"},
		"another leads meanwhile":   {fragmented, false, func(c *fakeCluster) { c.after = func(*fakeMember) { c.leader = 0xa2 } }, "m1 m0 m2"},
		"one alone":                 {fragmented[:1], false, nil, "m0"},
		"no room is left":           {fragmented, false, func(c *fakeCluster) { c.alarms = []string{"NOSPACE"} }, "m1 m2 m0"},
		"no room, as a member says": {fragmented, false, func(c *fakeCluster) { c.alarms, c.members[0].errors = []string{"NOSPACE"}, []string{"alarm:NOSPACE"} }, "m1 m2 m0"},
	} {
		t.Run(name, func(t *testing.T) {
			cluster, members := newCluster(t, c.sizes...)
			if c.change != nil {
				c.change(cluster)
			}
			p, err := Make(t.Context(), members, Default, c.compact)
			if err != nil {
				t.Fatal(err)
			}
			if last := p.Steps[len(p.Steps)-1]; !last.Leader || p.NoSpace != (len(cluster.alarms) > 0) {
				t.Errorf("%+v", p)
			}
			r, err := work(members).Run(t.Context(), p)
			if err != nil || len(r.Left) != 0 || len(r.Done) != len(members) || r.Compacted != c.compact {
				t.Errorf("%+v, %v", r, err)
			}
			if got := strings.Join(cluster.did, " "); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
			for _, d := range r.Done {
				if (d.Skipped == "") != (d.AfterBytes < d.BeforeBytes) {
					t.Errorf("%+v", d)
				}
			}
		})
	}
}

// TestRefused: where a member that stands still could cost the quorum, nothing is done.
func TestRefused(t *testing.T) {
	for want, change := range map[string]func(*fakeCluster, []*Member) []*Member{
		"reports that it is unhealthy: NO LEADER": func(c *fakeCluster, m []*Member) []*Member { c.members[1].ill = true; return m },
		"answers 503 Service Unavailable":         func(c *fakeCluster, m []*Member) []*Member { c.members[2].mute = true; return m },
		"has no leader":                           func(c *fakeCluster, m []*Member) []*Member { c.leader = 0; return m },
		"member m2 (http://127.0.0.1:":            func(_ *fakeCluster, m []*Member) []*Member { return m[:2] },
		"member far (https://10.0.0.9:2379)":      func(c *fakeCluster, m []*Member) []*Member { c.unlisted = []string{"far"}; return m },
		"belong to different clusters":            func(c *fakeCluster, m []*Member) []*Member { c.members[2].cluster = 0xd; return m },
		"are the same member; name each once":     func(c *fakeCluster, m []*Member) []*Member { c.members[2].id = c.members[1].id; return m },
		"the cluster has the alarm CORRUPT":       func(c *fakeCluster, m []*Member) []*Member { c.alarms = []string{"CORRUPT"}; return m },
		"says: etcdserver: not capable of answering": func(c *fakeCluster, m []*Member) []*Member {
			c.members[0].errors = []string{"etcdserver: not capable of answering"}
			return m
		},
		"the cluster has the alarm CORRUPT; fix its cause first": func(c *fakeCluster, m []*Member) []*Member { c.alarms = []string{"NOSPACE", "CORRUPT"}; return m },
	} {
		cluster, members := newCluster(t, fragmented...)
		_, err := Make(t.Context(), change(cluster, members), Default, true)
		var refused *Refused
		if !errors.As(err, &refused) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		if len(cluster.did) > 0 {
			t.Errorf("%s: %v was done", want, cluster.did)
		}
	}
	if _, err := Make(t.Context(), nil, Default, true); err == nil {
		t.Error("no member at all is taken")
	}
}

// TestStopped: a cluster that is not well again after a member is left as it is, and what
// was not reached is told.
func TestStopped(t *testing.T) {
	for name, after := range map[string]func(*fakeCluster, *fakeMember){
		"another is ill": func(c *fakeCluster, _ *fakeMember) { c.members[2].ill = true },
		"it is behind":   func(_ *fakeCluster, m *fakeMember) { m.applied = 10 },
		"no leader":      func(c *fakeCluster, _ *fakeMember) { c.leader = 0 },
		"an alarm":       func(c *fakeCluster, _ *fakeMember) { c.alarms = []string{"CORRUPT"} },
	} {
		t.Run(name, func(t *testing.T) {
			cluster, members := newCluster(t, fragmented...)
			p, err := Make(t.Context(), members, Default, true)
			if err != nil {
				t.Fatal(err)
			}
			cluster.after = func(m *fakeMember) { after(cluster, m) }
			w := work(members)
			w.Settle = 60 * time.Millisecond
			r, err := w.Run(t.Context(), p)
			if !errors.Is(err, ErrStopped) || !strings.Contains(err.Error(), "not healthy again after 60ms") {
				t.Errorf("%v", err)
			}
			if diff := cmp.Diff([]string{"compact 4242", "m1"}, cluster.did); diff != "" {
				t.Error(diff)
			}
			if len(r.Left) != 3 || !r.Compacted || len(r.Done) != 0 {
				t.Errorf("%+v", r)
			}
		})
	}
	// It gets well in time.
	cluster, members := newCluster(t, fragmented...)
	p, err := Make(t.Context(), members, Default, false)
	if err != nil {
		t.Fatal(err)
	}
	cluster.after = func(m *fakeMember) {
		m.ill = true
		time.AfterFunc(20*time.Millisecond, func() {
			cluster.mu.Lock()
			defer cluster.mu.Unlock()
			m.ill = false
		})
	}
	if r, err := work(members).Run(t.Context(), p); err != nil || len(r.Left) != 0 {
		t.Errorf("%+v %v", r, err)
	}
	// An interruption is heeded between members, not within one.
	cluster, members = newCluster(t, fragmented...)
	ctx, stop := context.WithCancel(t.Context())
	cluster.after = func(*fakeMember) { stop() }
	r, err := work(members).Run(ctx, p)
	if !errors.Is(err, context.Canceled) || len(cluster.did) != 1 || len(r.Done) != 1 || len(r.Left) != 2 {
		t.Errorf("%v: %v, %+v", cluster.did, err, r)
	}
}

func TestOpen(t *testing.T) {
	for url, want := range map[string]string{
		"https://10.0.0.1:2379": "", "http://[::1]:2379": "", "https://10.0.0.1:2379/": "",
		"10.0.0.1:2379": "is not a member address", "https://10.0.0.1": "is not a member address", "ftp://10.0.0.1:1": "is not a member address", "https://a:1/v3": "want only scheme, host and port",
		"https://u:p@a:1": "want only scheme, host and port", "https://a:1?x": "want only scheme, host and port", "https://:2379": "is not a member address",
	} {
		_, err := Open([]string{url}, Access{})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", url, err, want)
		}
	}
	for want, a := range map[string]Access{"want both a client certificate and its key": {Cert: []byte("x")}, "no certificate in PEM": {CA: []byte("x")}, "the certificate: ": {Cert: []byte("x"), Key: []byte("y")}} {
		if _, err := Open([]string{"https://a:1"}, a); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if _, err := Open([]string{"http://a:1", "http://a:1/"}, Access{}); err == nil || !strings.Contains(err.Error(), "named twice") {
		t.Error(err)
	}
	gone, err := Open([]string{"http://127.0.0.1:1"}, Access{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := gone[0].Status(t.Context()); err == nil || !strings.Contains(err.Error(), "nothing listens at http://127.0.0.1:1") {
		t.Error(err)
	}
}

func TestAnswers(t *testing.T) {
	s, err := parseStatus([]byte(`{"header":{"cluster_id":"14841639068965178418","member_id":"10276657743932975437","revision":"12","raft_term":"2"},"version":"3.4.23","dbSize":"20480","leader":"10276657743932975437","raftIndex":"9","raftTerm":"2","raftAppliedIndex":"9","dbSizeInUse":"16384"}`))
	if err != nil || s.Leader != s.Member || s.Member != 10276657743932975437 || s.DatabaseBytes != 20480 || s.InUseBytes != 16384 || s.Revision != 12 || s.Version != "3.4.23" {
		t.Errorf("%+v %v", s, err)
	}
	for _, text := range []string{`{}`, `[]`, `{"header":{"member_id":"-1","cluster_id":"1"}}`, `{"header":{"member_id":"1","cluster_id":"1"},"dbSize":"1","dbSizeInUse":"2"}`, `{"header":{"member_id":1.5,"cluster_id":"1"}}`} {
		if s, err := parseStatus([]byte(text)); err == nil {
			t.Errorf("%s is %+v", text, s)
		}
	}
	if _, _, err := parseHealth([]byte(`{"health":"maybe"}`)); err == nil {
		t.Error("maybe is an answer")
	}
	if _, err := parsePeers([]byte(`{}`)); err == nil {
		t.Error("no members are some")
	}
}

func FuzzAnswers(f *testing.F) {
	f.Add([]byte(`{"header":{"cluster_id":"1","member_id":"2"},"dbSize":"20480","dbSizeInUse":16384,"errors":["x"]}`))
	f.Add([]byte(`{"members":[{"ID":"1","name":"a","clientURLs":["http://a:1"]}]}`))
	f.Add([]byte(`{"health":"true","alarms":[{"alarm":"NOSPACE"},{}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if s, err := parseStatus(text); err == nil && (s.Member == 0 || s.InUseBytes > s.DatabaseBytes) {
			t.Errorf("%+v", s)
		}
		if p, err := parsePeers(text); err == nil && len(p) == 0 {
			t.Error("no members")
		}
		if all, err := parseAlarms(text); err == nil {
			for _, a := range all {
				if a == "" {
					t.Error("an alarm without a name")
				}
			}
		}
		if well, _, err := parseHealth(text); err != nil && well {
			t.Error("well, and not readable")
		}
	})
}
