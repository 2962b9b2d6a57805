package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

const (
	tunedNamespace  = "openshift-cluster-node-tuning-operator"
	operatorMetrics = "127.0.0.1:18080"
	operatorHealth  = "127.0.0.1:18081"
	// operatorNodes are those of most tests, and those for which the limits are.
	operatorNodes = 500
	// Limits of the operator's anonymous memory, in bytes. With the mapped pages of its program
	// file it is to have 60 MB at rest on a machine that does nothing else.
	operatorMemoryAtRest  = 40e6
	operatorMemoryWorking = 60e6
	// A change of all nodes is asked to be decided within 2 s, on a machine that does
	// nothing else. Beyond this the test fails.
	operatorSlowest = 2 * time.Minute
)

var (
	tunedResource   = schema.GroupVersionResource{Group: "tuned.openshift.io", Version: "v1", Resource: "tuneds"}
	profileResource = schema.GroupVersionResource{Group: "tuned.openshift.io", Version: "v1", Resource: "profiles"}
)

// tunedObjects are those of the test. What they mean is written once more, as code, in
// wanted.
const tunedObjects = `
apiVersion: tuned.openshift.io/v1
kind: Tuned
metadata: {name: database, namespace: openshift-cluster-node-tuning-operator}
spec:
  profile:
  - name: database
    data: |
      [main]
      include=openshift-node
      [sysctl]
      vm.swappiness=1
  recommend:
  - profile: database
    priority: 20
    match:
    - label: role
      value: database
      match: [{label: zone, value: a}, {label: zone, value: b}]
---
apiVersion: tuned.openshift.io/v1
kind: Tuned
metadata:
  name: latency
  namespace: openshift-cluster-node-tuning-operator
  annotations: {tuned.openshift.io/deferred: update}
spec:
  profile:
  - name: latency
    data: |
      [main]
      include=openshift-node
      [sysctl]
      net.core.busy_poll=50
  recommend:
  - profile: latency
    priority: 10
    match: [{label: latency}]
---
apiVersion: tuned.openshift.io/v1
kind: Tuned
metadata: {name: tie, namespace: openshift-cluster-node-tuning-operator}
spec:
  profile: [{name: never, data: "[vm]\n"}]
  recommend:
  - profile: never
    priority: 20
    match: [{label: role, value: database}, {label: none}]
`

// wanted says which profile a node with these labels is to have, by rules written out.
func wanted(labels map[string]string) string {
	_, latency := labels["latency"]
	_, control := labels["node-role.kubernetes.io/control-plane"]
	database := labels["role"] == "database"
	switch {
	case latency:
		return "latency"
	case database && (labels["zone"] == "a" || labels["zone"] == "b"):
		return "database"
	case database:
		return "never"
	case control:
		return "openshift-control-plane"
	}
	return "openshift-node"
}

// labelsOf are those of a node in a round; each round changes the profile of each node.
func labelsOf(i, round int) map[string]string {
	l := map[string]string{"zone": string(rune('a' + i%3))}
	switch (i + round) % 4 {
	case 0:
		l["role"] = "database"
	case 1:
		l["latency"] = ""
		l["role"] = "database"
	case 2:
		l["node-role.kubernetes.io/control-plane"] = ""
	}
	return l
}

func firstLabels(i int) map[string]string { return labelsOf(i, 0) }

// TestOperator: the operator with 500 nodes of kwok, by the objects and with the rights
// of kube/deploy/: report-only with another controller, taken over, all labels changed,
// killed in between, nodes that go, a bad object, pools, everything taken back, an API
// server that is away for a minute, labels of pods. Figures are printed.
func TestOperator(t *testing.T) {
	if !Inside(t, Setup{Programs: []string{"./kube/cmd/kubectl-fettle"}}) {
		return
	}
	b, a, start := newOperatorBench(t, operatorNodes, firstLabels)

	b.reportOnly(start)
	p := start("--adopt", "--lease=30s") // the machine has much to do
	a.apply("the test's objects", []byte(tunedObjects))
	b.settled("500 new nodes", time.Now())
	b.memory(p, "after the start", operatorMemoryWorking)
	b.atRest(p, operatorMemoryAtRest)

	for range 2 {
		b.flip(p)
	}
	b.oneRule()
	b.killed(p)
	b.badObject(a)
	b.pools(a)
	b.takenBack()
	b.status()
	b.must(p.Stop())

	b.mayReadPods()
	p = start("--pod-labels") // with the usual lease, which is longer than a minute
	b.outage(p)
	b.podLabels(a)
	b.memory(p, "at the end", operatorMemoryWorking)
	b.must(p.Stop())
}

func (b *operatorBench) ready() error { return b.get("http://"+operatorHealth+"/readyz", nil) }

func (b *operatorBench) get(url string, read func(text string) error) error {
	client := http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(url)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return err
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("%s: %s", url, resp.Status)
	case read == nil:
		return nil
	}
	return read(string(text))
}

// metric is one value of the operator's metrics, as its line begins.
func (b *operatorBench) metric(name string) (float64, error) {
	value := -1.0
	err := b.get("http://"+operatorMetrics+"/metrics", func(text string) error {
		for line := range strings.Lines(text) {
			if rest, ok := strings.CutPrefix(line, name+" "); ok {
				v, err := strconv.ParseFloat(strings.TrimSpace(rest), 64)
				value = v
				return err
			}
		}
		return fmt.Errorf("no metric %s", name)
	})
	return value, err
}

func (b *operatorBench) profiles() dynamic.ResourceInterface {
	return b.dynamic.Resource(profileResource).Namespace(tunedNamespace)
}

func (b *operatorBench) tuneds() dynamic.ResourceInterface {
	return b.dynamic.Resource(tunedResource).Namespace(tunedNamespace)
}

func text(o *unstructured.Unstructured, fields ...string) string {
	s, _, _ := unstructured.NestedString(o.Object, fields...)
	return s
}

// right compares all Profiles with what the labels of the round want.
func (b *operatorBench) right(ctx context.Context) error {
	list, err := b.profiles().List(ctx, meta.ListOptions{})
	if err != nil {
		return err
	}
	has := map[string]*unstructured.Unstructured{}
	for i := range list.Items {
		has[list.Items[i].GetName()] = &list.Items[i]
	}
	wrong, first := 0, ""
	for i := range b.nodes {
		name := nodeName(i)
		p, want := has[name], wanted(labelsOf(i, b.round))
		delete(has, name)
		problem := ""
		switch {
		case b.gone[name] && p != nil:
			problem = "has a Profile, and is gone"
		case b.gone[name]:
		case p == nil:
			problem = "has no Profile"
		case text(p, "spec", "config", "tunedProfile") != want:
			problem = "has " + text(p, "spec", "config", "tunedProfile") + ", want " + want
		case text(p, "spec", "config", "providerName") != "kwok":
			problem = "has another provider"
		case (p.GetAnnotations()["tuned.openshift.io/deferred"] == "update") != (want == "latency"):
			problem = "is deferred, or not"
		}
		if problem != "" {
			wrong++
			first = name + " " + problem
		}
	}
	if wrong > 0 || len(has) > 0 {
		return fmt.Errorf("%d nodes are not right, as %s; %d Profiles are of no node", wrong, first, len(has))
	}
	return nil
}

func nodeName(i int) string { return fmt.Sprintf("kwok-%04d", i) }

// settled waits until all Profiles are right.
func (b *operatorBench) settled(what string, since time.Time) {
	b.t.Helper()
	b.Wait(what+" to be decided", b.within(3*time.Minute), func(ctx context.Context) error {
		err := b.right(ctx)
		if err != nil && b.nodes > operatorNodes {
			time.Sleep(time.Duration(b.nodes) * time.Millisecond) // a list of so many is much to ask for
		}
		return err
	})
	b.t.Logf("%s: all Profiles are right %.2f s later", what, time.Since(since).Seconds())
}

// setLabels gives nodes the labels of the round, some at a time, and says when each
// patch was answered.
func (b *operatorBench) setLabels(from, to int) map[string]time.Time {
	b.t.Helper()
	var mu sync.Mutex
	done := map[string]time.Time{}
	numbers := make(chan int)
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for i := range numbers {
				set := map[string]any{"role": nil, "latency": nil, "node-role.kubernetes.io/control-plane": nil}
				for k, v := range labelsOf(i, b.round) {
					set[k] = v
				}
				patch, _ := json.Marshal(map[string]any{"metadata": map[string]any{"labels": set}})
				if _, err := b.Client.CoreV1().Nodes().Patch(b.t.Context(), nodeName(i), types.MergePatchType, patch, meta.PatchOptions{}); err != nil {
					b.t.Errorf("labels of %s: %v", nodeName(i), err)
				}
				mu.Lock()
				done[nodeName(i)] = time.Now()
				mu.Unlock()
			}
		})
	}
	for i := from; i < to; i++ {
		if !b.gone[nodeName(i)] {
			numbers <- i
		}
	}
	close(numbers)
	all.Wait()
	return done
}
