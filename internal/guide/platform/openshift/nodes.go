package openshift

import (
	"fmt"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/unit"
)

// census counts machines and objects.
type census struct {
	role  map[string]int // nodes by their role
	at    string         // the position of the first node
	cores float64        // of the largest worker
	whole map[string]tally
}

// tally counts the objects of one kind in lists.
type tally struct {
	count int
	at    string
	per   map[string]int // by namespace
	on    map[string]int // pods by their node
}

func newCensus() census { return census{role: map[string]int{}, whole: map[string]tally{}} }

// objects are the counted kinds in lists, with the names of their maximums: of the cluster, and
// of one namespace.
var objects = map[string]struct{ all, each string }{
	"Namespace":   {"namespaces", ""},
	"Project":     {"namespaces", ""},
	"Build":       {"builds", ""},
	"Pod":         {"pods", "pods_per_namespace"},
	"Service":     {"services", "services_per_namespace"},
	"Deployment":  {"", "deployments_per_namespace"},
	"Route":       {"routes", ""},
	"Secret":      {"secrets", ""},
	"BuildConfig": {"build_configs", ""},

	"CustomResourceDefinition": {"crds", ""},
}

// count counts an object of a list.
func (c *census) count(kind string, d document) {
	s := c.whole[kind]
	if s.count == 0 {
		s = tally{at: d.file, per: map[string]int{}, on: map[string]int{}}
	}
	s.count++
	s.per[d.text("metadata", "namespace")]++
	if node := d.text("spec", "nodeName"); kind == "Pod" && node != "" {
		s.on[node]++
	}
	c.whole[kind] = s
}

// node reads a node.
func (t *collector) node(d document) {
	item := t.item(nodes, d)
	labels := keys(d.get("metadata", "labels"))
	role := "worker"
	for _, l := range labels {
		switch l {
		case "node-role.kubernetes.io/master", "node-role.kubernetes.io/control-plane":
			role = "control-plane"
		case "node-role.kubernetes.io/infra":
			if role == "worker" {
				role = "infra"
			}
		}
	}
	if t.census.at == "" {
		t.census.at = d.at(nil)
	}
	t.census.role[role]++
	t.give(item+".role", role, d.at(d.get("metadata", "labels")))
	t.measure(d, item+".cores", unit.ParseQuantity, "status", "capacity", "cpu")
	t.measure(d, item+".memory_bytes", unit.ParseQuantity, "status", "capacity", "memory")
	cores, known := t.given(item + ".cores").Value.(float64)
	if known && role != "control-plane" {
		t.census.cores = max(t.census.cores, cores)
	}
	if n := d.get("status", "allocatable", "cpu"); n != nil && known {
		free, err := unit.ParseQuantity(n.Value)
		if err != nil {
			t.unclear(item+".reserved_cores", d.at(n), fmt.Errorf("status.allocatable.cpu: %w", err))
			return
		}
		t.give(item+".reserved_cores", max(0, cores-free), d.at(n))
	}
}

// finishCensus answers with the numbers of machines. Running nodes take precedence over
// install-config.yaml.
func (t *collector) finishCensus() {
	c := t.census
	all, masters := 0, c.role["control-plane"]
	for _, n := range c.role {
		all += n
	}
	workers := fact.Answer{Value: float64(all - masters), At: c.at}
	switch {
	case all == 0:
		workers = t.workers
	case masters == 0 && t.workers.Value != nil && t.workers.Value.(float64) > float64(all):
		workers = t.workers // the list is incomplete
	}
	t.answer("workers", workers)
	if masters > 0 {
		t.answer("control_plane", fact.Answer{Value: float64(masters), At: c.at})
	} else {
		t.answer("control_plane", t.controlPlane)
	}
	if masters > 0 && all > masters {
		t.give("infra", float64(c.role["infra"]), c.at)
	}
	if c.cores > 0 {
		t.give("worker_cores", c.cores, c.at)
	}
	if all > 0 && masters > 0 {
		t.counted("nodes", all, c.at)
	}
	for kind, s := range c.whole {
		names := objects[kind]
		// A list of one namespace does not cover the cluster.
		if names.all != "" && (len(s.per) > 1 || s.per[""] > 0) {
			t.counted(names.all, s.count, s.at)
		}
		if names.each != "" {
			t.counted(names.each, most(s.per), s.at)
		}
		if len(s.on) > 0 {
			t.counted("pods_per_node", most(s.on), s.at)
		}
	}
}

// counted answers with a number of objects that has a tested maximum.
func (t *collector) counted(name string, n int, at string) {
	input := "objects." + name + ".count"
	if old, ok := t.given(input).Value.(float64); ok && old >= float64(n) {
		return // Projects are Namespaces
	}
	t.known.Add(counts, name)
	t.give(input, float64(n), at)
}

func most(counts map[string]int) int {
	n := 0
	for _, c := range counts {
		n = max(n, c)
	}
	return n
}
