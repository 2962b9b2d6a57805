package operator

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"fettle.dev/fettle/kube/cluster"
	"fettle.dev/fettle/kube/kubelet"
)

// KubeletMetrics are those of the kubelets' settings.
var KubeletMetrics = []cluster.Metric{
	{Name: "fettle_operator_kubelet_nodes", Type: "gauge", Labels: []string{"phase", "pool"}, Doc: "nodes of a KubeletPool by where they are: updated (they have the settings), changing, waiting for a slot, held (they cannot begin as they are), failed (they have their former settings again), broken (they run with neither)"},
	{Name: "fettle_operator_kubelet_pool_updating", Type: "gauge", Labels: []string{"pool"}, Doc: "1 while a roll-out is in progress: the condition Updating is True"},
	{Name: "fettle_operator_kubelet_pool_degraded", Type: "gauge", Labels: []string{"pool"}, Doc: "1 while the rollout has stopped until an administrator acts: the condition Degraded is True"},
	{Name: "fettle_operator_kubelet_pool_paused", Type: "gauge", Labels: []string{"pool"}, Doc: "1 while the pool is paused"},
	{Name: "fettle_operator_kubelet_failures_total", Type: "counter", Labels: []string{"pool"}, Doc: "turns of nodes that ended with a failure"},
}

// The values of the label phase.
const (
	nodeUpdated  = "updated"
	nodeChanging = "changing"
	nodeWaiting  = "waiting"
	nodeHeld     = "held"
	nodeFailed   = "failed"
	nodeBroken   = "broken"
)

var nodePhases = []string{nodeUpdated, nodeChanging, nodeWaiting, nodeHeld, nodeFailed, nodeBroken}

// phases counts the nodes of a group by where they are. Those that begin now are
// changing.
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

// kubeletTally is what the metrics report, collected on each scrape: what the status of the
// pools says was decided last, and what has failed since the process began.
type kubeletTally struct {
	descriptions map[string]*prometheus.Desc

	mu       sync.Mutex
	pools    []kubelet.KubeletPool
	nodes    map[string]map[string]int // by pool and phase
	failures map[string]int            // by pool
	failed   map[ended]bool            // nil before the first decision
}

// ended is a turn of a node.
type ended struct {
	of     types.UID
	number int64
}

func kubeletNewTally() *kubeletTally {
	return &kubeletTally{descriptions: cluster.Descriptions(KubeletMetrics), failures: map[string]int{}}
}

// decided notes a decision. What had failed when the process began is not counted.
func (t *kubeletTally) decided(c Cluster, p Plan) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pools, t.nodes = p.Pools, p.Nodes
	failed := map[ended]bool{}
	for i := range c.Kubelets {
		k := &c.Kubelets[i]
		if k.Status.Phase != kubelet.ConditionFailed && k.Status.Phase != kubelet.ConditionBroken {
			continue
		}
		e := ended{k.UID, k.Status.Turn}
		failed[e] = true
		if t.failed != nil && !t.failed[e] {
			t.failures[k.Spec.Pool]++
		}
	}
	t.failed = failed
}

// Describe is part of prometheus.Collector.
func (t *kubeletTally) Describe(out chan<- *prometheus.Desc) {
	for _, d := range t.descriptions {
		out <- d
	}
}

// Collect is part of prometheus.Collector.
func (t *kubeletTally) Collect(out chan<- prometheus.Metric) {
	t.mu.Lock()
	defer t.mu.Unlock()
	say := func(kind prometheus.ValueType, name string, v int, labels ...string) {
		out <- prometheus.MustNewConstMetric(t.descriptions[name], kind, float64(v), labels...)
	}
	is := func(name, pool string, yes bool) {
		v := 0
		if yes {
			v = 1
		}
		say(prometheus.GaugeValue, name, v, pool)
	}
	for i := range t.pools {
		p := &t.pools[i]
		for _, phase := range nodePhases {
			say(prometheus.GaugeValue, "fettle_operator_kubelet_nodes", t.nodes[p.Name][phase], phase, p.Name)
		}
		is("fettle_operator_kubelet_pool_updating", p.Name, meta.IsStatusConditionTrue(p.Status.Conditions, kubelet.Updating))
		is("fettle_operator_kubelet_pool_degraded", p.Name, meta.IsStatusConditionTrue(p.Status.Conditions, kubelet.Degraded))
		is("fettle_operator_kubelet_pool_paused", p.Name, p.Spec.Paused)
		say(prometheus.CounterValue, "fettle_operator_kubelet_failures_total", t.failures[p.Name], p.Name)
	}
}
