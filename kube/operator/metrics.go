package operator

import (
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fettle.dev/fettle/kube/cluster"
	"fettle.dev/fettle/kube/kubelet"
	"fettle.dev/fettle/kube/tuned"
)

// decisionDuration is the histogram's name.
const decisionDuration = "fettle_operator_decision_duration_seconds"

// Metrics are the metrics of the operator, in addition to those of controller-runtime and the
// Go runtime.
var Metrics = []cluster.Metric{
	{Name: "fettle_operator_nodes", Type: "gauge", Labels: []string{"state"}, Doc: "nodes by the operator's decision: decided, held, no-match, not-linux"},
	{Name: "fettle_operator_profiles", Type: "gauge", Labels: []string{"condition", "status"}, Doc: "Profile objects by the conditions that their agents report: condition applied or degraded; status true, false or unknown (also before an agent's first report)"},
	{Name: "fettle_operator_profiles_foreign", Type: "gauge", Doc: "Profile objects written by another program, which the operator does not change"},
	{Name: "fettle_operator_tuned_objects", Type: "gauge", Labels: []string{"valid"}, Doc: "Tuned objects, valid true or false"},
	{Name: "fettle_operator_management_state", Type: "gauge", Labels: []string{"state"}, Doc: "1 for the management state in force: Managed, Unmanaged or Removed"},
	{Name: "fettle_operator_report_only", Type: "gauge", Doc: "1 while nothing is written because another controller owns the objects"},
	{Name: decisionDuration, Type: "histogram", Doc: "time from the notice that a node, its pods or the rules have changed until the node's Profile was written; unchanged Profiles are not counted"},
	{Name: "fettle_operator_profile_writes_total", Type: "counter", Labels: []string{"action"}, Doc: "writes of Profile objects: create, update or delete"},
	{Name: "fettle_operator_profile_write_failures_total", Type: "counter", Labels: []string{"action"}, Doc: "failed writes of Profile objects, which are retried"},
}

// decisionBounds are the bounds of the histogram's buckets, in seconds. The target for 500
// nodes is two.
var decisionBounds = []float64{0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60}

// tally holds the values of the metrics, collected on each scrape.
type tally struct {
	cluster.Described
	// profiles lists the Profile objects.
	profiles  func() []tuned.Profile
	decisions prometheus.Histogram

	mu         sync.Mutex
	waiting    map[string]time.Time // nodes waiting for a decision, and since when
	nodes      map[string]tuned.State
	objects    map[bool]int
	managed    tuned.ManagementState
	reportOnly bool
	writes     map[action]int
	failures   map[action]int
}

func newTally(profiles func() []tuned.Profile) *tally {
	t := &tally{
		Described: cluster.Descriptions(Metrics), profiles: profiles, waiting: map[string]time.Time{},
		nodes: map[string]tuned.State{}, writes: map[action]int{}, failures: map[action]int{},
	}
	for _, m := range Metrics {
		if m.Name == decisionDuration {
			t.decisions = prometheus.NewHistogram(prometheus.HistogramOpts{Name: m.Name, Help: m.Doc, Buckets: decisionBounds})
		}
	}
	return t
}

// heard records when a change of a node's input was first noticed.
func (t *tally) heard(node string, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if was, waits := t.waiting[node]; !waits || at.Before(was) {
		t.waiting[node] = at
	}
}

// begun returns since when the node being decided has waited, or zero. Later changes count
// separately.
func (t *tally) begun(node string) (since time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	since = t.waiting[node]
	delete(t.waiting, node)
	return since
}

// ended records how long it took to write the node's Profile after the change was noticed.
func (t *tally) ended(since, at time.Time) {
	if !since.IsZero() {
		t.decisions.Observe(at.Sub(since).Seconds())
	}
}

// decided records the state of a node, "" for one that is gone, and returns the previous one.
func (t *tally) decided(node string, s tuned.State) (last tuned.State) {
	t.mu.Lock()
	defer t.mu.Unlock()
	last = t.nodes[node]
	if s == "" {
		delete(t.nodes, node)
	} else {
		t.nodes[node] = s
	}
	return last
}

func (t *tally) wrote(do action, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		t.failures[do]++
		return
	}
	t.writes[do]++
}

// ruled records the state that applies to all nodes.
func (t *tally) ruled(s *situation, objects []tuned.Object) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.objects = map[bool]int{}
	for _, o := range objects {
		t.objects[o.Valid]++
	}
	t.managed, t.reportOnly = s.rules.Managed(), s.reportOnly != ""
}

// Collect is part of prometheus.Collector.
func (t *tally) Collect(out chan<- prometheus.Metric) {
	t.decisions.Collect(out)
	gauge := func(name string, v int, labels ...string) { t.Gauge(out, name, float64(v), labels...) }
	status := map[tuned.ConditionType]map[metav1.ConditionStatus]int{tuned.Applied: {}, tuned.Degraded: {}}
	others := 0
	for _, p := range t.profiles() {
		if !p.Ours() {
			others++
		}
		for kind, count := range status {
			count[conditionStatus(p.Status.Conditions, kind)]++
		}
	}
	gauge("fettle_operator_profiles_foreign", others)
	for kind, count := range status {
		for _, s := range []metav1.ConditionStatus{metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown} {
			gauge("fettle_operator_profiles", count[s], strings.ToLower(string(kind)), strings.ToLower(string(s)))
		}
	}

	t.mu.Lock()
	defer t.mu.Unlock()
	states := map[tuned.State]int{}
	for _, s := range t.nodes {
		states[s]++
	}
	for _, s := range []tuned.State{tuned.Decided, tuned.Held, tuned.NoMatch, tuned.NotLinux} {
		gauge("fettle_operator_nodes", states[s], string(s))
	}
	gauge("fettle_operator_tuned_objects", t.objects[true], "true")
	gauge("fettle_operator_tuned_objects", t.objects[false], "false")
	for _, s := range []tuned.ManagementState{tuned.Managed, tuned.Unmanaged, tuned.Removed} {
		t.Gauge(out, "fettle_operator_management_state", cluster.OneIf(t.managed == s), string(s))
	}
	t.Gauge(out, "fettle_operator_report_only", cluster.OneIf(t.reportOnly))
	for _, a := range actions {
		t.Counter(out, "fettle_operator_profile_writes_total", t.writes[a], string(a))
		t.Counter(out, "fettle_operator_profile_write_failures_total", t.failures[a], string(a))
	}
}

func conditionStatus(all []tuned.StatusCondition, kind tuned.ConditionType) metav1.ConditionStatus {
	for _, c := range all {
		if c.Type == kind {
			return c.Status
		}
	}
	return metav1.ConditionUnknown
}

// KubeletMetrics are the metrics of the kubelets' settings.
var KubeletMetrics = []cluster.Metric{
	{Name: "fettle_operator_kubelet_nodes", Type: "gauge", Labels: []string{"phase", "pool"}, Doc: "nodes of a KubeletPool by phase: updated (the new settings are in force), changing, waiting (for other nodes), held (the node is not in a state to begin), failed (the former settings were restored), broken (neither the new nor the former settings are in force)"},
	{Name: "fettle_operator_kubelet_pool_updating", Type: "gauge", Labels: []string{"pool"}, Doc: "1 while a rollout is in progress: the condition Updating is True"},
	{Name: "fettle_operator_kubelet_pool_degraded", Type: "gauge", Labels: []string{"pool"}, Doc: "1 while the rollout has stopped until an administrator acts: the condition Degraded is True"},
	{Name: "fettle_operator_kubelet_pool_paused", Type: "gauge", Labels: []string{"pool"}, Doc: "1 while the pool is paused"},
	{Name: "fettle_operator_kubelet_failures_total", Type: "counter", Labels: []string{"pool"}, Doc: "failed changes of nodes"},
}

// Values of the label phase.
const (
	nodeUpdated  = "updated"
	nodeChanging = "changing"
	nodeWaiting  = "waiting"
	nodeHeld     = "held"
	nodeFailed   = "failed"
	nodeBroken   = "broken"
)

var nodePhases = []string{nodeUpdated, nodeChanging, nodeWaiting, nodeHeld, nodeFailed, nodeBroken}

// phases counts the nodes of a group by phase. Those that begin now count as changing.
func (c Cluster) phases(g *group) map[string]int {
	out := map[string]int{nodeUpdated: g.Done, nodeHeld: len(g.Held)}
	if c.ReportOnly == "" {
		out[nodeChanging] = len(g.Begin)
	}
	for _, n := range g.nodes {
		switch {
		case n.Phase == kubelet.Changing:
			out[nodeChanging]++
		case n.Phase == kubelet.Broken:
			out[nodeBroken]++
		case n.Phase == kubelet.Failed && n.Tried == g.want.Digest && n.Has != g.want.Digest:
			out[nodeFailed]++
		}
	}
	waiting := g.Total
	for _, n := range out {
		waiting -= n
	}
	out[nodeWaiting] = waiting
	return out
}

// kubeletTally holds the values of the metrics, collected on each scrape: the last decision in the
// status of the pools, and the failures since the process began.
type kubeletTally struct {
	cluster.Described

	mu       sync.Mutex
	pools    []kubelet.KubeletPool
	nodes    map[string]map[string]int // by pool and phase
	failures map[string]int            // by pool
	failed   map[turn]bool             // nil before the first decision
}

func kubeletNewTally() *kubeletTally {
	return &kubeletTally{Described: cluster.Descriptions(KubeletMetrics), failures: map[string]int{}}
}

// decided records a decision. Failures from before the process began do not count.
func (t *kubeletTally) decided(c Cluster, p Plan) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pools, t.nodes = p.Pools, p.Nodes
	failed := map[turn]bool{}
	for i := range c.Kubelets {
		k := &c.Kubelets[i]
		if k.Status.Phase != kubelet.ConditionFailed && k.Status.Phase != kubelet.ConditionBroken {
			continue
		}
		e := turn{k.UID, k.Status.Turn}
		failed[e] = true
		if t.failed != nil && !t.failed[e] {
			t.failures[k.Spec.Pool]++
		}
	}
	t.failed = failed
}

// Collect is part of prometheus.Collector.
func (t *kubeletTally) Collect(out chan<- prometheus.Metric) {
	t.mu.Lock()
	defer t.mu.Unlock()
	is := func(name, pool string, yes bool) { t.Gauge(out, name, cluster.OneIf(yes), pool) }
	for i := range t.pools {
		p := &t.pools[i]
		for _, phase := range nodePhases {
			t.Gauge(out, "fettle_operator_kubelet_nodes", float64(t.nodes[p.Name][phase]), phase, p.Name)
		}
		is("fettle_operator_kubelet_pool_updating", p.Name, meta.IsStatusConditionTrue(p.Status.Conditions, kubelet.Updating))
		is("fettle_operator_kubelet_pool_degraded", p.Name, meta.IsStatusConditionTrue(p.Status.Conditions, kubelet.Degraded))
		is("fettle_operator_kubelet_pool_paused", p.Name, p.Spec.Paused)
		t.Counter(out, "fettle_operator_kubelet_failures_total", t.failures[p.Name], p.Name)
	}
}
