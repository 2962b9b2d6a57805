package openshift

import (
	"context"
	"fmt"
	"time"

	"fettle.dev/fettle/internal/prometheus"
)

// Usage is the ingestion of a running Prometheus and the resources used for it.
type Usage struct {
	Series           float64 // in memory now
	SamplesPerSecond float64
	BytesPerSample   float64 // on disk
	BytesFrom        string  // how BytesPerSample was determined
	Resident         float64 // bytes of memory of the process; 0 if unknown
	Retention        string  // as the server reports it, or ""
	Nodes, Pods      float64 // of the monitored cluster; 0 if unknown
}

// Disk returns the bytes that the samples of a retention period need.
func (u *Usage) Disk(keep time.Duration) float64 {
	return keep.Seconds() * u.SamplesPerSecond * u.BytesPerSample
}

// assumed is BytesPerSample before the first compaction: the upper end of the documented 1 to 2
// bytes (https://prometheus.io/docs/prometheus/latest/storage/).
const assumed = 2

const appended = "prometheus_tsdb_head_samples_appended_total"

// rate is the query for the ingestion over ten minutes, or since the server started. PromQL's rate
// divides by the whole window even if samples cover only part of it: for a server that is a minute
// old it would report a tenth.
const rate = "max(sum by (instance) (increase(" + appended + "[10m])) / on (instance) clamp_max(max by (instance) (time() - process_start_time_seconds), 600))"

// patience is the time limit of all queries together.
const patience = 30 * time.Second

// Measure queries a server within half a minute. Series and ingestion are required; all else is
// optional.
func Measure(ctx context.Context, s *prometheus.Server) (*Usage, error) {
	return measureIngestion(ctx, s, patience)
}

func measureIngestion(ctx context.Context, s *prometheus.Server, patience time.Duration) (*Usage, error) {
	ctx, stop := prometheus.WithTimeout(ctx, patience)
	defer stop()
	own := map[string]float64(nil)
	u := &Usage{}
	for _, q := range []struct {
		to    *float64
		query string
		own   string // the metric in the server's own /metrics, if it does not scrape itself
		need  string
	}{
		{&u.Series, "max(prometheus_tsdb_head_series)", "prometheus_tsdb_head_series", "its number of series"},
		{&u.SamplesPerSecond, rate, "", "its samples per second"},
		{&u.Resident, `max(process_resident_memory_bytes{job=~".*prometheus.*"})`, "process_resident_memory_bytes", ""},
		{&u.BytesPerSample, "sum(rate(prometheus_tsdb_compaction_chunk_size_bytes_sum[1d])) / sum(rate(prometheus_tsdb_compaction_chunk_samples_sum[1d]))", "", ""},
		{&u.Nodes, "count(kube_node_info)", "", ""},
		{&u.Pods, "count(kube_pod_info)", "", ""},
	} {
		v, known, err := s.Query(ctx, q.query)
		if err == nil && !known && q.query == rate {
			v, known, err = s.Query(ctx, "max(sum by (instance) (rate("+appended+"[10m])))")
		}
		if err != nil {
			return nil, err
		}
		known = known && v >= 0
		if !known && own == nil {
			own = s.OwnMetrics(ctx)
		}
		if !known && q.own != "" {
			v, known = own[q.own]
		}
		if !known && q.to == &u.SamplesPerSecond {
			v, known = sinceStart(own)
		}
		switch {
		case known:
			*q.to = v
		case q.need != "":
			return nil, fmt.Errorf("%s does not report %s: add a scrape job for its own /metrics, or use the Prometheus that scrapes it", s.Host(), q.need)
		}
	}
	u.BytesFrom = "measured over the blocks compacted in one day"
	if u.BytesPerSample <= 0 {
		u.BytesPerSample, u.BytesFrom = assumed, "not measured, because no block was compacted yet: upper end of the documented range"
		if own["prometheus_tsdb_compaction_chunk_samples_sum"] > 0 {
			u.BytesPerSample = own["prometheus_tsdb_compaction_chunk_size_bytes_sum"] / own["prometheus_tsdb_compaction_chunk_samples_sum"]
			u.BytesFrom = "measured over the blocks compacted since it started"
		}
	}
	u.Retention = s.Retention(ctx)
	return u, nil
}

// sinceStart returns the mean ingestion since the server started, from its own counters.
func sinceStart(own map[string]float64) (float64, bool) {
	total, ok := own[appended]
	started := own["process_start_time_seconds"]
	seconds := float64(time.Now().Unix()) - started
	if !ok || started <= 0 || seconds < 1 {
		return 0, false
	}
	return total / seconds, true
}
