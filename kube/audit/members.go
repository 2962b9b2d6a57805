package audit

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"fettle.dev/fettle/internal/guide/platform"
	"fettle.dev/fettle/internal/stats"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/kube/etcd"
)

// ofEtcd is the set of inputs that rules for an etcd member on a machine use too.
const ofEtcd = "etcd"

// etcd sets the answers about the etcd members.
func (c *Cluster) etcd(a *platform.Known) {
	if why := c.Unread[OfEtcd]; why != "" || len(c.Members) == 0 {
		for _, set := range []string{ofEtcd, platform.Members, platform.Peers} {
			a.Unlisted(set, cmp.Or(why, "the etcd members were not queried"))
		}
		return
	}
	for _, m := range c.Members {
		a.Add(ofEtcd, m.URL)
		a.Add(platform.Members, m.URL)
		if m.Silent != nil {
			for _, input := range append(slices.Clone(metered), "healthy", "members") {
				a.Unclear(ofEtcd+"."+m.URL+"."+input, m.URL, m.Silent.Error())
			}
			for _, what := range []string{"fsync", "commit"} {
				unclear(a, platform.Members+"."+m.URL+"."+what, "", m.URL, m.Silent.Error())
			}
			a.Add(platform.Peers, m.URL)
			unclear(a, platform.Peers+"."+m.URL+".round_trip", platform.Peers+"."+m.URL, m.URL, m.Silent.Error())
			continue
		}
		c.member(a, &m)
		c.histograms(a, &m)
		c.peers(a, &m)
	}
}

// metered are the inputs of etcd rules that are answered from metrics.
var metered = []string{"db_bytes", "db_in_use_bytes", "quota_bytes", "leader_changes", "uptime_s", "has_leader", "open_files", "open_files_limit"}

// member sets the answers about one member; rules for a member on a machine use the same inputs.
func (c *Cluster) member(a *platform.Known, m *etcd.Look) {
	in, at := ofEtcd+"."+m.URL, m.URL+"/metrics"
	give := func(input string, read func(float64) any, names ...string) {
		for _, name := range names {
			if v, ok := m.Page.Values[name]; ok {
				a.Give(in+"."+input, read(v), at)
				return
			}
		}
		a.Unclear(in+"."+input, at, "the member's metrics do not contain "+names[0])
	}
	plain := func(v float64) any { return v }
	give("db_bytes", plain, "etcd_mvcc_db_total_size_in_bytes", "etcd_debugging_mvcc_db_total_size_in_bytes") // the second name is that of etcd up to 3.3
	give("db_in_use_bytes", plain, "etcd_mvcc_db_total_size_in_use_in_bytes")
	give("quota_bytes", plain, "etcd_server_quota_backend_bytes")
	give("has_leader", func(v float64) any { return v == 1 }, "etcd_server_has_leader")
	give("leader_changes", func(v float64) any { return max(0, v-1) }, "etcd_server_leader_changes_seen_total") // the first change is the election at start
	give("uptime_s", func(v float64) any { return max(0, float64(c.Now.UnixNano())/float64(time.Second)-v) }, "process_start_time_seconds")
	give("open_files", plain, "process_open_fds")
	give("open_files_limit", plain, "process_max_fds")
	if m.Unwell != nil {
		a.Unclear(in+".healthy", m.URL+"/health", m.Unwell.Error())
	} else {
		a.Give(in+".healthy", m.Healthy, m.URL+"/health")
	}
	if len(m.Peers) > 0 {
		a.Give(in+".members", float64(len(m.Peers)), m.URL)
	} else {
		a.Unclear(in+".members", m.URL, "no member list at this address")
	}
}

// histograms sets the answers about a member's disk latencies. Too few observations give an unknown
// 99th percentile.
func (c *Cluster) histograms(a *platform.Known, m *etcd.Look) {
	for what, name := range map[string]string{"fsync": "etcd_disk_wal_fsync_duration_seconds", "commit": "etcd_disk_backend_commit_duration_seconds"} {
		in := platform.Members + "." + m.URL + "." + what
		b, n, err := p99(m.Page.Histograms[name][""])
		switch {
		case err != nil:
			unclear(a, in, "", m.URL, fmt.Sprintf("%s: %v", name, err))
		case n < stats.MinForP99:
			unclear(a, in, "", m.URL, text.Sprintf("measurements since the member's start: %d, needed: %d", n, stats.MinForP99))
		default:
			bucket(a, in, in+"_", m.URL, b, n)
		}
	}
}

// peers sets the answers about a member's round-trip times to its peers, and the number of
// observations.
func (c *Cluster) peers(a *platform.Known, m *etcd.Look) {
	const name = "etcd_network_peer_round_trip_time_seconds"
	for to, buckets := range m.Page.Histograms[name] {
		item := m.URL + " to " + c.peerName(m, to)
		a.Add(platform.Peers, item)
		in := platform.Peers + "." + item
		b, n, err := p99(buckets)
		switch {
		case err != nil:
			unclear(a, in+".round_trip", in, m.URL, fmt.Sprintf("%s: %v", name, err))
		case n == 0:
			unclear(a, in+".round_trip", in, m.URL, "no measurements since the member's start")
		default:
			bucket(a, in+".round_trip", in+".", m.URL, b, n)
		}
	}
}

// peerName returns the name of the member with an ID in a metric.
func (c *Cluster) peerName(m *etcd.Look, id string) string {
	for _, p := range m.Peers {
		if fmt.Sprintf("%x", p.ID) == id {
			return cmp.Or(p.Name, id)
		}
	}
	return id
}

func p99(buckets map[float64]float64) (stats.HistogramBucket, int64, error) {
	if len(buckets) == 0 {
		return stats.HistogramBucket{}, 0, fmt.Errorf("metric missing")
	}
	return stats.Histogram(buckets).P99()
}

// bucket sets two answers from a percentile's bucket: text under words, and bounds under prefix.
func bucket(a *platform.Known, words, prefix, at string, b stats.HistogramBucket, n int64) {
	a.Give(words, b.P99Of(n), at+"/metrics")
	a.Give(prefix+"above_s", b.Low, at+"/metrics")
	high := b.High
	if math.IsInf(high, 0) {
		high = 0
	}
	a.Give(prefix+"at_most_s", high, at+"/metrics")
}

// unclear makes the answers about a percentile unknown, with a reason.
func unclear(a *platform.Known, words, prefix, at, why string) {
	if prefix == "" {
		prefix = words + "_"
	} else {
		prefix += "."
	}
	for _, input := range []string{words, prefix + "above_s", prefix + "at_most_s"} {
		a.Unclear(input, at, why)
	}
}
