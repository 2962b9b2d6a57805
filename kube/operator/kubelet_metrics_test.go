package operator

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"fettle.dev/fettle/internal/testkit/root"
	"fettle.dev/fettle/kube/kubelet"
	"fettle.dev/fettle/kube/testkit"
)

// kubeletValues returns the metrics of the pool workers, without those that are 0.
func kubeletValues(t *testing.T, c prometheus.Collector) map[string]float64 {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	if err := r.Register(c); err != nil {
		t.Fatal(err)
	}
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			var labels []string
			for _, l := range m.Label {
				if l.GetName() == "pool" && l.GetValue() != "workers" {
					t.Errorf("pool %s", l.GetValue())
				}
				if l.GetName() != "pool" {
					labels = append(labels, l.GetValue())
				}
			}
			if v := m.GetGauge().GetValue() + m.GetCounter().GetValue(); v != 0 {
				out[strings.TrimPrefix(f.GetName(), "fettle_operator_kubelet_")+fmt.Sprint(labels)] = v
			}
		}
	}
	return out
}

// TestKubeletMetrics tests that the metrics agree with the status throughout a rollout.
func TestKubeletMetrics(t *testing.T) {
	w := newWorld(t, 6, intstr.FromInt32(2), config("large", `{"maxPods": 300}`)).started()
	for i := range w.Kubelets {
		w.Kubelets[i].UID = types.UID(w.Kubelets[i].Name)
	}
	tally := kubeletNewTally()
	is := func(when string, want map[string]float64) {
		t.Helper()
		tally.decided(w.Cluster, Of(w.Cluster))
		w.step()
		if d := cmp.Diff(want, kubeletValues(t, tally)); d != "" {
			t.Errorf("%s: %s", when, d)
		}
		// The same is in the status.
		s := w.Pools[0].Status
		if got := kubeletValues(t, tally); got["nodes[updated]"] != float64(s.Updated) || got["nodes[changing]"] != float64(len(s.Changing)) {
			t.Errorf("%s: %v, and the status says %+v", when, got, s)
		}
	}
	is("two begin", map[string]float64{"nodes[changing]": 2, "nodes[waiting]": 4, "pool_updating[]": 1})
	w.done("n1")
	w.node("n3").Status.Conditions[0].Status = core.ConditionFalse
	is("one has done, and one of the others is not Ready", map[string]float64{"nodes[updated]": 1, "nodes[changing]": 1, "nodes[waiting]": 3, "nodes[held]": 1, "pool_updating[]": 1})
	w.ended("n2", kubelet.ConditionFailed, "it did not start")
	stopped := map[string]float64{"nodes[updated]": 1, "nodes[failed]": 1, "nodes[waiting]": 3, "nodes[held]": 1, "pool_degraded[]": 1, "failures_total[]": 1}
	is("one has failed", stopped)
	is("and is looked at again", stopped)
	w.Pools[0].Spec.Paused = true
	stopped["pool_paused[]"] = 1
	is("paused as well", stopped)
	// A process that begins now does not count it again.
	tally = kubeletNewTally()
	delete(stopped, "failures_total[]")
	is("another process", stopped)
}

// TestKubeletTable tests that exactly the metrics of the table are collected, with their labels.
func TestKubeletTable(t *testing.T) {
	w := newWorld(t, 2, intstr.FromInt32(1), config("large", `{"maxPods": 300}`)).started()
	tally := kubeletNewTally()
	tally.decided(w.Cluster, Of(w.Cluster))
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(tally)
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for _, f := range families {
		var labels []string
		for _, l := range f.Metric[0].Label {
			labels = append(labels, l.GetName())
		}
		got = append(got, fmt.Sprint(f.GetName(), labels, strings.ToLower(f.GetType().String())))
	}
	for _, m := range KubeletMetrics {
		want = append(want, fmt.Sprint(m.Name, m.Labels, m.Type))
	}
	slices.Sort(want)
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// TestMetricsOfTheManual compares the manual's table of metrics with these metrics.
func TestMetricsOfTheManual(t *testing.T) {
	root.Manual(t, "kubelet.md", root.Generated{Name: "metrics", Text: kube.MetricTable(KubeletMetrics)})
}
