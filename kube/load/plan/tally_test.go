package plan

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/guide/rule"
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
	l := &Load{Stages: []Stage{{Prefix: "p", Iterations: 2, PerNamespace: 1, Groups: []Group{
		{Count: 1100, Name: "a", Pod: pod},
		{Count: 1, Manifest: json.RawMessage(`{"apiVersion":"apps/v1","kind":"DaemonSet","metadata":{"name":"d"},"spec":{"template":{}}}`)},
	}}}}
	p, err := Compile(t.Context(), l, "r", nil)
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

// TestNotSeen tests that limits that depend on unreadable nodes are not judged, and that this is
// reported.
func TestNotSeen(t *testing.T) {
	pod := json.RawMessage(`{"apiVersion":"v1","kind":"Pod","metadata":{},"spec":{}}`)
	l := &Load{Stages: []Stage{{Prefix: "p", Iterations: 1, PerNamespace: 1, Groups: []Group{{Count: 4000, Name: "a", Pod: pod}}}}}
	p, err := Compile(t.Context(), l, "r", nil)
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
	if len(x.Notes) != 3 || x.Notes[0] != "before" || !strings.HasSuffix(x.Notes[1], "pods_per_node and pods of daemon sets are not judged: not you") || !strings.HasPrefix(x.Notes[2], "unknown how many pods exist") {
		t.Errorf("%q", x.Notes)
	}
}

// TestEtcd compares the resulting size in etcd, including existing data, with its quota.
func TestEtcd(t *testing.T) {
	l := &Load{Stages: []Stage{{Prefix: "p", Iterations: 1, PerNamespace: 1, Groups: []Group{
		{Count: 1000, Name: "a", Pod: json.RawMessage(`{"apiVersion":"v1","kind":"Pod","metadata":{},"spec":{}}`)},
	}}}}
	p, err := Compile(t.Context(), l, "r", nil)
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
		{&Cluster{EtcdBytes: 2 << 40, EtcdQuotaBytes: -1, EtcdQuotaSource: "etcd's own metrics", OpenShift: "4.17"}, -1, 0, false},
		{&Cluster{EtcdBytes: 2 << 30, EtcdQuotaBytes: 4 << 30}, 4 << 30, 2 << 30, false},
	} {
		x, err := Of(t.Context(), p, figures(t), c.of)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(x.Limits, func(l Limit) bool { return l.What == BytesInEtcd })
		if c.most < 0 {
			if i >= 0 || len(x.Over()) > 0 || !slices.ContainsFunc(x.Notes, func(n string) bool { return strings.HasPrefix(n, "etcd has no quota (etcd's own metrics)") }) {
				t.Errorf("without a quota: %+v, %q", x.Limits, x.Notes)
			}
			continue
		}
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

// TestStanding tests the maximum number of concurrent pods with patches, deletions that are waited
// for, and completed Jobs. Pods of ended Jobs are counted separately.
func TestStanding(t *testing.T) {
	const deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d-{{.Replica}}}\nspec: {replicas: 2, template: {spec: {}}}\n"
	const job = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j-{{.JobName}}-{{.Replica}}}\nspec: {completions: 100, parallelism: 10, template: {spec: {}}}\n"
	create := func(name, text string, count int, wait time.Duration) Stage {
		return Stage{At: name, Name: name, Prefix: "x", Single: true, Burner: true, Iterations: 1, PerNamespace: 1, IfExists: Reuse, Wait: wait,
			Groups: []Group{{At: name, Name: name, Count: count, Text: text, File: "t"}}}
	}
	act := func(a Action) Stage {
		a.APIVersion, a.Labels = "apps/v1", map[string]string{"kube-burner.io/job": "a"}
		if a.Kind == "Namespace" {
			a.APIVersion = "v1"
		}
		return Stage{At: "p", Name: "p", Burner: true, Iterations: 1, PerNamespace: 1, IfExists: Reuse, Actions: []Action{a}}
	}
	scale := func(n int) Stage {
		return act(Action{Do: Patch, Kind: "Deployment", PatchType: "application/merge-patch+json", Text: fmt.Sprintf("spec: {replicas: %d}", n), File: "p"})
	}
	all := figures(t)
	remove := func(kind string, gone time.Duration) Stage {
		return act(Action{Do: Remove, Kind: kind, Gone: gone})
	}
	for name, x := range map[string]struct {
		stages         []Stage
		pods, finished int
	}{
		"made":                            {[]Stage{create("a", deployment, 3, 0)}, 6, 0},
		"scaled up":                       {[]Stage{create("a", deployment, 3, 0), scale(5)}, 15, 0},
		"scaled down":                     {[]Stage{create("a", deployment, 3, 0), scale(0)}, 6, 0},
		"down, then more are made":        {[]Stage{create("a", deployment, 3, 0), scale(0), create("b", "---\n"+strings.Replace(deployment, "d-", "e-", 1), 2, 0)}, 6, 0},
		"deleted, then more are made":     {[]Stage{create("a", deployment, 3, 0), remove("Deployment", time.Minute), create("b", strings.Replace(deployment, "d-", "e-", 1), 2, 0)}, 6, 0},
		"deleted, and not waited for":     {[]Stage{create("a", deployment, 3, 0), remove("Deployment", 0), create("b", strings.Replace(deployment, "d-", "e-", 1), 2, 0)}, 10, 0},
		"the namespace is deleted":        {[]Stage{create("a", deployment, 3, 0), remove("Namespace", time.Minute), create("b", strings.Replace(deployment, "d-", "e-", 1), 2, 0)}, 6, 0},
		"Jobs":                            {[]Stage{create("a", job, 3, 0)}, 30, 300},
		"Jobs, one stage after the other": {[]Stage{create("a", job, 3, time.Minute), create("b", job, 2, time.Minute)}, 30, 500},
		"Jobs that are not waited for":    {[]Stage{create("a", job, 3, 0), create("b", job, 2, 0)}, 50, 500},
	} {
		p, err := Compile(t.Context(), &Load{Stages: x.stages}, "r", nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		// Finished pods that are there take no room.
		c := &Cluster{Known: true, Nodes: 1, Room: 1000, Have: map[string]int{"pods": 70, FinishedPods: 60}}
		o, err := Of(t.Context(), p, all, c)
		if err != nil {
			t.Fatal(err)
		}
		room := slices.IndexFunc(o.Limits, func(l Limit) bool { return l.What == "pods that the nodes take" })
		if o.Pods != x.pods || o.PodsFinished != x.finished || o.PodsPerNode != float64(x.pods+10) || o.Limits[room].Value != x.pods+10 {
			t.Errorf("%s: %d pods at once, %d finished, %v a node; want %d and %d", name, o.Pods, o.PodsFinished, o.PodsPerNode, x.pods, x.finished)
		}
	}
}
