package cli

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/kube/kubelet"
)

// TestCreated tests that a change of the older of two objects does not change which one takes
// precedence.
func TestCreated(t *testing.T) {
	config := func(name, maxPods string) kubelet.KubeletConfig {
		o, err := kubelet.Read("f", []byte("apiVersion: machineconfiguration.openshift.io/v1\nkind: KubeletConfig\nmetadata: {name: "+name+", creationTimestamp: \"2020-01-01T00:00:00Z\"}\nspec: {machineConfigPoolSelector: {matchLabels: {pool: w}}, kubeletConfig: {maxPods: "+maxPods+"}}\n"))
		if err != nil {
			t.Fatal(err)
		}
		return o.Configs[0]
	}
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	old, late := config("old", "100"), config("late", "200")
	old.CreationTimestamp, late.CreationTimestamp = metav1.NewTime(now.Add(-2*time.Hour)), metav1.NewTime(now.Add(-time.Hour))
	for _, c := range []struct {
		file kubelet.KubeletConfig
		want int64
	}{
		{config("old", "300"), 200}, // as it is there already, it stays the older one
		{config("late", "300"), 300},
		{config("another", "300"), 300}, // would be made now, whatever the file says
	} {
		in, file := []kubelet.KubeletConfig{old, late}, []kubelet.KubeletConfig{c.file}
		created(in, file, metav1.NewTime(now))
		w, err := kubelet.WantOfConfig(over(in, file, func(k kubelet.KubeletConfig) string { return k.Name }), map[string]string{"pool": "w"})
		if err != nil || w.Fields["maxPods"] != c.want {
			t.Errorf("%s: maxPods %v, want %d: %v", c.file.Name, w.Fields["maxPods"], c.want, err)
		}
	}
}

// TestNoRegularFile tests that a file without an end, or a pipe without a writer, is refused at
// once.
func TestNoRegularFile(t *testing.T) {
	dir := t.TempDir()
	fifo, large := filepath.Join(dir, "fifo"), filepath.Join(dir, "large")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(large, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(large, 64<<30); err != nil { // sparse
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"kubelet", "plan", fifo}, "want a regular file"},
		{[]string{"kubelet", "plan", "/dev/zero"}, "want a regular file"},
		{[]string{"kubelet", "plan", large}, "larger than 4 MiB"},
		{[]string{"load", "compare", fifo, fifo}, "want a regular file"},
		{[]string{"load", "compare", "/dev/zero", "/dev/zero"}, "want a regular file"},
	} {
		code, _, errs := run(t, c.args...)
		if code == ui.Done || c.args[0] == "kubelet" && code != ui.Usage || !strings.Contains(errs, c.want) {
			t.Errorf("%v: %d %q, want %q", c.args, code, errs, c.want)
		}
	}
	zero, err := os.Open("/dev/zero")
	if err != nil {
		t.Fatal(err)
	}
	was := os.Stdin
	os.Stdin = zero
	t.Cleanup(func() { os.Stdin = was; zero.Close() })
	if code, _, errs := run(t, "kubelet", "plan", "-"); code != ui.Usage || !strings.Contains(errs, "standard input: larger than 4 MiB") {
		t.Errorf("endless standard input: %d %q", code, errs)
	}
	for _, words := range []string{"kubelet plan -", "pod explain -"} {
		from, into, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		os.Stdin = from
		_, _ = into.WriteString("# a line\n- a\n")
		into.Close()
		code, _, errs := run(t, strings.Fields(words)...)
		if from.Close(); code != ui.Usage || !strings.Contains(errs, "standard input:2: ") {
			t.Errorf("%s: %d %q", words, code, errs)
		}
	}
}

const (
	fettleObjects = "/apis/fettle.dev/v1alpha1"
	maxPodsConfig = "apiVersion: machineconfiguration.openshift.io/v1\nkind: KubeletConfig\nmetadata: {name: k}\nspec: {machineConfigPoolSelector: {matchLabels: {pool: w}}, kubeletConfig: {maxPods: 50}}\n"
)

// kubeletCluster answers for a pool of two nodes, one of which has failed.
func kubeletCluster() map[string]string {
	const fettle, configs = fettleObjects, "/apis/machineconfiguration.openshift.io/v1"
	group := func(name, version string) string {
		return `{"name":"` + name + `","versions":[{"groupVersion":"` + name + `/` + version + `","version":"` + version + `"}],"preferredVersion":{"groupVersion":"` + name + `/` + version + `","version":"` + version + `"}}`
	}
	node := func(name string) string {
		return `{"metadata":{"name":"` + name + `","labels":{"w":""}},"status":{"capacity":{"cpu":"4"},"conditions":[{"type":"Ready","status":"True"}]}}`
	}
	return map[string]string{
		"/apis": `{"kind":"APIGroupList","apiVersion":"v1","groups":[` + group("fettle.dev", "v1alpha1") + "," + group("machineconfiguration.openshift.io", "v1") + `]}`,
		fettle: `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"fettle.dev/v1alpha1","resources":[
{"name":"kubeletpools","namespaced":false,"kind":"KubeletPool","verbs":["list"]},{"name":"nodekubelets","namespaced":false,"kind":"NodeKubelet","verbs":["list"]}]}`,
		configs: `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"machineconfiguration.openshift.io/v1","resources":[{"name":"kubeletconfigs","namespaced":false,"kind":"KubeletConfig","verbs":["list"]}]}`,
		"/api":  `{"kind":"APIVersions","versions":["v1"]}`,
		"/api/v1": `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"v1","resources":[
{"name":"nodes","namespaced":false,"kind":"Node","verbs":["list"]},{"name":"pods","namespaced":true,"kind":"Pod","verbs":["list"]}]}`,
		"/api/v1/nodes":                  `{"kind":"NodeList","apiVersion":"v1","items":[` + node("n1") + "," + node("n2") + `]}`,
		"/api/v1/pods":                   `{"kind":"PodList","apiVersion":"v1","items":[]}`,
		"/api/v1/nodes/n1/proxy/configz": `{"kubeletconfig":{"maxPods":110}}`,
		"/api/v1/nodes/n2/proxy/configz": `{"kubeletconfig":{"maxPods":110}}`,
		configs + "/kubeletconfigs":      `{"kind":"KubeletConfigList","apiVersion":"machineconfiguration.openshift.io/v1","items":[]}`,
		fettle + "/kubeletpools":         `{"kind":"KubeletPoolList","apiVersion":"fettle.dev/v1alpha1","items":[{"metadata":{"name":"workers","labels":{"pool":"w"}},"spec":{"nodeSelector":{"matchLabels":{"w":""}}}}]}`,
		fettle + "/nodekubelets":         `{"kind":"NodeKubeletList","apiVersion":"fettle.dev/v1alpha1","items":[{"metadata":{"name":"n2"},"spec":{"pool":"workers","turn":1},"status":{"turn":1,"phase":"Broken","message":"it does not start"}}]}`,
	}
}

// TestKubeletPlanReads tests that the agents' reports are read, by the objects' names.
func TestKubeletPlanReads(t *testing.T) {
	answers := kubeletCluster()
	t.Setenv("KUBECONFIG", "")
	file := filepath.Join(t.TempDir(), "k.yaml")
	if err := os.WriteFile(file, []byte(maxPodsConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	plan := func() string {
		t.Helper()
		var out, errs bytes.Buffer
		if code := runUntil(t.Context(), "1", []string{"kubelet", "plan", file, "--kubeconfig", api(t, answers)}, &out, &errs); code != ui.Done {
			t.Errorf("exit code %d: %s", code, errs.String())
		}
		return out.String()
	}
	if got := plan(); !strings.Contains(got, "failed on n2") || strings.Contains(got, "at once") || !strings.Contains(got, "runs with neither the new nor its former settings: it does not start") {
		t.Errorf("a pool that has stopped:\n%s", got)
	}
	answers[fettleObjects+"/nodekubelets"] = `{"kind":"NodeKubeletList","apiVersion":"fettle.dev/v1alpha1","items":[]}`
	if got := plan(); !strings.Contains(got, "1 (at once)") || strings.Contains(got, "failed") {
		t.Errorf("a pool that goes on:\n%s", got)
	}
	if got := plan(); !strings.HasPrefix(got, "2 of 2 nodes would change: 2 restart\n") || !strings.HasSuffix(got, "    kubectl apply -f "+file+"\n") {
		t.Errorf("the headline and the next command:\n%s", got)
	}
	sameHeadline(t, "kubelet", "plan", file, "--kubeconfig", api(t, answers))
	// What could not be read is not refused.
	for _, c := range []struct {
		lost   []string
		refuse bool
		code   int
		want   string
	}{
		{[]string{"n1"}, false, ui.Failed, "incomplete: 1 of 2 kubelets could not be read"},
		{[]string{"n1", "n2"}, false, ui.Failed, "nothing could be determined: cannot read the kubelet of any node"},
		{[]string{"n1"}, true, ui.Refused, "the plan contains changes that would be refused"},
	} {
		answers := maps.Clone(answers)
		for _, name := range c.lost {
			delete(answers, "/api/v1/nodes/"+name+"/proxy/configz")
		}
		if c.refuse {
			answers["/api/v1/nodes/n2/proxy/configz"] = `{"kubeletconfig":{"maxPods":110,"podsPerCore":-1,"cpuManagerPolicy":"static"}}`
		}
		code, out, errs := run(t, "kubelet", "plan", file, "--kubeconfig", api(t, answers))
		if code != c.code || !strings.Contains(errs, c.want) || !strings.Contains(strings.Join(strings.Fields(out), " "), "no address (status.addresses)") {
			t.Errorf("%v: exit code %d, said %q, want %q\n%s", c.lost, code, errs, c.want, out)
		}
	}
}

// TestPoolWords tests that a pool whose nodes are being restored is described as a rollout like any
// other.
func TestPoolWords(t *testing.T) {
	back := []kubelet.NodePlan{{Name: "n1", Class: "restart", Order: 1}}
	for _, c := range []struct {
		pool kubelet.PoolPlan
		want string
	}{
		{kubelet.PoolPlan{}, "no KubeletConfig selects it"},
		{kubelet.PoolPlan{KubeletConfigs: []string{"k"}}, "no settings from k"},
		{kubelet.PoolPlan{MaxUnavailable: 2, Nodes: back, Stopped: "the pool is paused"}, "no KubeletConfig selects it; at most 2 nodes unavailable at a time; the pool is paused"},
		{kubelet.PoolPlan{KubeletConfigs: []string{"k", "l"}, MaxUnavailable: 1, Nodes: back}, "no settings from k, l; at most 1 node unavailable at a time"},
		{kubelet.PoolPlan{KubeletConfigs: []string{"k"}, MaxUnavailable: 1, Settings: kubelet.Fields{"maxPods": 20}}, "maxPods 20 from k; at most 1 node unavailable at a time"},
		{kubelet.PoolPlan{Refused: "a\nb"}, "refused: a; b"},
	} {
		if got := poolWords(c.pool); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// TestKubeletPlanOfMany tests that the nodes that would refuse come first, that the others are
// folded, and that the headline counts all.
func TestKubeletPlanOfMany(t *testing.T) {
	pool := kubelet.PoolPlan{Name: "workers", MaxUnavailable: 1, Settings: kubelet.Fields{"maxPods": 20}, KubeletConfigs: []string{"k"}}
	for i := range 100 {
		pool.Nodes = append(pool.Nodes, kubelet.NodePlan{Name: fmt.Sprintf("n%d", i), Order: i + 1, Class: "drain and restart", Moves: 2, Settings: []string{"maxPods", "cpuManagerPolicy", "topologyManagerPolicy"}})
	}
	pool.Nodes[70] = kubelet.NodePlan{Name: "n70", Class: "unknown", Problem: "its kubelet is unhealthy"}
	p := kubelet.Plan{Pools: []kubelet.PoolPlan{pool}}
	p.Headline = kubeletHeadline(&p)
	want := map[string]float64{"nodes": 100, "nodes_changed": 99, "drain_and_restart": 99, "pods_moved": 198, "nodes_refused": 1}
	if diff := cmp.Diff(want, p.Headline.Figures); diff != "" {
		t.Error(diff)
	}
	var out bytes.Buffer
	a := &app{screen: ui.NewScreen(&out, &out)}
	a.screen.Width = 80
	a.printKubeletPlan(&p, false)
	page := out.String()
	if n := strings.Count(page, "\n"); n > 40 || strings.Index(page, "n70") > strings.Index(page, "n0 ") {
		t.Errorf("%d lines\n%s", n, page)
	}
	out.Reset()
	a.printKubeletPlan(&p, true)
	if n := strings.Count(out.String(), "drain and restart"); n != 100 { // and the headline
		t.Errorf("%d nodes with --details", n)
	}
}
