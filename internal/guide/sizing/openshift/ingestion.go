// ingestion measures how much a running Prometheus takes in and what that
// costs it, so that the next one can be sized by it.

package openshift

import (
	"context"
	"fmt"
	"time"

	"fettle.dev/fettle/internal/prometheus"
)

// Usage is what a server takes in and needs.
type Usage struct {
	// Series are those in memory now.
	Series float64
	// SamplesPerSecond is the rate, 1/s.
	SamplesPerSecond float64
	// BytesPerSample is what a sample needs on disk, bytes.
	BytesPerSample float64
	// BytesFrom says how BytesPerSample was found.
	BytesFrom string
	// Resident is the memory of the process, bytes; 0 where nothing says it.
	Resident float64
	// Retention is how long samples are kept, as the server says it; "" where it does
	// not.
	Retention string
	// Nodes and Pods of the cluster that it watches; 0 where it watches none.
	Nodes, Pods float64
}

// Disk is what samples of a time need, in bytes.
func (u *Usage) Disk(keep time.Duration) float64 {
	return keep.Seconds() * u.SamplesPerSecond * u.BytesPerSample
}

// assumed is taken where no block was compacted yet: the upper end of the 1 to 2
// bytes that https://prometheus.io/docs/prometheus/latest/storage/ gives.
const assumed = 2

const appended = "prometheus_tsdb_head_samples_appended_total"

// rate is over ten minutes, or over the time since the server started: rate
// divides by all of its window, also where there are samples of a part of it only,
// and a server that is a minute old would seem to take in a tenth.
const rate = "max(sum by (instance) (increase(" + appended + "[10m])) / on (instance) clamp_max(max by (instance) (time() - process_start_time_seconds), 600))"

// patience is the time that all questions have together.
const patience = 30 * time.Second

// Measure asks for all of it, within half a minute. Series and ingestion have to be
// known; the rest is taken where it is there.
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
		own   string // the server's own metric, for one that does not watch itself
		need  string
	}{
		{&u.Series, "max(prometheus_tsdb_head_series)", "prometheus_tsdb_head_series", "how many series it has"},
		{&u.SamplesPerSecond, rate, "", "how many samples a second it takes in"},
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
			return nil, fmt.Errorf("%s does not say %s: have it watch itself (a scrape job for its own /metrics), or name the Prometheus that does", s.Host(), q.need)
		}
	}
	u.BytesFrom = "measured over the blocks compacted in a day"
	if u.BytesPerSample <= 0 {
		u.BytesPerSample, u.BytesFrom = assumed, "not measured, as no block was compacted yet: the upper end of what its documents say"
		if own["prometheus_tsdb_compaction_chunk_samples_sum"] > 0 {
			u.BytesPerSample = own["prometheus_tsdb_compaction_chunk_size_bytes_sum"] / own["prometheus_tsdb_compaction_chunk_samples_sum"]
			u.BytesFrom = "measured over the blocks compacted since it started"
		}
	}
	u.Retention = s.Retention(ctx)
	return u, nil
}

// sinceStart is the ingestion from the server's own counters: the mean since it
// started.
func sinceStart(own map[string]float64) (float64, bool) {
	total, ok := own[appended]
	started := own["process_start_time_seconds"]
	seconds := float64(time.Now().Unix()) - started
	if !ok || started <= 0 || seconds < 1 {
		return 0, false
	}
	return total / seconds, true
}
