package etcd

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product"
	"fettle.dev/fettle/internal/prometheus"
)

// answer is the report of a running member.
type answer struct {
	Process product.Process `json:"process"` // 0 for a member in a container
	// Env has the ETCD_ variables with which the member was started, by option. Whole is false if
	// they cannot be read.
	Env   map[string]string `json:"env"`
	Whole bool              `json:"whole"`
	// Taken is true if the member was started after the last change of its configuration file.
	Taken bool `json:"taken"`
	// Healthy is the member's response to /health. Silent is the reason for a missing response.
	// Guarded is true if the member rejects this client's certificate.
	Healthy string             `json:"healthy"`
	Silent  string             `json:"silent,omitempty"`
	Guarded bool               `json:"guarded,omitempty"`
	Version string             `json:"version"`
	Values  map[string]float64 `json:"values"` // metrics by name
	// Percentiles has the histograms' 99th percentiles by their short names.
	Percentiles map[string]percentile `json:"p99_buckets"`
	// now is the time of the query, in seconds since the epoch.
	now float64
}

// kept lists the metrics that an answer keeps.
var kept = []string{
	"etcd_mvcc_db_total_size_in_bytes", "etcd_debugging_mvcc_db_total_size_in_bytes", "etcd_mvcc_db_total_size_in_use_in_bytes", "etcd_server_quota_backend_bytes",
	"etcd_server_has_leader", "etcd_server_leader_changes_seen_total", "etcd_server_proposals_failed_total", "etcd_server_slow_apply_total",
	"process_start_time_seconds", "process_resident_memory_bytes", "process_open_fds", "process_max_fds",
}

// histograms maps the metrics of histograms to their names in Percentiles.
var histograms = map[string]string{
	"etcd_disk_wal_fsync_duration_seconds": "fsync", "etcd_disk_backend_commit_duration_seconds": "commit", "etcd_network_peer_round_trip_time_seconds": round,
}

// question queries the member of an instance; the error is product.ErrStopped if none runs.
func question(ctx context.Context, h *host.Host, in *instance) (*answer, error) {
	a, err := host.QueryJSON(ctx, h, "etcd "+in.Name, func(ctx context.Context, live *host.Host) (*answer, error) { return query(ctx, live, in) })
	if err == nil {
		a.now = float64(h.Clock.Now().UnixNano()) / 1e9
	}
	return a, err
}

// started returns an answer with the process and the variables of a running member.
func started(ctx context.Context, h *host.Host, in *instance) (*answer, error) {
	a := &answer{Env: map[string]string{}, Values: map[string]float64{}, Percentiles: map[string]percentile{}}
	if !in.pod() {
		p, err := product.OfService(ctx, h, "etcd", in.unit.Name)
		if err != nil {
			return nil, err
		}
		a.Process = p
		if b, err := h.Files.ReadFile(fmt.Sprintf("/proc/%d/environ", p.PID)); err == nil {
			a.Whole = true
			for v := range strings.SplitSeq(string(b), "\x00") {
				if name, value, ok := strings.Cut(v, "="); ok && strings.HasPrefix(name, "ETCD_") {
					a.Env[option(name)] = value
				}
			}
		}
		changed := product.Changed(ctx, h, in.Main, in.files)
		a.Taken = product.Group{Main: p, Changed: changed}.TakenAtStart() == product.Yes
	}
	return a, nil
}

func query(ctx context.Context, h *host.Host, in *instance) (*answer, error) {
	a, err := started(ctx, h, in)
	if err != nil {
		return nil, err
	}
	by := newAsker(h, in, a)
	defer by.close()
	page, err := by.get(ctx, "/metrics")
	if err != nil {
		a.Silent, a.Guarded = err.Error(), guarded(err)
		return a, nil
	}
	m := prometheus.ParseMetrics(page)
	for _, name := range kept {
		if v, ok := m.Values[name]; ok {
			a.Values[name] = v
		}
	}
	for name, short := range histograms {
		a.Percentiles[short] = percentileOf(short, m.Histograms[name])
	}
	a.Version = m.Labels["etcd_server_version"]["server_version"]
	health, err := by.get(ctx, "/health")
	var said struct {
		Health string `json:"health"`
		Reason string `json:"reason"`
	}
	if json.Unmarshal([]byte(health), &said) == nil && said.Health != "" {
		a.Healthy = strings.TrimSpace(said.Health + " " + said.Reason)
	} else if err != nil {
		a.Healthy = err.Error()
	}
	return a, nil
}

// value returns an option's value from the member's start, or the reason that it is unknown.
func (a *answer) value(in *instance, name string) (text, unknown string) {
	switch {
	case in.pod():
		return "", "etcd runs in a container"
	case in.config != nil && !a.Taken:
		return "", "the configuration file of etcd was changed after its start, and etcd does not report its values"
	case in.config != nil:
		if in.unread != "" {
			return "", in.unread
		}
		return in.config.values[name].text, ""
	}
	flags, _ := readFlags(a.Process.Argv, "")
	if t, ok := flags[name]; ok {
		return t.text, ""
	}
	if !a.Whole {
		return "", "the environment of etcd cannot be read"
	}
	return a.Env[name], ""
}
