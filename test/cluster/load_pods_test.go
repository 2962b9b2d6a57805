package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// TestLoadPods runs the OpenShift 4.4 guide's example, pods in steps, and the built-in load, on
// nodes of kwok: all of it runs, is measured, and is gone afterwards.
func TestLoadPods(t *testing.T) {
	if !Inside(t, Setup{Nightly: true, Programs: []string{"./kube/cmd/kubectl-fettle"}, Files: []string{"kube/load/format/testdata/source002.yaml"}}) {
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

	t.Run("every field", func(t *testing.T) {
		(&loader{t, c, l.state, l.dir}).everyField()
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
