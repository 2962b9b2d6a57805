package audit

import (
	"errors"
	"math"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/prometheus"
	"fettle.dev/fettle/kube/etcd"
)

const auditUrl = "https://10.0.0.1:2379"

// histogram returns a member's histogram with all observations in one bucket.
func histogram(n float64, below, bound float64) prometheus.Buckets {
	return prometheus.Buckets{below: 0, bound: n, 2 * bound: n, math.Inf(1): n}
}

// member returns a healthy member.
func member() etcd.Look {
	return etcd.Look{URL: auditUrl, Healthy: true, ID: 1, Peers: []etcd.Peer{{ID: 1, Name: "a"}, {ID: 0xb, Name: "b"}, {ID: 0xc, Name: "c"}}, Page: prometheus.Metrics{
		Values: map[string]float64{
			"etcd_mvcc_db_total_size_in_bytes": 300 << 20, "etcd_mvcc_db_total_size_in_use_in_bytes": 290 << 20, "etcd_server_quota_backend_bytes": 2 << 30,
			"etcd_server_has_leader": 1, "etcd_server_leader_changes_seen_total": 2, "process_start_time_seconds": 2e9 - 86400, "process_open_fds": 100, "process_max_fds": 65536,
		},
		Histograms: map[string]map[string]prometheus.Buckets{
			"etcd_disk_wal_fsync_duration_seconds":      {"": histogram(5000, 0.001, 0.002)},
			"etcd_disk_backend_commit_duration_seconds": {"": histogram(5000, 0.004, 0.008)},
			"etcd_network_peer_round_trip_time_seconds": {"b": histogram(4, 0.0128, 0.0256), "c": histogram(4, 0.0128, 0.0256)},
		},
	}}
}

func TestEtcd(t *testing.T) {
	well := map[string]rule.State{
		"E04 " + auditUrl: rule.Passed, "E07 " + auditUrl: rule.Passed, "E08 " + auditUrl: rule.Passed, "E10 " + auditUrl: rule.Passed, "E10.fragments " + auditUrl: rule.Passed,
		"E11 " + auditUrl: rule.Passed, "E12 " + auditUrl: rule.Passed, "E01.buckets " + auditUrl: rule.Passed, "E02.buckets " + auditUrl: rule.Passed,
		"E09.buckets " + auditUrl + " to b": rule.Passed, "E09.buckets " + auditUrl + " to c": rule.Passed,
	}
	for name, c := range map[string]struct {
		change func(*etcd.Look)
		want   map[string]rule.State
	}{
		"well": {func(*etcd.Look) {}, nil},
		"fsync in the bucket of the limit": {func(m *etcd.Look) {
			m.Page.Histograms["etcd_disk_wal_fsync_duration_seconds"][""] = histogram(5000, 0.008, 0.016)
		}, map[string]rule.State{"E01.buckets " + auditUrl: rule.Warned}},
		"fsync too slow": {func(m *etcd.Look) {
			m.Page.Histograms["etcd_disk_wal_fsync_duration_seconds"][""] = histogram(5000, 0.016, 0.032)
		}, map[string]rule.State{"E01.buckets " + auditUrl: rule.Failed}},
		"young": {func(m *etcd.Look) {
			m.Page.Histograms["etcd_disk_wal_fsync_duration_seconds"][""] = histogram(999, 0.016, 0.032)
		}, map[string]rule.State{"E01.buckets " + auditUrl: rule.Unknown}},
		"all round trips 26 ms": {func(m *etcd.Look) {
			m.Page.Histograms["etcd_network_peer_round_trip_time_seconds"]["b"] = histogram(240, 0.0256, 0.0512)
		}, map[string]rule.State{"E09.buckets " + auditUrl + " to b": rule.Warned}},
		"far apart": {func(m *etcd.Look) {
			m.Page.Histograms["etcd_network_peer_round_trip_time_seconds"]["b"] = histogram(4, 0.0512, 0.1024)
		}, map[string]rule.State{"E09.buckets " + auditUrl + " to b": rule.Failed}},
		"none measured yet": {func(m *etcd.Look) {
			m.Page.Histograms["etcd_network_peer_round_trip_time_seconds"]["b"] = histogram(0, 0.0512, 0.1024)
		}, map[string]rule.State{"E09.buckets " + auditUrl + " to b": rule.Unknown}},
		"hostile": {func(m *etcd.Look) {
			m.Page.Histograms["etcd_network_peer_round_trip_time_seconds"]["b"] = prometheus.Buckets{1: 5, 2: 3, math.Inf(1): 5}
			m.Page.Histograms["etcd_disk_wal_fsync_duration_seconds"][""] = prometheus.Buckets{1: 5}
		}, map[string]rule.State{"E09.buckets " + auditUrl + " to b": rule.Unknown, "E01.buckets " + auditUrl: rule.Unknown}},
		"fragments":   {func(m *etcd.Look) { m.Page.Values["etcd_mvcc_db_total_size_in_use_in_bytes"] = 30 << 20 }, map[string]rule.State{"E10.fragments " + auditUrl: rule.Warned}},
		"nearly full": {func(m *etcd.Look) { m.Page.Values["etcd_server_quota_backend_bytes"] = 310 << 20 }, map[string]rule.State{"E10 " + auditUrl: rule.Failed, "E04 " + auditUrl: rule.Warned}},
		"before 3.4": {func(m *etcd.Look) {
			delete(m.Page.Values, "etcd_mvcc_db_total_size_in_bytes")
			m.Page.Values["etcd_debugging_mvcc_db_total_size_in_bytes"] = 300 << 20
		}, nil},
		"restless":  {func(m *etcd.Look) { m.Page.Values["etcd_server_leader_changes_seen_total"] = 900 }, map[string]rule.State{"E07 " + auditUrl: rule.Warned}},
		"no leader": {func(m *etcd.Look) { m.Page.Values["etcd_server_has_leader"] = 0 }, map[string]rule.State{"E11 " + auditUrl: rule.Failed}},
		"ill":       {func(m *etcd.Look) { m.Healthy = false }, map[string]rule.State{"E11 " + auditUrl: rule.Failed}},
		"metrics only": {func(m *etcd.Look) { m.Peers, m.ID, m.Unwell = nil, 0, errors.New("404") },
			map[string]rule.State{"E08 " + auditUrl: rule.Unknown, "E11 " + auditUrl: rule.Unknown}},
		"two members": {func(m *etcd.Look) { m.Peers = m.Peers[:2] }, map[string]rule.State{"E08 " + auditUrl: rule.Warned, "E09.buckets " + auditUrl + " to c": ""}},
	} {
		t.Run(name, func(t *testing.T) {
			m := member()
			c.change(&m)
			got := judged(t, &Cluster{Members: []etcd.Look{m}}, nil)
			states := map[string]rule.State{}
			for id, s := range well {
				states[id] = s
			}
			for id, s := range c.want {
				if states[id] = s; s == "" {
					delete(states, id)
				}
			}
			want(t, got, states)
		})
	}
	if f := judged(t, &Cluster{Members: []etcd.Look{member()}}, nil)["E09.buckets "+auditUrl+" to b"]; f.Measured != "p99 of 4 between 12.8 and 25.6 ms" {
		t.Errorf("%v", f.Measured)
	}
	silent := judged(t, &Cluster{Members: []etcd.Look{{URL: auditUrl, Silent: errors.New("nothing listens")}}}, nil)
	for id := range well {
		if strings.HasPrefix(id, "E09") {
			id = "E09.buckets " + auditUrl
		}
		if f := silent[id]; f.State != rule.Unknown || !strings.Contains(f.Reason, "nothing listens") {
			t.Errorf("%s: %+v", id, f)
		}
	}
	// Nothing was asked: that is one thing to do, and nothing has passed.
	unasked := &Cluster{}
	unasked.Miss(OfEtcd, "--etcd-endpoints names them")
	none := judged(t, unasked, nil)
	for id, f := range none {
		if strings.HasPrefix(id, "E") {
			t.Errorf("%s: %s", id, f.State)
		}
	}
	if f := none["etcd"]; f.State != rule.Unknown || !strings.Contains(f.Reason, "--etcd-endpoints") {
		t.Errorf("%+v", f)
	}
}
