package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// quickstart is a template as Cluster Loader's files name them, of kinds that every
// cluster has.
const quickstart = `{"kind": "Template", "apiVersion": "v1", "metadata": {"name": "%[1]s"},
"labels": {"template": "%[1]s"},
"parameters": [{"name": "IDENTIFIER", "value": "1"}, {"name": "PASSWORD", "generate": "expression", "from": "[a-zA-Z0-9]{16}"}],
"objects": [
 {"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "%[1]s-${IDENTIFIER}"}, "stringData": {"password": "${PASSWORD}"}},
 {"kind": "Service", "apiVersion": "v1", "metadata": {"name": "%[1]s-${IDENTIFIER}"}, "spec": {"ports": [{"port": 8080}], "selector": {"name": "%[1]s-${IDENTIFIER}"}}},
 {"kind": "ReplicationController", "apiVersion": "v1", "metadata": {"name": "%[1]s-${IDENTIFIER}"}, "spec": {"replicas": 2, "selector": {"name": "%[1]s-${IDENTIFIER}"},
  "template": {"metadata": {"labels": {"name": "%[1]s-${IDENTIFIER}"}}, "spec": {"containers": [{"name": "web", "image": "nothing"}]}}}}]}
`

// TestLoadPods: source 002's example, pods in steps, and the built-in load, on nodes of
// kwok: all of it runs, is measured, and is gone afterwards.
func TestLoadPods(t *testing.T) {
	if !Inside(t, Setup{Nightly: true, Programs: []string{"./cmd/kubectl-fettle"}, Files: []string{"internal/kube/load/clusterloader/testdata/source002.yaml"}}) {
		return
	}
	ctx := t.Context()
	c := Start(t, Options{Kwok: 20, KwokNode: func(_ int, n *core.Node) { n.Spec.Taints = nil }})
	l := newLoader(t, c)
	before := c.world(ctx)

	t.Run("source 002", func(t *testing.T) {
		l := &loader{t, c, l.state, l.dir}
		text, err := os.ReadFile(filepath.Join(FilesDir, "source002.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(filepath.Join(l.dir, "quickstarts"), 0o700); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"cakephp-mysql", "dancer-mysql", "django-postgresql", "quickstarts/nodejs-mongodb", "rails-postgresql"} {
			l.write(name+".json", fmt.Sprintf(quickstart, filepath.Base(name)))
		}
		file := l.write("test.yaml", string(text))
		x, _ := l.run(0, "plan", file)
		if x.Pods != 10 {
			t.Errorf("planned: %+v", x)
		}
		x, _ = l.run(0, "run", "--keep", file)
		if x.created != 20 || x.NotReady != 0 {
			t.Errorf("made: %+v", x)
		}
		c.running(t, ctx, 10)
		l.run(0, "undo")
		c.gone(t, ctx, before)
		// With its cleanup.
		if x, _ = l.run(0, "run", file); x.Removed != 20 || x.State != "done, undone" {
			t.Errorf("with cleanup: %+v", x)
		}
		c.gone(t, ctx, before)
	})

	t.Run("steps", func(t *testing.T) {
		l := &loader{t, c, l.state, l.dir}
		file := l.write("steps.yaml", `ClusterLoader:
  projects:
  - num: 2
    basename: steps
    tuning: slowly
    ifexists: fail
    pods:
    - num: 20
      basename: pods
      image: nothing
      sync: {running: true, selectors: [{purpose: test}], timeout: 2m}
  tuningsets:
  - {name: slowly, pods: {stepping: {stepsize: 5, pause: 1 s, timeout: 2 min}, rate_limit: {delay: 20 ms}}}
`)
		began := time.Now()
		x, _ := l.run(0, "run", file)
		took := time.Since(began)
		if x.created != 42 || x.NotReady != 0 || x.Times.Scheduled.N != 40 || x.Times.Ready.N != 40 {
			t.Errorf("made: %+v", x)
		}
		// Eight steps, a second after each.
		if took < 8*time.Second {
			t.Errorf("it took %s", took)
		}
		pods, err := c.Client.CoreV1().Pods("").List(ctx, meta.ListOptions{LabelSelector: "purpose=test"})
		if err != nil || len(pods.Items) != 40 {
			t.Fatalf("%d pods, %v", len(pods.Items), err)
		}
		// No pod of a step was made before those of the step before ran.
		started := map[string]time.Time{}
		for i := range pods.Items {
			p := &pods.Items[i]
			started[p.Namespace+"/"+p.Name] = p.CreationTimestamp.Time
		}
		for _, space := range []string{"steps0", "steps1"} {
			for step := 1; step < 4; step++ {
				one, other := started[fmt.Sprintf("%s/pods-pod-%d", space, step*5-1)], started[fmt.Sprintf("%s/pods-pod-%d", space, step*5)]
				if other.Sub(one) < time.Second {
					t.Errorf("%s: step %d began %s after the one before", space, step, other.Sub(one))
				}
			}
		}
		l.run(0, "undo")
		c.gone(t, ctx, before)
	})

	t.Run("built in", func(t *testing.T) {
		l := &loader{t, c, l.state, l.dir}
		if x, _ := l.run(0, "run"); x.created != 30 || x.NotReady != 0 || x.State != "done, undone" {
			t.Errorf("made: %+v", x)
		}
		c.gone(t, ctx, before)
	})

	t.Run("too many", func(t *testing.T) {
		l := &loader{t, c, l.state, l.dir}
		file := l.write("many.yaml", "ClusterLoader: {projects: [{num: 1, basename: many, pods: [{num: 3000, basename: p, image: nothing}]}]}\n")
		if _, said := l.run(4, "run", file); !strings.Contains(said, "the maximum is 110") {
			t.Errorf("3000 pods on 20 nodes: %s", said)
		}
		c.gone(t, ctx, before)
	})
}

func (c *Cluster) running(t *testing.T, ctx context.Context, want int) {
	t.Helper()
	pods, err := c.Client.CoreV1().Pods("").List(ctx, meta.ListOptions{LabelSelector: "fettle.dev/load-run"})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for i := range pods.Items {
		if pods.Items[i].Status.Phase == core.PodRunning {
			n++
		}
	}
	if n != want {
		t.Errorf("%d pods of the run are Running, want %d", n, want)
	}
}

// gone waits until the world is as before: what controllers own goes a little later.
func (c *Cluster) gone(t *testing.T, ctx context.Context, before map[string]string) {
	t.Helper()
	end := time.Now().Add(time.Minute)
	for {
		err := same(before, c.world(ctx))
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("a minute after the undo:\n%v", err)
		}
		time.Sleep(500 * time.Millisecond)
	}
}

// TestLoadMany: 20,000 objects flat out, at a rate, and with 2,000 requests under way: what
// the client takes for each, and that the rate is kept. A busy machine is slow, which is
// said, and is no reason to fail; what does not depend on it is.
func TestLoadMany(t *testing.T) {
	if !Inside(t, Setup{Nightly: true, Programs: []string{"./cmd/kubectl-fettle"}}) {
		return
	}
	c := Start(t, Options{})
	l := newLoader(t, c)
	l.write("map.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: \"map-${IDENTIFIER}\"}\ndata: {text: \""+strings.Repeat("x", 1000)+"\"}\n")
	// What the plan says of etcd is about what its database grows by.
	planned, _ := l.run(0, "plan", l.write("planned.yaml", "ClusterLoader: {projects: [{num: 1, basename: flat, objects: [{num: 20000, file: map.yaml}]}]}\n"))
	many := func(name string, count int, more ...string) (result, float64, float64) {
		t.Helper()
		file := l.write(name+".yaml", fmt.Sprintf("ClusterLoader: {projects: [{num: 1, basename: %s, objects: [{num: %d, file: map.yaml}]}]}\n", name, count))
		cmd, out, errs := l.command(append([]string{"run", file, "--beyond-maximums"}, more...)...)
		began := time.Now()
		if err := cmd.Run(); err != nil {
			t.Fatalf("%v\n%s\n%s", err, out, errs)
		}
		took := time.Since(began)
		x := l.parse(out.Bytes())
		usage := cmd.ProcessState.SysUsage().(*syscall.Rusage)
		cpu := (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds() / float64(count)
		rss := float64(usage.Maxrss) / 1024
		t.Logf("%s: %d objects in %.1f s, %.1f/s; %.3f ms of CPU for each, %.0f MiB at most", name, count, took.Seconds(), x.RatePerS, 1e3*cpu, rss)
		if x.created != count+1 {
			t.Errorf("%s: %+v", name, x)
		}
		l.run(0, "undo")
		return x, cpu, rss
	}
	flat, cpu, rss := many("flat", 20_000)
	if cpu > 0.25e-3 {
		t.Errorf("flat out: %.3f ms of CPU for each object, want 0.25 at most", 1e3*cpu)
	}
	if rss > 64 {
		t.Errorf("flat out: %.0f MiB, want 64 at most", rss)
	}
	naive := c.naive(t, 4_000)
	t.Logf("a loop over client-go's dynamic client: %.3f ms of CPU for each object, %.1f times as much", 1e3*naive, naive/cpu)
	if naive < cpu {
		t.Errorf("a loop over client-go's dynamic client takes less CPU: %.3f ms", 1e3*naive)
	}
	t.Logf("etcd: the plan says %d bytes, the database has grown by %d", planned.EtcdBytes, flat.Servers.GrownBytes)
	if grown := float64(flat.Servers.GrownBytes); grown > 0 && (grown > 2*float64(planned.EtcdBytes) || grown < float64(planned.EtcdBytes)/2) {
		t.Errorf("etcd: the plan says %d bytes, the database has grown by %d", planned.EtcdBytes, flat.Servers.GrownBytes)
	}
	posts := 0
	for _, c := range flat.Servers.Calls {
		if c.Verb == "POST" && c.Resource == "configmaps" {
			posts = c.N
		}
	}
	if posts < 20_000 || posts > 20_100 {
		t.Errorf("by the API server's metrics %d config maps were posted", posts)
	}
	x, _, _ := many("paced", 5_000, "--rate=500/s")
	if x.RatePerS < 495 || x.RatePerS > 505 {
		if x.Late > 50 {
			t.Logf("500/s were not kept: %d objects were late, because the server was", x.Late)
		} else {
			t.Errorf("500/s: %.1f", x.RatePerS)
		}
	}
	_, _, rss = many("wide", 10_000, "--in-flight=2000")
	t.Logf("2,000 in flight: %.0f MiB", rss)
}

// naive makes as many config maps as anybody would do it, 64 at a time, and returns the
// seconds of CPU that this process took for each.
func (c *Cluster) naive(t *testing.T, count int) float64 {
	t.Helper()
	client, err := dynamic.NewForConfig(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Client.CoreV1().Namespaces().Create(t.Context(), &core.Namespace{ObjectMeta: meta.ObjectMeta{Name: "naive"}}, meta.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	maps := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace("naive")
	text := strings.Repeat("x", 1000)
	numbers := make(chan int)
	var all sync.WaitGroup
	before := cpuOfSelf(t)
	for range 64 {
		all.Go(func() {
			for i := range numbers {
				o := &unstructured.Unstructured{Object: map[string]any{
					"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": fmt.Sprint("map-", i)}, "data": map[string]any{"text": text},
				}}
				if _, err := maps.Create(t.Context(), o, meta.CreateOptions{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range count {
		numbers <- i
	}
	close(numbers)
	all.Wait()
	return (cpuOfSelf(t) - before) / float64(count)
}

func cpuOfSelf(t *testing.T) float64 {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}
