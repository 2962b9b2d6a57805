package operator

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fettle.dev/fettle/internal/testkit/root"
	"fettle.dev/fettle/kube/testkit"
)

// healthValues returns the collected metrics by name and labels, without those that are 0.
func healthValues(t *testing.T, c prometheus.Collector) map[string]float64 {
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
				labels = append(labels, l.GetValue())
			}
			if v := m.GetGauge().GetValue() + m.GetCounter().GetValue(); v != 0 {
				out[strings.TrimPrefix(f.GetName(), "fettle_operator_")+"{"+strings.Join(labels, ",")+"}"] = v
			}
		}
	}
	return out
}

// TestHealthMetrics tests that the metrics agree with the status throughout a remediation.
func TestHealthMetrics(t *testing.T) {
	b := healthNewBench(t, "40%", 25, 3).look()
	const check = "openshift-machine-api/workers"
	is := func(when string, want map[string]float64) {
		t.Helper()
		if d := cmp.Diff(want, healthValues(t, b.tally)); d != "" {
			t.Errorf("%s: %s", when, d)
		}
	}
	is("before the first decision", map[string]float64{})
	b.once()
	b.once()
	is("one is on its way", map[string]float64{
		"machine_checks{InProgress}": 1, "machines{" + check + ",healthy}": 22, "machines{" + check + ",unhealthy}": 2, "machines{" + check + ",leaving}": 1,
		"remediations_started_total{}": 1,
	})
	b.gone("m02")
	b.fail = apierrors.NewForbidden(schema.GroupResource{Resource: "machines"}, "m01", errors.New("no right"))
	if _, err := b.checks(t.Context()); err == nil {
		t.Fatal("the deletion was to be refused")
	}
	is("it is gone, and the next is refused", map[string]float64{
		"machine_checks{InProgress}": 1, "machines{" + check + ",healthy}": 22, "machines{" + check + ",unhealthy}": 2,
		"remediations_started_total{}": 1, "remediations_finished_total{}": 1, "remediations_refused_total{DeletionFailed}": 1,
	})
	// Ten more are ill at once: the limit closes.
	for i := 3; i < 13; i++ {
		b.set(fmt.Sprintf("node-m%02d", i), core.ConditionFalse)
	}
	for range 3 {
		b.once()
	}
	closed := map[string]float64{
		"machine_checks{TooManyUnhealthy}": 1, "machines{" + check + ",healthy}": 12, "machines{" + check + ",unhealthy}": 12, "machine_check_short_circuited{" + check + "}": 1,
		"remediations_started_total{}": 1, "remediations_finished_total{}": 1, "remediations_refused_total{DeletionFailed}": 1, "remediations_refused_total{TooManyUnhealthy}": 12,
	}
	is("too many", closed)
	// Each is counted when it begins, not whenever it is looked at.
	b.set("node-m12", core.ConditionTrue)
	b.once()
	b.set("node-m12", core.ConditionFalse)
	b.once()
	closed["remediations_refused_total{TooManyUnhealthy}"] = 13
	is("one of them was well for a while", closed)
}

// set sets a node's Ready status, since an hour ago.
func (b *healthBench) set(node string, status core.ConditionStatus) {
	b.t.Helper()
	n := &core.Node{}
	if err := b.api.Get(b.t.Context(), client.ObjectKey{Name: node}, n); err != nil {
		b.t.Fatal(err)
	}
	n.Status.Conditions = []core.NodeCondition{{Type: core.NodeReady, Status: status, LastTransitionTime: metav1.NewTime(b.at.Add(-time.Hour))}}
	if err := b.api.Status().Update(b.t.Context(), n); err != nil {
		b.t.Fatal(err)
	}
}

// TestHealthTable tests that exactly the metrics of the table are collected, with their labels, and
// that those without a check in their labels exist before there are checks.
func TestHealthTable(t *testing.T) {
	b := healthNewBench(t, "40%", 25, 3).look()
	names := func() []string {
		r := prometheus.NewPedanticRegistry()
		r.MustRegister(b.tally)
		families, err := r.Gather()
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, f := range families {
			var labels []string
			for _, l := range f.Metric[0].Label {
				labels = append(labels, l.GetName())
			}
			out = append(out, fmt.Sprint(f.GetName(), labels, strings.ToLower(f.GetType().String())))
		}
		return out
	}
	var all, always []string
	for _, m := range HealthMetrics {
		line := fmt.Sprint(m.Name, m.Labels, m.Type)
		all = append(all, line)
		if !slices.Contains(m.Labels, "check") {
			always = append(always, line)
		}
	}
	slices.Sort(all)
	slices.Sort(always)
	if d := cmp.Diff(always, names()); d != "" {
		t.Error("before the first decision:", d)
	}
	b.once()
	if d := cmp.Diff(all, names()); d != "" {
		t.Error(d)
	}
}

// TestHealthManual compares the manual's table of metrics with these metrics.
func TestHealthManual(t *testing.T) {
	root.Manual(t, "machine-health.md", root.Generated{Name: "metrics", Text: kube.MetricTable(HealthMetrics)})
}
