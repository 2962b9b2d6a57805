package operator

import (
	"context"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"fettle.dev/fettle/kube/corestate"
	"fettle.dev/fettle/kube/kubelet"
	"fettle.dev/fettle/kube/tuned"
)

// theObjects is the one item of the objects' queue.
const theObjects = "objects"

// byNode is the index of pods by the node that they are on.
const byNode = "spec.nodeName"

// watch makes the two queues, and says what puts what into them.
func (o *operator) watch(m manager.Manager) error {
	objects, err := queue(m, "objects", 1, reconcile.TypedFunc[string](func(ctx context.Context, _ string) (reconcile.Result, error) {
		return o.readObjects(ctx)
	}))
	if err != nil {
		return err
	}
	o.objectsQueue = objects
	nodes, err := queue(m, "nodes", writers, reconcile.TypedFunc[string](func(ctx context.Context, name string) (reconcile.Result, error) {
		return reconcile.Result{}, o.decideNode(ctx, name)
	}))
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
		// Without any object there is the object default to make.
		source.TypedFunc[string](func(_ context.Context, q workqueue.TypedRateLimitingInterface[string]) error {
			q.Add(theObjects)
			return nil
		}),
		kind(o, &tuned.Tuned{}, one, func(old, now *tuned.Tuned) bool { return objectInput(old) != objectInput(now) }),
		// Only who writes the Profiles concerns the objects.
		kind(o, &tuned.Profile{}, one, func(old, now *tuned.Profile) bool {
			before, _ := foreign(old)
			after, _ := foreign(now)
			return before != after
		}),
	} {
		if err := objects.Watch(s); err != nil {
			return err
		}
	}
	sources := []source.TypedSource[string]{
		source.TypedFunc[string](func(_ context.Context, q workqueue.TypedRateLimitingInterface[string]) error {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.nodes = q
			return nil
		}),
		kind(o, &corev1.Node{}, func(n client.Object) string { return heard(n.GetName()) }, func(old, now *corev1.Node) bool {
			return old.UID != now.UID || old.Spec.ProviderID != now.Spec.ProviderID || !maps.Equal(old.Labels, now.Labels)
		}),
		// Not what agents say, in the status and in an annotation of theirs, which the
		// cache does not keep.
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
			return old.Spec.NodeName != now.Spec.NodeName || corestate.Ended(old) != corestate.Ended(now) || !maps.Equal(old.Labels, now.Labels)
		}))
	}
	for _, s := range sources {
		if err := nodes.Watch(s); err != nil {
			return err
		}
	}
	return nil
}

// watchPools begins to watch the MachineConfigPools.
func (o *operator) watchPools() error {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(kubelet.MachineConfigPool)
	return o.objectsQueue.Watch(kind(o, u, func(client.Object) string { return theObjects },
		func(old, now *unstructured.Unstructured) bool { return old.GetGeneration() != now.GetGeneration() }))
}

// queue makes a queue of names, which do is called for, by some at a time. A failure is
// tried again, sooner at first. There is no limit over all names, as the usual queues
// have: after a failure of the API server itself that would be one of ten a second.
func queue(m manager.Manager, name string, atOnce int, do reconcile.TypedReconciler[string]) (controller.TypedController[string], error) {
	return controller.NewTyped(name, m, controller.TypedOptions[string]{
		MaxConcurrentReconciles: atOnce,
		Reconciler:              do,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[string](50*time.Millisecond, 30*time.Second),
	})
}

// kind watches a kind of object: each event puts a name into the queue, an update only
// if changed says so; "" puts nothing.
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
