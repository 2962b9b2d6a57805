package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

const (
	machineNamespace = "openshift-machine-api"
	setLabel         = "machine.openshift.io/cluster-api-machineset"
	deleteMark       = "machine.openshift.io/delete-machine"
	// neverJoins is the annotation of a set whose new machines do not come up.
	neverJoins = "fettle.test/never-joins"
	// cloudFinalizer keeps a machine until its node is gone.
	cloudFinalizer = "fettle.test/cloud"
	// broken is the condition that tests give to nodes: kwok says nothing of it.
	broken = "FettleTestBroken"
)

func machineResource(kind string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "machine.openshift.io", Version: "v1beta1", Resource: kind}
}

// cloud is a simulation of a machine provider, and of OpenShift's controllers of machine
// sets and machines: a set keeps its number of machines, those that are marked go first,
// a machine gets a node of kwok after a while, and loses it when it is deleted. There is
// no cloud, and no machine; what is real is the API server, and what fettle does there.
type cloud struct {
	t       *testing.T
	c       *Cluster
	dynamic dynamic.Interface

	known int // machines, of the one who ticks

	mu     sync.Mutex
	events []string
	// inFlight is the largest number of machines that were being deleted at once.
	inFlight int
	// leastReady is the smallest number of machines with a node of each set since reset.
	leastReady map[string]int
}

func (c *Cluster) cloud(t *testing.T, d dynamic.Interface) *cloud {
	x := &cloud{t: t, c: c, dynamic: d, leastReady: map[string]int{}}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			if err := x.tick(ctx); err != nil && ctx.Err() == nil {
				t.Logf("the simulated provider: %v", err)
			}
			select {
			case <-ctx.Done():
			case <-time.After(200*time.Millisecond + time.Duration(x.known)*2*time.Millisecond):
			}
		}
	}()
	t.Cleanup(func() {
		stop()
		<-done
		if t.Failed() {
			t.Logf("what the simulated provider did last:\n%s", strings.Join(x.events[max(0, len(x.events)-40):], "\n"))
		}
	})
	return x
}

func (x *cloud) in(kind string) dynamic.ResourceInterface {
	return x.dynamic.Resource(machineResource(kind)).Namespace(machineNamespace)
}

func (x *cloud) note(format string, args ...any) {
	x.events = append(x.events, time.Now().Format("05.000 ")+fmt.Sprintf(format, args...))
}

// tick brings everything one step nearer to what it is to be.
func (x *cloud) tick(ctx context.Context) error {
	sets, err := x.in("machinesets").List(ctx, meta.ListOptions{})
	if err != nil {
		return err
	}
	machines, err := x.in("machines").List(ctx, meta.ListOptions{})
	if err != nil {
		return err
	}
	x.known = len(machines.Items)
	x.mu.Lock()
	defer x.mu.Unlock()
	leaving := 0
	for i := range machines.Items {
		if machines.Items[i].GetDeletionTimestamp() != nil {
			leaving++
		}
	}
	x.inFlight = max(x.inFlight, leaving)
	for i := range machines.Items {
		if err := x.machine(ctx, &machines.Items[i], sets.Items); err != nil {
			return err
		}
	}
	for i := range sets.Items {
		if err := x.keep(ctx, &sets.Items[i], machines.Items); err != nil {
			return err
		}
	}
	return x.pods(ctx)
}

// pods says of new pods that they run, and lets those go that have been asked to end.
func (x *cloud) pods(ctx context.Context) error {
	pods, err := x.c.Client.CoreV1().Pods("default").List(ctx, meta.ListOptions{})
	if err != nil {
		return err
	}
	none := int64(0)
	for _, p := range pods.Items {
		in := x.c.Client.CoreV1().Pods(p.Namespace)
		switch {
		case p.Spec.NodeName == "":
		case p.DeletionTimestamp != nil:
			err = in.Delete(ctx, p.Name, meta.DeleteOptions{GracePeriodSeconds: &none})
		case p.Status.Phase == core.PodPending:
			patch, _ := json.Marshal(map[string]any{"status": map[string]any{"phase": "Running", "conditions": []any{
				map[string]any{"type": "ContainersReady", "status": "True"}, map[string]any{"type": "Ready", "status": "True", "lastTransitionTime": time.Now().UTC().Format(time.RFC3339)},
			}}})
			_, err = in.Patch(ctx, p.Name, types.StrategicMergePatchType, patch, meta.PatchOptions{}, "status")
		}
		if ignoreGone(err) != nil {
			return err
		}
	}
	return nil
}

// keep makes and deletes machines of a set.
func (x *cloud) keep(ctx context.Context, set *unstructured.Unstructured, all []unstructured.Unstructured) error {
	var mine []*unstructured.Unstructured
	joined := 0
	for i := range all {
		m := &all[i]
		if o := meta.GetControllerOf(m); o != nil && o.UID == set.GetUID() && m.GetDeletionTimestamp() == nil {
			mine = append(mine, m)
			if text(m, "status", "nodeRef", "name") != "" {
				joined++
			}
		}
	}
	if least, ok := x.leastReady[set.GetName()]; ok {
		x.leastReady[set.GetName()] = min(least, joined)
	}
	replicas, _, _ := unstructured.NestedInt64(set.Object, "spec", "replicas")
	if set.GetDeletionTimestamp() != nil {
		return nil
	}
	labels, _, _ := unstructured.NestedStringMap(set.Object, "spec", "template", "metadata", "labels")
	yes := true
	for range int(replicas) - len(mine) {
		m := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine", "spec": map[string]any{}}}
		m.SetGenerateName(set.GetName() + "-")
		m.SetNamespace(machineNamespace)
		m.SetLabels(labels)
		m.SetFinalizers([]string{cloudFinalizer})
		m.SetOwnerReferences([]meta.OwnerReference{{APIVersion: "machine.openshift.io/v1beta1", Kind: "MachineSet", Name: set.GetName(), UID: set.GetUID(), Controller: &yes}})
		made, err := x.in("machines").Create(ctx, m, meta.CreateOptions{})
		if err != nil {
			return err
		}
		x.note("machine %s is made", made.GetName())
	}
	slices.SortStableFunc(mine, func(a, b *unstructured.Unstructured) int {
		return len(b.GetAnnotations()[deleteMark]) - len(a.GetAnnotations()[deleteMark])
	})
	for _, m := range mine[:max(0, len(mine)-int(replicas))] {
		x.note("machine %s is deleted by its set", m.GetName())
		if err := x.in("machines").Delete(ctx, m.GetName(), meta.DeleteOptions{}); err != nil && !errors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// machine lets a machine join, or go.
func (x *cloud) machine(ctx context.Context, m *unstructured.Unstructured, sets []unstructured.Unstructured) error {
	name := m.GetName()
	if at := m.GetDeletionTimestamp(); at != nil {
		if time.Since(at.Time) < time.Second {
			return nil
		}
		if node := text(m, "status", "nodeRef", "name"); node != "" {
			if err := x.c.Client.CoreV1().Nodes().Delete(ctx, node, meta.DeleteOptions{}); err != nil && !errors.IsNotFound(err) {
				return err
			}
		}
		x.note("machine %s is gone", name)
		return ignoreGone(x.patch(ctx, "machines", name, map[string]any{"metadata": map[string]any{"finalizers": nil}}))
	}
	owner := meta.GetControllerOf(m)
	stuck := owner != nil && slices.ContainsFunc(sets, func(s unstructured.Unstructured) bool {
		return s.GetUID() == owner.UID && s.GetAnnotations()[neverJoins] != ""
	})
	if text(m, "status", "nodeRef", "name") != "" || stuck || time.Since(m.GetCreationTimestamp().Time) < time.Second {
		return nil
	}
	n := kwokNode(0)
	n.Name = name
	n.Labels[core.LabelHostname] = name
	n.Labels["machine"] = "yes"
	// The node is Ready at once, whenever kwok comes to say so.
	now := meta.Now()
	n.Status.Conditions = []core.NodeCondition{{Type: core.NodeReady, Status: core.ConditionTrue, LastHeartbeatTime: now, LastTransitionTime: now, Reason: "Simulated", Message: "said by the simulated provider"}}
	if m.GetLabels()["machine.openshift.io/cluster-api-machine-role"] == "master" {
		n.Labels["node-role.kubernetes.io/control-plane"] = ""
	}
	if _, err := x.c.Client.CoreV1().Nodes().Create(ctx, n, meta.CreateOptions{}); err != nil && !errors.IsAlreadyExists(err) {
		return err
	}
	x.note("machine %s has joined", name)
	return ignoreGone(x.patch(ctx, "machines", name, map[string]any{"status": map[string]any{
		"phase": "Running", "nodeRef": map[string]any{"kind": "Node", "name": name}, "lastUpdated": time.Now().UTC().Format(time.RFC3339),
	}}, "status"))
}

func ignoreGone(err error) error {
	if errors.IsNotFound(err) {
		return nil
	}
	return err
}

func (x *cloud) patch(ctx context.Context, kind, name string, change map[string]any, sub ...string) error {
	patch, err := json.Marshal(change)
	if err == nil {
		_, err = x.in(kind).Patch(ctx, name, types.MergePatchType, patch, meta.PatchOptions{}, sub...)
	}
	return err
}

// makeSet makes a machine set and waits until its machines have joined.
func (x *cloud) makeSet(name string, replicas int, more map[string]string) {
	x.t.Helper()
	labels := map[string]any{setLabel: name}
	for k, v := range more {
		labels[k] = v
	}
	set := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineSet", "metadata": map[string]any{"name": name},
		"spec": map[string]any{
			"replicas": int64(replicas), "selector": map[string]any{"matchLabels": map[string]any{setLabel: name}},
			"template": map[string]any{"metadata": map[string]any{"labels": labels}},
		},
	}}
	if _, err := x.in("machinesets").Create(x.t.Context(), set, meta.CreateOptions{}); err != nil {
		x.t.Fatal(err)
	}
	x.settled(name, replicas)
}

// settled waits until a set has so many machines, all with a Ready node.
func (x *cloud) settled(name string, replicas int) {
	x.t.Helper()
	x.c.Wait(fmt.Sprintf("%d machines of %s", replicas, name), 2*time.Minute+time.Duration(replicas)*time.Second, func(ctx context.Context) error {
		machines := x.machines(name)
		if len(machines) != replicas {
			return fmt.Errorf("there are %d", len(machines))
		}
		for _, m := range machines {
			n, err := x.c.Client.CoreV1().Nodes().Get(ctx, m.GetName(), meta.GetOptions{})
			if err == nil {
				err = ready(n)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// machines are those of a set.
func (x *cloud) machines(set string) []unstructured.Unstructured {
	x.t.Helper()
	list, err := x.in("machines").List(x.t.Context(), meta.ListOptions{LabelSelector: setLabel + "=" + set})
	if err != nil {
		x.t.Fatal(err)
	}
	slices.SortFunc(list.Items, func(a, b unstructured.Unstructured) int {
		if a.GetName() < b.GetName() {
			return -1
		}
		return 1
	})
	return list.Items
}

// ill gives the nodes of the first machines of a set a condition, since a while, and
// returns the machines' names.
func (x *cloud) ill(set string, count int, since time.Duration) (names []string) {
	x.t.Helper()
	for _, m := range x.machines(set)[:count] {
		patch, _ := json.Marshal(map[string]any{"status": map[string]any{"conditions": []any{map[string]any{
			"type": broken, "status": "True", "lastTransitionTime": time.Now().Add(-since).UTC().Format(time.RFC3339), "reason": "Test", "message": "said by the test",
		}}}})
		if _, err := x.c.Client.CoreV1().Nodes().Patch(x.t.Context(), m.GetName(), types.StrategicMergePatchType, patch, meta.PatchOptions{}, "status"); err != nil {
			x.t.Fatal(err)
		}
		names = append(names, m.GetName())
	}
	return names
}

// dropSet takes a set and its machines away.
func (x *cloud) dropSet(name string) {
	x.t.Helper()
	if err := x.in("machinesets").Delete(x.t.Context(), name, meta.DeleteOptions{}); err != nil {
		x.t.Fatal(err)
	}
	for _, m := range x.machines(name) {
		if err := x.in("machines").Delete(x.t.Context(), m.GetName(), meta.DeleteOptions{}); ignoreGone(err) != nil {
			x.t.Fatal(err)
		}
	}
	x.c.Wait("the machines of "+name+" to be gone", time.Minute, func(context.Context) error {
		if n := len(x.machines(name)); n > 0 {
			return fmt.Errorf("there are %d", n)
		}
		return nil
	})
}
