package agent

import (
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/kube/cluster"
	"fettle.dev/fettle/kube/tuned"
)

// Metrics are the agent's own metrics; those of client-go and the Go runtime are served too. They
// have no node label, because the scrape target identifies the node.
var Metrics = []cluster.Metric{
	{Name: "fettle_agent_profile_info", Type: "gauge", Labels: []string{"profile"}, Doc: "1 for the cluster's profile that is in force; absent without one"},
	{Name: "fettle_agent_values", Type: "gauge", Labels: []string{"verdict"}, Doc: "values of the profile in force, by verdict"},
	{Name: "fettle_agent_condition", Type: "gauge", Labels: []string{"condition", "status"}, Doc: "1 for the status of a condition: condition applied or degraded; status true, false or unknown"},
	{Name: "fettle_agent_change_waits", Type: "gauge", Doc: "1 while a change waits for the next boot of the node"},
	{Name: "fettle_agent_heard", Type: "gauge", Doc: "1 after the API server has reported the node's profile to the agent"},
	{Name: "fettle_agent_last_look_timestamp_seconds", Type: "gauge", Doc: "time of the last check of the node, in seconds since 1970"},
	{Name: "fettle_agent_look_duration_seconds", Type: "histogram", Doc: "duration of a check of the node, including its changes"},
	{Name: "fettle_agent_looks_total", Type: "counter", Labels: []string{"result"}, Doc: "checks of the node by result: done, failed, or busy if another transaction ran"},
	{Name: "fettle_agent_transactions_total", Type: "counter", Labels: []string{"action"}, Doc: "transactions on the node by action: apply, again (after a boot) or restore"},
	{Name: "fettle_agent_recovered_transactions_total", Type: "counter", Doc: "interrupted transactions that were undone"},
	{Name: "fettle_agent_report_failures_total", Type: "counter", Doc: "failed reports to the API server (status, values or an event), which are retried"},
}

// Results of a Look.
const (
	lookDone   = "done"
	lookFailed = "failed"
	lookBusy   = "busy"
)

// lookBounds are the histogram's bucket bounds in seconds. A Look without changes takes
// milliseconds; one that queries devices and restarts programs takes longer.
var lookBounds = []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60}

// tally holds the values of the metrics, collected on each scrape.
type tally struct {
	cluster.Described
	durations prometheus.Histogram

	mu           sync.Mutex
	heard        bool
	wanted       string
	last         Outcome
	at           time.Time // zero before the first Look
	looks        map[string]int
	transactions map[Action]int
	recovered    int
	unreported   int
}

func newTally() *tally {
	t := &tally{Described: cluster.Descriptions(Metrics), looks: map[string]int{}, transactions: map[Action]int{}}
	for _, m := range Metrics {
		if m.Type == "histogram" {
			t.durations = prometheus.NewHistogram(prometheus.HistogramOpts{Name: m.Name, Help: m.Doc, Buckets: lookBounds})
		}
	}
	return t
}

// looked records a finished Look and the profile that was requested then.
func (t *tally) looked(out Outcome, heard bool, wanted string, began, ended time.Time) {
	t.durations.Observe(ended.Sub(began).Seconds())
	t.mu.Lock()
	defer t.mu.Unlock()
	t.heard, t.wanted, t.at = heard, wanted, ended
	switch {
	case out.Busy:
		t.looks[lookBusy]++
	case out.Err != nil:
		t.looks[lookFailed]++
	default:
		t.looks[lookDone]++
	}
	if out.Tx != 0 {
		t.transactions[out.Decision.Action]++
	}
	t.recovered += len(out.Recovered)
	t.last = out
}

func (t *tally) notReported() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.unreported++
}

// Collect implements prometheus.Collector.
func (t *tally) Collect(out chan<- prometheus.Metric) {
	t.durations.Collect(out)
	t.mu.Lock()
	defer t.mu.Unlock()
	gauge := func(name string, v float64, labels ...string) { t.Gauge(out, name, v, labels...) }
	gauge("fettle_agent_heard", cluster.OneIf(t.heard))
	gauge("fettle_agent_change_waits", cluster.OneIf(t.last.Decision.Waits))
	if t.last.Profile != "" {
		gauge("fettle_agent_profile_info", 1, t.last.Profile)
	}
	for _, v := range plugin.Verdicts {
		n := 0
		if t.last.Values != nil {
			n = t.last.Values.Counts[v]
		}
		gauge("fettle_agent_values", float64(n), string(v))
	}
	if !t.at.IsZero() {
		gauge("fettle_agent_last_look_timestamp_seconds", float64(t.at.UnixMilli())/1000)
		for _, c := range Conditions(t.last, t.wanted) {
			for _, s := range []metav1.ConditionStatus{metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown} {
				gauge("fettle_agent_condition", cluster.OneIf(c.Status == s), strings.ToLower(string(c.Type)), strings.ToLower(string(s)))
			}
		}
	}
	for _, result := range []string{lookDone, lookFailed, lookBusy} {
		t.Counter(out, "fettle_agent_looks_total", t.looks[result], result)
	}
	for _, a := range []Action{Apply, Again, Restore} {
		t.Counter(out, "fettle_agent_transactions_total", t.transactions[a], string(a))
	}
	t.Counter(out, "fettle_agent_recovered_transactions_total", t.recovered)
	t.Counter(out, "fettle_agent_report_failures_total", t.unreported)
}

// wantedBy returns the profile that a Profile object names, or "".
func wantedBy(p *tuned.Profile) string {
	if p == nil {
		return ""
	}
	return p.Spec.Config.TunedProfile
}
