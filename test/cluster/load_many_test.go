package cluster

import (
	"fmt"
	"os"
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

	"fettle.dev/fettle/internal/peak"
)

// many runs loads of so many config maps of 1 kB.
type many struct {
	*loader
	starter *peak.Starter
}

// cost is what a run took of this machine.
type cost struct {
	took    time.Duration
	cpu     float64 // seconds for each object
	peakMiB float64
}

func newMany(t *testing.T, c *Cluster) *many {
	t.Helper()
	starter, err := peak.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = starter.Close() })
	m := &many{newLoader(t, c), starter}
	m.write("map.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: \"map-${IDENTIFIER}\"}\ndata: {text: \""+strings.Repeat("x", 1000)+"\"}\n")
	return m
}

// file is a load of so many.
func (m *many) file(name string, count int) string {
	return m.write(name+".yaml", fmt.Sprintf("ClusterLoader: {projects: [{num: 1, basename: %s, objects: [{num: %d, file: map.yaml}]}]}\n", name, count))
}

// make runs one, and leaves what it has made; undo takes it back.
func (m *many) make(name string, count int, more ...string) (result, cost) {
	m.t.Helper()
	cmd, out, errs := m.command(append([]string{"run", m.file(name, count), "--beyond-maximums"}, more...)...)
	c, err := m.measured(cmd, count)
	if err != nil {
		m.t.Fatalf("%v\n%s\n%s", err, out, errs)
	}
	x := m.parse(out.Bytes())
	m.t.Logf("%s: %d objects in %.1f s, %.1f/s, at most %d requests in progress, %d late, the slowest %.2f s; %.3f ms of CPU for each, %.0f MiB at most",
		name, count, c.took.Seconds(), x.RatePerS, x.Widest, x.Late, x.Times.Create.MaxS, 1e3*c.cpu, c.peakMiB)
	if x.created != count+1 {
		m.t.Errorf("%s: %+v", name, x)
	}
	return x, c
}

// mostMiB is what the client may take, whatever it does.
const mostMiB = 64

// TestLoadMany: 20,000 objects flat out, and 10,000 with 2,000 requests under way: what the
// client takes for each, next to a loop over client-go and to kube-burner where there is
// one, and that nothing stalls.
func TestLoadMany(t *testing.T) {
	if !Inside(t, Setup{Nightly: true, Programs: []string{"./kube/cmd/kubectl-fettle"}, Given: map[string]string{"kube-burner": os.Getenv(burnerEnv)}}) {
		return
	}
	c := Start(t, Options{})
	m := newMany(t, c)
	// What the plan says of etcd is about what its database grows by.
	planned, _ := m.run(0, "plan", m.file("planned", 20_000))
	flat, took := m.make("flat", 20_000)
	m.run(0, "undo")
	if took.cpu > 0.25e-3 {
		t.Errorf("flat out: %.3f ms of CPU for each object, want 0.25 at most", 1e3*took.cpu)
	}
	if took.peakMiB > mostMiB {
		t.Errorf("flat out: %.0f MiB, want %d at most", took.peakMiB, mostMiB)
	}
	wide, broad := m.make("wide", 10_000, "--in-flight=2000")
	m.run(0, "undo")
	if broad.peakMiB > mostMiB {
		t.Errorf("2,000 under way: %.0f MiB, want %d at most", broad.peakMiB, mostMiB)
	}
	if wide.Widest != 2000 {
		t.Errorf("%d requests were under way, want 2,000", wide.Widest)
	}
	// At 20 objects a second, which no machine is as slow as, the last of 2,000 would wait
	// for 100 s; a deadline is 60 s, after which it would be asked for again.
	if wide.Times.Create.MaxS > 50 || wide.Retried > 0 {
		t.Errorf("2,000 under way: the slowest took %.1f s, %d were tried again", wide.Times.Create.MaxS, wide.Retried)
	}
	naive := c.naive(t, 4_000)
	t.Logf("a loop over client-go's dynamic client: %.3f ms of CPU for each object, %.1f times as much", 1e3*naive, naive/took.cpu)
	if naive < took.cpu {
		t.Errorf("a loop over client-go's dynamic client takes less CPU: %.3f ms", 1e3*naive)
	}
	m.besideBurner(4_000)
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
}

// TestLoadRate: 500 a second are kept within 1 % for 36 s, by the client's own clock, and by
// the times that the API server has written into the objects. A machine on which the server
// cannot do so many is told by how many requests are under way, and is no reason to fail;
// where some wait for it, and not all that may, the client has to keep its rate anyway.
func TestLoadRate(t *testing.T) {
	if !Inside(t, Setup{Nightly: true, Programs: []string{"./kube/cmd/kubectl-fettle"}}) {
		return
	}
	c := Start(t, Options{})
	m := newMany(t, c)
	const count, rate, inFlight = 18_000, 500.0, 1000
	x, _ := m.make("paced", count, "--rate=500/s", fmt.Sprint("--in-flight=", inFlight))
	list, err := c.Client.CoreV1().ConfigMaps("paced0").List(t.Context(), meta.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	perSecond := map[int64]int{}
	first, last := int64(1<<62), int64(0)
	for i := range list.Items {
		if o := &list.Items[i]; strings.HasPrefix(o.Name, "map-") {
			at := o.CreationTimestamp.Unix()
			perSecond[at]++
			first, last = min(first, at), max(last, at)
		}
	}
	m.run(0, "undo")
	inner, least, most := 0, count, 0
	for at := first + 1; at < last; at++ { // whole seconds
		n := perSecond[at]
		inner += n
		least, most = min(least, n), max(most, n)
	}
	seconds := float64(last - first - 1)
	served := float64(inner) / seconds
	t.Logf("asked for 500/s: started %.2f/s; the server made %.2f/s in %.0f whole seconds, %d to %d in each; %d of %d were late", x.RatePerS, served, seconds, least, most, x.Late, count)
	switch {
	case x.Widest >= inFlight:
		t.Logf("the server could not do so many: all %d requests that may be were under way", inFlight)
	case x.RatePerS < 0.99*rate || x.RatePerS > 1.01*rate:
		t.Errorf("started %.2f/s, want 500 within 1 %%", x.RatePerS)
	case x.Widest > 64:
		t.Logf("the server was behind at times: up to %d requests waited for it", x.Widest)
	case seconds < 30 || served < 0.99*rate || served > 1.01*rate:
		t.Errorf("the server made %.2f/s in %.0f s, want 500 within 1 %%", served, seconds)
	}
}

// naive makes as many config maps in the obvious way, 64 at a time, and returns the
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
