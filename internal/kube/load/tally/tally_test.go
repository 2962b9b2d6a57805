package tally

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/kube/load/plan"
	"fettle.dev/fettle/internal/kube/load/spec"
	"fettle.dev/fettle/internal/rule"
	"fettle.dev/fettle/rules"
)

func figures(t *testing.T) *rule.Catalogue {
	t.Helper()
	files, err := rule.Embedded(rules.FS)
	if err != nil {
		t.Fatal(err)
	}
	c, err := rule.Tables(files)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestOf(t *testing.T) {
	pod := json.RawMessage(`{"apiVersion":"v1","kind":"Pod","metadata":{},"spec":{}}`)
	l := &spec.Load{Stages: []spec.Stage{{Prefix: "p", Iterations: 2, PerNamespace: 1, Groups: []spec.Group{
		{Count: 1100, Name: "a", Pod: pod},
		{Count: 1, Manifest: json.RawMessage(`{"apiVersion":"apps/v1","kind":"DaemonSet","metadata":{"name":"d"},"spec":{"template":{}}}`)},
	}}}}
	p, err := plan.Compile(t.Context(), l, "r", nil)
	if err != nil {
		t.Fatal(err)
	}
	// 9.3: 2200 pods on 20 nodes are 110 on each.
	x, err := Of(t.Context(), p, figures(t), &Cluster{Known: true, OpenShift: "4.4.33", Nodes: 20, Room: 5000, Have: map[string]int{"pods": 0}})
	if err != nil {
		t.Fatal(err)
	}
	if x.Pods != 2200 || x.PerNode != 2 || x.Objects != 2204 || x.Namespaces != 2 || x.PodsPerNode != 112 || len(x.Over()) != 0 {
		t.Errorf("%+v", x)
	}
	most := map[string]int{}
	for _, l := range x.Limits {
		most[l.What] = l.Maximum
	}
	if most["pods"] != 62500 || most["pods_per_node"] != 500 || most["pods_per_namespace"] != 25000 || most["pods that the nodes take"] != 5000 {
		t.Errorf("%v", most)
	}
	x, err = Of(t.Context(), p, figures(t), &Cluster{Known: true, Nodes: 20, Room: 2200})
	if err != nil || len(x.Over()) != 2 { // the nodes' room, and 110 on a node
		t.Errorf("%v %+v", err, x.Over())
	}
}

// TestNotSeen: what hangs on nodes that cannot be seen is not judged, and that is said.
func TestNotSeen(t *testing.T) {
	pod := json.RawMessage(`{"apiVersion":"v1","kind":"Pod","metadata":{},"spec":{}}`)
	l := &spec.Load{Stages: []spec.Stage{{Prefix: "p", Iterations: 1, PerNamespace: 1, Groups: []spec.Group{{Count: 4000, Name: "a", Pod: pod}}}}}
	p, err := plan.Compile(t.Context(), l, "r", nil)
	if err != nil {
		t.Fatal(err)
	}
	c := &Cluster{Known: true, NotSeen: []NotSeen{{"nodes", "not you"}, {"pods", "nor these"}}, Notes: []string{"before"}}
	x, err := Of(t.Context(), p, figures(t), c)
	if err != nil {
		t.Fatal(err)
	}
	var judged []string
	for _, l := range x.Limits {
		judged = append(judged, l.What)
	}
	if want := []string{"pods", "namespaces", "pods_per_namespace", "bytes in etcd"}; !slices.Equal(judged, want) || x.PodsPerNode != 0 {
		t.Errorf("judged %q, want %q", judged, want)
	}
	if len(x.Notes) != 3 || x.Notes[0] != "before" || !strings.HasSuffix(x.Notes[1], "pods_per_node, and pods of daemon sets are not judged: not you") || !strings.HasPrefix(x.Notes[2], "how many pods there are cannot be seen") {
		t.Errorf("%q", x.Notes)
	}
}

// TestEtcd: what there will be in etcd is held against its quota, with what is there.
func TestEtcd(t *testing.T) {
	l := &spec.Load{Stages: []spec.Stage{{Prefix: "p", Iterations: 1, PerNamespace: 1, Groups: []spec.Group{
		{Count: 1000, Name: "a", Pod: json.RawMessage(`{"apiVersion":"v1","kind":"Pod","metadata":{},"spec":{}}`)},
	}}}}
	p, err := plan.Compile(t.Context(), l, "r", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		of   *Cluster
		most int
		have int64
		over bool
	}{
		{nil, 2 << 30, 0, false},
		{&Cluster{OpenShift: "4.17"}, 8 << 30, 0, false},
		{&Cluster{EtcdQuotaBytes: 1 << 20}, 1 << 20, 0, true},
		{&Cluster{EtcdBytes: 2 << 30}, 2 << 30, 2 << 30, true},
		{&Cluster{EtcdBytes: 2 << 30, EtcdQuotaBytes: 4 << 30}, 4 << 30, 2 << 30, false},
	} {
		x, err := Of(t.Context(), p, figures(t), c.of)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(x.Limits, func(l Limit) bool { return l.What == BytesInEtcd })
		if i < 0 {
			t.Fatalf("%+v: no limit of etcd", c.of)
		}
		if c.of != nil && c.of.OpenShift != "" && !strings.Contains(x.Limits[i].Source, "backendQuotaGiB") {
			t.Errorf("%+v: by %s", c.of, x.Limits[i].Source)
		}
		if l := x.Limits[i]; l.Maximum != c.most || int64(l.Value) != c.have+x.EtcdBytes || l.Over != c.over || len(x.Over()) > 0 != c.over {
			t.Errorf("%+v: %+v", c.of, l)
		}
	}
}
