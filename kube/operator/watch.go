package operator

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"
	"unique"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"fettle.dev/fettle/kube/cluster"
	"fettle.dev/fettle/kube/kubelet"
	"fettle.dev/fettle/kube/tuned"
)

// theObjects is the only item of the objects' queue.
const theObjects = "objects"

// byNode is the index of pods by node.
const byNode = "spec.nodeName"

// watch creates the two queues and their sources.
func (o *operator) watch(m manager.Manager) error {
	objects, err := cluster.Queue(m, "objects", 1, func(ctx context.Context, _ string) (reconcile.Result, error) { return o.readObjects(ctx) })
	if err != nil {
		return err
	}
	o.objectsQueue = objects
	nodes, err := cluster.Queue(m, "nodes", writers, func(ctx context.Context, name string) (reconcile.Result, error) {
		return reconcile.Result{}, o.decideNode(ctx, name)
	})
	if err != nil {
		return err
	}
	one := func(client.Object) string { return theObjects }
	own := func(p client.Object) string { return p.GetName() }
	heard := func(node string) string {
		if node != "" {
			o.tally.heard(node, time.Now())
		}
		return node
	}
	for _, s := range []source.TypedSource[string]{
		// Without any object the object default has to be created.
		cluster.Start(func(q workqueue.TypedRateLimitingInterface[string]) { q.Add(theObjects) }),
		kind(o, &tuned.Tuned{}, one, func(old, now *tuned.Tuned) bool { return objectInput(old) != objectInput(now) }),
		foreignProfiles(o),
	} {
		if err := objects.Watch(s); err != nil {
			return err
		}
	}
	sources := []source.TypedSource[string]{
		cluster.Start(func(q workqueue.TypedRateLimitingInterface[string]) {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.nodes = q
		}),
		kind(o, &corev1.Node{}, func(n client.Object) string { return heard(n.GetName()) }, func(old, now *corev1.Node) bool {
			return old.UID != now.UID || old.Spec.ProviderID != now.Spec.ProviderID || !maps.Equal(old.Labels, now.Labels)
		}),
		// Ignore the agents' reports in the status and in annotations, which the cache does not
		// keep.
		kind(o, &tuned.Profile{}, own, func(old, now *tuned.Profile) bool {
			return old.UID != now.UID || old.Generation != now.Generation || !maps.Equal(old.Labels, now.Labels) || !maps.Equal(old.Annotations, now.Annotations)
		}),
	}
	if o.Recommend.PodLabels {
		err := m.GetFieldIndexer().IndexField(context.Background(), &corev1.Pod{}, byNode, func(p client.Object) []string {
			return []string{p.(*corev1.Pod).Spec.NodeName}
		})
		if err != nil {
			return err
		}
		sources = append(sources, kind(o, &corev1.Pod{}, func(p client.Object) string { return heard(p.(*corev1.Pod).Spec.NodeName) }, func(old, now *corev1.Pod) bool {
			return old.Spec.NodeName != now.Spec.NodeName || cluster.Ended(old) != cluster.Ended(now) || !maps.Equal(old.Labels, now.Labels)
		}))
	}
	for _, s := range sources {
		if err := nodes.Watch(s); err != nil {
			return err
		}
	}
	return nil
}

// watchPools starts to watch the MachineConfigPools.
func (o *operator) watchPools() error {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(kubelet.MachineConfigPool)
	return o.objectsQueue.Watch(kind(o, u, func(client.Object) string { return theObjects },
		func(old, now *unstructured.Unstructured) bool { return old.GetGeneration() != now.GetGeneration() }))
}

// kind watches a kind of object. Each event adds a name to the queue, unless the name is ""; an
// update does so only if changed returns true.
func kind[T client.Object](o *operator, of T, name func(client.Object) string, changed func(old, now T) bool) source.TypedSyncingSource[string] {
	return source.TypedKind(o.cache, of,
		handler.TypedEnqueueRequestsFromMapFunc(func(_ context.Context, of T) []string {
			if n := name(of); n != "" {
				return []string{n}
			}
			return nil
		}),
		predicate.TypedFuncs[T]{UpdateFunc: func(e event.TypedUpdateEvent[T]) bool { return changed(e.ObjectOld, e.ObjectNew) }})
}

// foreignProfiles watches the Profiles of other writers, which decide whether another controller owns
// the objects.
func foreignProfiles(o *operator) source.TypedSyncingSource[string] {
	return source.TypedKind(o.cache, &tuned.Profile{},
		handler.TypedEnqueueRequestsFromMapFunc(func(context.Context, *tuned.Profile) []string { return []string{theObjects} }),
		foreignEvents())
}

// foreignEvents ignores the operator's own Profiles: thousands of them are written after a start, and
// the rules would be compiled again and again meanwhile.
func foreignEvents() predicate.TypedPredicate[*tuned.Profile] {
	writer := func(p *tuned.Profile) string {
		who, _ := foreign(p)
		return who
	}
	return predicate.TypedFuncs[*tuned.Profile]{
		CreateFunc: func(e event.TypedCreateEvent[*tuned.Profile]) bool { return writer(e.Object) != "" },
		UpdateFunc: func(e event.TypedUpdateEvent[*tuned.Profile]) bool { return writer(e.ObjectOld) != writer(e.ObjectNew) },
		DeleteFunc: func(e event.TypedDeleteEvent[*tuned.Profile]) bool { return writer(e.Object) != "" },
	}
}

// The cached parts of objects other than nodes, which kube/cluster caches.

// lean reduces an object to its cached part.
func lean(in any) (any, error) {
	switch o := in.(type) {
	case *corev1.Pod:
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: o.Name, Namespace: o.Namespace, UID: o.UID, ResourceVersion: o.ResourceVersion, Labels: o.Labels},
			Spec:       corev1.PodSpec{NodeName: o.Spec.NodeName},
			Status:     corev1.PodStatus{Phase: o.Status.Phase},
		}, nil
	case *tuned.Profile:
		o.ManagedFields = leanManagers(o.ManagedFields)
		// Agents' annotations have up to 32 KiB of results.
		maps.DeleteFunc(o.Annotations, func(name, _ string) bool { return name != tuned.RuleAnnotation && name != tuned.DeferredAnnotation })
		for i := range o.Spec.Profile {
			p := &o.Spec.Profile[i] // these texts repeat on all nodes
			p.Name, p.Data = unique.Make(p.Name).Value(), unique.Make(p.Data).Value()
		}
	case *tuned.Tuned:
		o.ManagedFields = leanManagers(o.ManagedFields)
	case *unstructured.Unstructured:
		o.SetManagedFields(nil)
	}
	return in, nil
}

// leanManagers keeps the writers of fields without the fields.
func leanManagers(in []metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry {
	var out []metav1.ManagedFieldsEntry
	for _, f := range in {
		out = append(out, metav1.ManagedFieldsEntry{Manager: unique.Make(f.Manager).Value(), Operation: f.Operation, Subresource: f.Subresource})
	}
	return out
}

// Pools parses MachineConfigPools, ordered by name. A pool that cannot be parsed selects
// nothing.
func Pools(all []unstructured.Unstructured) []tuned.Pool {
	var out []tuned.Pool
	for i := range all {
		var o struct {
			Spec struct {
				NodeSelector          *metav1.LabelSelector `json:"nodeSelector"`
				MachineConfigSelector *metav1.LabelSelector `json:"machineConfigSelector"`
			} `json:"spec"`
		}
		p := tuned.Pool{Name: all[i].GetName()}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(all[i].Object, &o); err == nil {
			p.NodeSelector, p.MachineConfigSelector = o.Spec.NodeSelector, o.Spec.MachineConfigSelector
		}
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b tuned.Pool) int { return cmp.Compare(a.Name, b.Name) })
	return out
}
