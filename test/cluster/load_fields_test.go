package cluster

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// documentedFields is a file of Cluster Loader with each field of tables 5.1 to 5.7 of the
// OpenShift 4.4 guide.
const documentedFields = `provider: local
ClusterLoader:
  cleanup: true
  projects:
  - num: 2
    basename: every
    tuning: slowly
    ifexists: reuse
    configmaps: [{map-a: text.txt}, {map-b: text.txt}]
    secrets: [{secret-a: text.txt}, {secret-b: text.txt}]
    templates:
    - {num: 3, basename: template, file: template.json, parameters: [{value: "1 2"}, {FROM_HERE: }]}
    pods:
    - num: 4
      basename: worker
      image: another
      file: pod.json
      parameters: {MODE: fast}
      sync:
        server: {enabled: true, port: 9099}
        running: true
        succeeded: true
        selectors: [{purpose: test}, {app: worker}]
        timeout: 5m
    - {num: 2, basename: plain, image: nothing}
  tuningsets:
  - name: slowly
    pods: {stepping: {stepsize: 2, pause: 1, timeout: 300}, rate_limit: {delay: 20}}
    templates: {stepping: {stepsize: 2, pause: 500 ms, timeout: 5 min}, rate_limit: {delay: 20 ms}}
  sync: {server: {enabled: true}, running: true, selectors: [{app: worker}], timeout: 5m}
`

// workers are the containers of the pods of a load: each that runs asks the servers of sync
// for /start and /stop, and those of the label app=worker end then.
type workers struct {
	c     *Cluster
	t     *testing.T
	mu    sync.Mutex
	begun map[string]bool // by the uid
	asked map[string]int  // for /start at 9099, by namespace
}

// follow has them work until ctx ends.
func (w *workers) follow(ctx context.Context) {
	for ctx.Err() == nil {
		list, err := w.c.Client.CoreV1().Pods("").List(ctx, meta.ListOptions{LabelSelector: "fettle.dev/load-run"})
		if err != nil {
			time.Sleep(time.Second)
			continue
		}
		for i := range list.Items {
			p := &list.Items[i]
			w.mu.Lock()
			if id := string(p.UID); p.Status.Phase == core.PodRunning && !w.begun[id] {
				w.begun[id] = true
				go w.work(ctx, p)
			}
			w.mu.Unlock()
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func (w *workers) work(ctx context.Context, p *core.Pod) {
	if p.Labels["app"] == "worker" {
		w.mu.Lock()
		w.asked[p.Namespace]++
		w.mu.Unlock()
		w.ask(ctx, 9099, "start")
		w.mu.Lock()
		if n := w.asked[p.Namespace]; n != 4 {
			w.t.Errorf("%s/%s was let go when %d of 4 had asked", p.Namespace, p.Name, n)
		}
		w.mu.Unlock()
		w.ask(ctx, 9099, "stop")
		ended := []byte(`{"status":{"phase":"Succeeded"}}`)
		if _, err := w.c.Client.CoreV1().Pods(p.Namespace).Patch(ctx, p.Name, types.MergePatchType, ended, meta.PatchOptions{}, "status"); err != nil && ctx.Err() == nil {
			w.t.Errorf("%s/%s: %v", p.Namespace, p.Name, err)
		}
	}
	w.ask(ctx, 9090, "start")
	w.ask(ctx, 9090, "stop")
}

func (w *workers) ask(ctx context.Context, port int, page string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/%s", port, page), nil)
	if err != nil {
		w.t.Error(err)
		return
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		if ctx.Err() == nil {
			w.t.Error(err)
		}
		return
	}
	resp.Body.Close()
}

// everyField runs such a file: what is documented happens, and what was there before in a
// namespace that is reused is there afterwards.
func (l *loader) everyField() {
	t, c, ctx := l.t, l.c, l.t.Context()
	t.Setenv("FROM_HERE", "of the environment")
	l.write("text.txt", "some text")
	l.write("pod.json", `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"x","labels":{"app":"worker"}},"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"nothing","env":[{"name":"MODE","value":"slow"}]}]}}`)
	l.write("template.json", `{"kind":"Template","apiVersion":"v1","parameters":[{"name":"IDENTIFIER"},{"name":"VALUE"},{"name":"FROM_HERE"}],"objects":[
 {"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"made-${IDENTIFIER}"},"data":{"v":"${VALUE}","e":"${FROM_HERE}"}},
 {"kind":"ReplicationController","apiVersion":"v1","metadata":{"name":"made-${IDENTIFIER}"},"spec":{"replicas":1,"selector":{"name":"made-${IDENTIFIER}"},"template":{"metadata":{"labels":{"name":"made-${IDENTIFIER}"}},"spec":{"containers":[{"name":"web","image":"nothing"}]}}}}]}`)
	file := l.write("every.yaml", documentedFields)
	_, err := c.Client.CoreV1().Namespaces().Create(ctx, &core.Namespace{ObjectMeta: meta.ObjectMeta{Name: "every0"}}, meta.CreateOptions{})
	c.must(err)
	defer func() {
		c.must(c.Client.CoreV1().Namespaces().Delete(ctx, "every0", meta.DeleteOptions{}))
	}()
	_, err = c.Client.CoreV1().ConfigMaps("every0").Create(ctx, &core.ConfigMap{ObjectMeta: meta.ObjectMeta{Name: "somebodys"}}, meta.CreateOptions{})
	c.must(err)
	before := c.world(ctx)
	run := func(args ...string) result {
		t.Helper()
		working, stop := context.WithCancel(ctx)
		var all sync.WaitGroup
		w := &workers{c: c, t: t, begun: map[string]bool{}, asked: map[string]int{}}
		all.Go(func() { w.follow(working) })
		x, said := l.run(0, append([]string{"run"}, args...)...)
		stop()
		all.Wait()
		for _, note := range []string{"basename of a template is ignored", "image is ignored; the images come from"} {
			if !strings.Contains(said, note) {
				t.Errorf("it does not say: %s\n%s", note, said)
			}
		}
		// Of each namespace four objects of files, three templates of two, and six pods.
		if x.created != 2*(4+6+6)+1 || x.reused != 1 || x.unmakeable != 0 || x.NotReady != 0 {
			t.Errorf("made: %+v", x)
		}
		return x
	}

	began := time.Now()
	run("--keep", file)
	// Of each namespace a step of templates, two of the workers and one of the others.
	if took := time.Since(began); took < 7*time.Second {
		t.Errorf("it took %s", took)
	}
	for _, space := range []string{"every0", "every1"} {
		cm, err := c.Client.CoreV1().ConfigMaps(space).Get(ctx, "map-b", meta.GetOptions{})
		c.must(err)
		secret, err := c.Client.CoreV1().Secrets(space).Get(ctx, "secret-b", meta.GetOptions{})
		c.must(err)
		made, err := c.Client.CoreV1().ConfigMaps(space).Get(ctx, "made-2", meta.GetOptions{})
		c.must(err)
		worker, err := c.Client.CoreV1().Pods(space).Get(ctx, "worker-pod-3", meta.GetOptions{})
		c.must(err)
		plain, err := c.Client.CoreV1().Pods(space).Get(ctx, "plain-pod-1", meta.GetOptions{})
		c.must(err)
		for what, ok := range map[string]bool{
			"config map": cm.Data["map-b"] == "some text", "secret": string(secret.Data["secret-b"]) == "some text",
			"template": made.Data["v"] == "1 2" && made.Data["e"] == "of the environment",
			"worker":   worker.Spec.Containers[0].Env[0].Value == "fast" && worker.Spec.Containers[0].Image == "nothing" && worker.Labels["purpose"] == "test" && worker.Status.Phase == core.PodSucceeded,
			"plain":    plain.Spec.Containers[0].Image == "nothing" && plain.Labels["purpose"] == "test" && plain.Status.Phase == core.PodRunning,
		} {
			if !ok {
				t.Errorf("%s: the %s is not as the file says", space, what)
			}
		}
	}
	l.run(0, "undo")
	c.gone(t, ctx, before)
	// With its cleanup, which leaves the namespace that was there.
	if x := run(file); x.State != "done, undone" {
		t.Errorf("with cleanup: %+v", x)
	}
	c.gone(t, ctx, before)
}
