package agent

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/testkit/root"
	"fettle.dev/fettle/kube/testkit"
)

// gather returns the metrics as name{label="value"} with their numbers.
func gather(t *testing.T, c prometheus.Collector) map[string]float64 {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	if err := r.Register(c); err != nil {
		t.Fatal(err)
	}
	all, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.NewWithMetricFamilies(all).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("Prometheus' rules for metrics: %v %v", problems, err)
	}
	out := map[string]float64{}
	for _, family := range all {
		for _, m := range family.Metric {
			var labels []string
			for _, l := range m.Label {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			name := family.GetName()
			if len(labels) > 0 {
				name += "{" + strings.Join(labels, ",") + "}"
			}
			out[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return out
}

func TestMetrics(t *testing.T) {
	tally := newTally()
	before := gather(t, tally)
	if before["fettle_agent_heard"] != 0 || before["fettle_agent_looks_total{result=done}"] != 0 {
		t.Errorf("before the first look: %v", before)
	}
	f := newNode(t, nil)
	began := time.Unix(1000, 0)
	look := func(out Outcome, wanted string) {
		tally.looked(out, true, wanted, began, began.Add(30*time.Millisecond))
	}
	look(f.look(f.profile("", "day", day+"kernel.modprobe=/x\n"), Leave), "day") // refused
	look(f.look(f.profile("", "day", day), Apply), "day")
	f.write(swappiness, "60")
	look(f.look(f.profile("", "day", day), Leave), "day")
	tally.notReported()
	got := gather(t, tally)
	for name, want := range map[string]float64{
		"fettle_agent_heard": 1, "fettle_agent_profile_info{profile=day}": 1, "fettle_agent_change_waits": 0,
		"fettle_agent_values{verdict=ok}": 1, "fettle_agent_values{verdict=drifted}": 1, "fettle_agent_values{verdict=rejected}": 0,
		"fettle_agent_condition{condition=applied,status=true}": 1, "fettle_agent_condition{condition=applied,status=unknown}": 0,
		"fettle_agent_condition{condition=degraded,status=true}": 1, "fettle_agent_condition{condition=degraded,status=false}": 0,
		"fettle_agent_last_look_timestamp_seconds": 1000.03, "fettle_agent_look_duration_seconds": 3,
		"fettle_agent_looks_total{result=done}": 3, "fettle_agent_looks_total{result=failed}": 0, "fettle_agent_looks_total{result=busy}": 0,
		"fettle_agent_transactions_total{action=apply}": 1, "fettle_agent_transactions_total{action=restore}": 0,
		"fettle_agent_recovered_transactions_total": 0, "fettle_agent_report_failures_total": 1,
	} {
		if has, ok := got[name]; !ok || has != want {
			t.Errorf("%s is %v (%v), want %v", name, has, ok, want)
		}
	}

	look(Outcome{Err: journal.ErrBusy, Busy: true}, "day")
	look(Outcome{Err: errors.New("x"), Recovered: []int{3, 4}}, "day")
	look(f.look(nil, Restore), "")
	got = gather(t, tally)
	for name, want := range map[string]float64{
		"fettle_agent_looks_total{result=busy}": 1, "fettle_agent_looks_total{result=failed}": 1,
		"fettle_agent_recovered_transactions_total": 2, "fettle_agent_transactions_total{action=restore}": 1,
		"fettle_agent_condition{condition=applied,status=unknown}": 1, "fettle_agent_values{verdict=ok}": 0,
	} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
	if _, ok := got["fettle_agent_profile_info{profile=day}"]; ok {
		t.Error("a profile is in force that is not")
	}
	// What the table has is there, and nothing else.
	look(Outcome{Profile: "x", Values: &tune.Verification{}}, "x")
	names := map[string]bool{}
	for name := range gather(t, tally) {
		name, _, _ = strings.Cut(name, "{")
		names[name] = true
	}
	for _, m := range Metrics {
		if !names[m.Name] {
			t.Errorf("%s is not collected", m.Name)
		}
		delete(names, m.Name)
	}
	if len(names) > 0 {
		t.Errorf("not in the table: %v", names)
	}
}

// TestManual compares the manual's table of metrics with the agent's metrics.
func TestManual(t *testing.T) {
	root.Manual(t, "kubernetes-agent.md", root.Generated{Name: "metrics", Text: kube.MetricTable(Metrics)})
}
