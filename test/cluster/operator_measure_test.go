package cluster

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// flip changes the labels of all nodes, and measures how long each takes to be decided.
func (b *operatorBench) flip(p *Program) {
	b.t.Helper()
	b.round++
	seen, watched := b.watchRight()
	before, queued, worked := b.writes(), b.mean(waiting), b.mean(working)
	began, cpu := time.Now(), cpuSeconds(b.t, p)
	done := b.setLabels(0, b.nodes)
	flipped := time.Now()
	select {
	case <-watched:
	case <-time.After(b.within(operatorSlowest)):
		b.t.Fatalf("not all nodes are decided %s after their labels were changed", b.within(operatorSlowest))
	}
	var each []time.Duration
	last := flipped
	for name, at := range seen {
		each = append(each, at.Sub(done[name]))
		if at.After(last) {
			last = at
		}
	}
	slices.Sort(each)
	n := len(each)
	b.t.Logf("labels of %d nodes changed in %.2f s; the last Profile is right %.2f s after the last label; from a label to its Profile: median %.0f ms, 99th of 100 %.0f ms, most %.0f ms; %.2f s of CPU",
		n, flipped.Sub(began).Seconds(), last.Sub(flipped).Seconds(), ms(each[n/2]), ms(each[n*99/100]), ms(each[n-1]), cpuSeconds(b.t, p)-cpu)
	queued, worked = b.mean(waiting).since(queued), b.mean(working).since(worked)
	b.t.Logf("of that in the operator: a node waits in its queue for %.1f ms on average, and to decide it and to have its Profile taken by the API server takes %.1f ms", queued.ms(), worked.ms())
	b.settled("labels of all nodes", flipped)
	// A node of which two changes are seen before its Profile's is written twice; the
	// second time the API server has nothing to change.
	if wrote := b.writes() - before; wrote < float64(n) || wrote > 1.1*float64(n) {
		b.t.Errorf("%v writes of Profiles for %d nodes", wrote, n)
	}
}

// The metrics of controller-runtime about the queue of nodes, without _sum and _count.
const (
	waiting = "workqueue_queue_duration_seconds%s{controller=\"nodes\",name=\"nodes\"}"
	working = "controller_runtime_reconcile_time_seconds%s{controller=\"nodes\"}"
)

// mean is a sum of seconds, and of how many.
type mean struct{ sum, count float64 }

func (m mean) since(before mean) mean { return mean{m.sum - before.sum, m.count - before.count} }
func (m mean) ms() float64            { return 1000 * m.sum / max(m.count, 1) }

// mean reads one of these metrics.
func (b *operatorBench) mean(name string) (m mean) {
	b.t.Helper()
	for part, into := range map[string]*float64{"_sum": &m.sum, "_count": &m.count} {
		v, err := b.metric(fmt.Sprintf(name, part))
		if err != nil {
			b.t.Fatal(err)
		}
		*into = v
	}
	return m
}

// watchRight watches the Profiles until all of them are right, and says when each was
// first seen to be; the map is complete when the channel is closed.
func (b *operatorBench) watchRight() (map[string]time.Time, <-chan struct{}) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), 2*b.within(operatorSlowest))
	b.t.Cleanup(cancel)
	seen, done := map[string]time.Time{}, make(chan struct{})
	began := make(chan struct{})
	go func() {
		for first := true; ctx.Err() == nil; first = false {
			// From whatever state the API server has in memory: no watch waits for etcd.
			w, err := b.profiles().Watch(ctx, meta.ListOptions{ResourceVersion: "0"})
			if first {
				close(began)
			}
			if err != nil {
				b.t.Logf("watching Profiles: %v", err)
				time.Sleep(100 * time.Millisecond)
				continue
			}
			for e := range w.ResultChan() {
				o, ok := e.Object.(*unstructured.Unstructured)
				if !ok {
					b.t.Logf("watching Profiles: %s %v", e.Type, e.Object)
					continue
				}
				i, err := strconv.Atoi(strings.TrimPrefix(o.GetName(), "kwok-"))
				if _, already := seen[o.GetName()]; err != nil || already || text(o, "spec", "config", "tunedProfile") != wanted(labelsOf(i, b.round)) {
					continue
				}
				if seen[o.GetName()] = time.Now(); len(seen) == b.nodes-len(b.gone) {
					w.Stop()
					close(done)
					return
				}
			}
		}
	}()
	<-began
	return seen, done
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// writes are the writes of Profiles since the operator was started.
func (b *operatorBench) writes() float64 {
	b.t.Helper()
	sum := 0.0
	for _, action := range []string{"create", "update", "delete"} {
		v, err := b.metric(fmt.Sprintf("fettle_operator_profile_writes_total{action=%q}", action))
		if err != nil {
			b.t.Fatal(err)
		}
		sum += v
	}
	return sum
}

// memory tests how much memory the operator has that the kernel cannot take back. The pages of its
// program file are not counted: how many of them are mapped depends on the page cache.
func (b *operatorBench) memory(p *Program, when string, most float64) {
	b.t.Helper()
	size := rss(b.t, p)
	b.t.Logf("memory of the operator %s: anonymous %.1f MB; resident %.1f MB (most %.1f MB)", when, size["RssAnon:"]/1e6, size["VmRSS:"]/1e6, size["VmHWM:"]/1e6)
	if size["RssAnon:"] == 0 || size["RssAnon:"] > most {
		b.t.Errorf("the operator has %.1f MB of anonymous memory %s, more than %.0f MB", size["RssAnon:"]/1e6, when, most/1e6)
	}
}

// rss is what a program takes of memory, in bytes (proc(5), status).
func rss(t *testing.T, p *Program) map[string]float64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
	if err != nil {
		t.Fatal(err)
	}
	size := map[string]float64{}
	for line := range strings.Lines(string(status)) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[2] == "kB" {
			kib, _ := strconv.ParseInt(fields[1], 10, 64)
			size[fields[0]] = float64(kib << 10)
		}
	}
	return size
}

// cpuSeconds is what a program has used (proc(5): utime and stime, in hundredths).
func cpuSeconds(t *testing.T, p *Program) float64 {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID()))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest)
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return float64(user+system) / 100
}

// atRest: where nothing changes nothing is written, and little is done; most is the memory
// that the operator may have then, in bytes.
func (b *operatorBench) atRest(p *Program, most float64) {
	b.t.Helper()
	const pause = 30 * time.Second // it rests when it has done nothing for five seconds
	list, err := b.profiles().List(b.t.Context(), meta.ListOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	writes, cpu := b.writes(), cpuSeconds(b.t, p)
	time.Sleep(pause)
	b.t.Logf("at rest the operator uses %.1f %% of a CPU", 100*(cpuSeconds(b.t, p)-cpu)/pause.Seconds())
	after, err := b.profiles().List(b.t.Context(), meta.ListOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	versions := map[string]string{}
	for _, p := range list.Items {
		versions[p.GetName()] = p.GetResourceVersion()
	}
	for _, p := range after.Items {
		if versions[p.GetName()] != p.GetResourceVersion() {
			b.t.Errorf("Profile %s was written, and nothing had changed", p.GetName())
		}
	}
	if now := b.writes(); now != writes {
		b.t.Errorf("%v writes at rest", now-writes)
	}
	for end := time.Now().Add(2 * time.Minute); rss(b.t, p)["RssAnon:"] > most && time.Now().Before(end); {
		time.Sleep(time.Second) // a machine that is busy with something else lets it rest later
	}
	b.memory(p, "at rest", most)
}
