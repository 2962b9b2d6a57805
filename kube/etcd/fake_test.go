package etcd

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
)

// fakeCluster simulates members of etcd and their gateway.
type fakeCluster struct {
	mu      sync.Mutex
	members []*fakeMember
	leader  uint64
	// compacts is the number of bytes in each database that a compaction frees.
	compacts uint64
	did      []string // in order
	alarms   []string
	// after is called after each defragmentation, with the lock held.
	after func(*fakeMember)
	// unlisted are further members of the list.
	unlisted []string
}

// fakeMember is one member.
type fakeMember struct {
	id          uint64
	cluster     uint64
	size, inUse uint64
	applied     uint64
	ill         bool
	mute        bool
	errors      []string
	// looks is the number of queries until the member reports the freed space.
	looks int
	url   string
	of    *fakeCluster
}

// newCluster starts members with the given sizes of databases and of their used parts, in MiB. The
// first member leads.
func newCluster(t *testing.T, sizes ...[2]uint64) (*fakeCluster, []*Member) {
	t.Helper()
	c := &fakeCluster{leader: 0xa0}
	var urls []string
	for i, s := range sizes {
		m := &fakeMember{id: 0xa0 + uint64(i), cluster: 0xc, size: s[0] << 20, inUse: s[1] << 20, applied: 1000, of: c}
		server := httptest.NewServer(m)
		t.Cleanup(server.Close)
		m.url = server.URL
		c.members = append(c.members, m)
		urls = append(urls, server.URL)
	}
	members, err := Open(urls, Access{})
	if err != nil {
		t.Fatal(err)
	}
	return c, members
}

func (m *fakeMember) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := m.of
	c.mu.Lock()
	defer c.mu.Unlock()
	if m.mute {
		http.Error(w, `{"error":"etcdserver: request timed out","code":14}`, http.StatusServiceUnavailable)
		return
	}
	text := func(n uint64) string { return fmt.Sprint(n) }
	header := map[string]string{"cluster_id": text(m.cluster), "member_id": text(m.id), "revision": "4242"}
	answer := map[string]any{"header": header}
	switch r.URL.Path {
	case "/health":
		if m.ill || len(c.alarms) > 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprint(w, `{"health":"false","reason":"NO LEADER"}`)
			return
		}
		fmt.Fprint(w, `{"health":"true"}`)
		return
	case "/v3/maintenance/status":
		if m.looks--; m.looks == 0 {
			m.inUse -= min(m.inUse, c.compacts)
		}
		answer["version"], answer["dbSize"], answer["dbSizeInUse"] = "3.4.23", text(m.size), text(m.inUse)
		answer["raftIndex"], answer["raftAppliedIndex"] = text(m.applied), text(m.applied)
		if c.leader != 0 {
			answer["leader"] = text(c.leader) // what is 0 is left out
		}
		if len(m.errors) > 0 {
			answer["errors"] = m.errors
		}
	case "/v3/maintenance/alarm":
		var all []map[string]string
		for _, a := range c.alarms {
			all = append(all, map[string]string{"memberID": text(m.id), "alarm": a})
		}
		answer["alarms"] = all
	case "/v3/cluster/member/list":
		var all []map[string]any
		for i, o := range c.members {
			all = append(all, map[string]any{"ID": text(o.id), "name": fmt.Sprintf("m%d", i), "clientURLs": []string{o.url}})
		}
		for i, name := range c.unlisted {
			all = append(all, map[string]any{"ID": text(0xf0 + uint64(i)), "name": name, "clientURLs": []string{"https://10.0.0.9:2379"}})
		}
		answer["members"] = all
	case "/v3/kv/compaction":
		var asked struct {
			Revision string
			Physical bool
		}
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil || !asked.Physical {
			http.Error(w, "bad", http.StatusBadRequest)
			return
		}
		c.did = append(c.did, "compact "+asked.Revision)
		for i, o := range c.members { // each in the background, and at its next commit
			o.looks = 2 + i
		}
	case "/v3/maintenance/defragment":
		m.size = m.inUse
		c.did = append(c.did, fmt.Sprintf("m%d", slices.Index(c.members, m)))
		if c.after != nil {
			c.after(m)
		}
	default:
		http.NotFound(w, r)
		return
	}
	_ = json.NewEncoder(w).Encode(answer)
}
