package cluster

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unique"

	"github.com/go-logr/logr"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Queue returns a controller that calls do for each name in its queue, with the given number of
// workers. A failure is retried after 50 ms to 30 s. Unlike the default queues it has no overall
// rate limit, which would allow only ten retries per second after a failure of the API server.
func Queue(m manager.Manager, name string, workers int, do func(ctx context.Context, item string) (reconcile.Result, error)) (controller.TypedController[string], error) {
	return controller.NewTyped(name, m, controller.TypedOptions[string]{
		MaxConcurrentReconciles: workers,
		Reconciler:              reconcile.TypedFunc[string](do),
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[string](50*time.Millisecond, 30*time.Second),
	})
}

// Start returns a source that calls begin with the queue before the controller processes items.
func Start(begin func(q workqueue.TypedRateLimitingInterface[string])) source.TypedSource[string] {
	return source.TypedFunc[string](func(_ context.Context, q workqueue.TypedRateLimitingInterface[string]) error {
		begin(q)
		return nil
	})
}

// Scheme returns a scheme with the types of all given APIs.
func Scheme(apis ...func(*runtime.Scheme) error) *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range apis {
		if err := add(s); err != nil {
			panic(err) // two types with one name are a programming error
		}
	}
	return s
}

// Client returns a client for a verb that ends. It turns off the log of controller-runtime, which
// otherwise (0.25.2) prints a stack trace to stderr once the program has run for 30 s.
func Client(config *rest.Config, s *runtime.Scheme) (client.Client, error) {
	log.SetLogger(logr.Discard())
	return client.New(config, client.Options{Scheme: s})
}

// Into is a queue item for many events. A change of all nodes causes hundreds of events, but needs
// only one decision. Events are collected for Delay after the first one, so even a constantly
// changing cluster gets decisions.
type Into struct {
	Item  string
	Delay time.Duration
}

// Kind watches a kind of object. Each event adds the item; an update does so only if changed
// returns true.
func Kind[T client.Object](i Into, of cache.Cache, object T, changed func(old, now T) bool) source.TypedSyncingSource[string] {
	return source.TypedKind(of, object, handlers(i, changed))
}

func handlers[T client.Object](i Into, changed func(old, now T) bool) handler.TypedEventHandler[T, string] {
	type queue = workqueue.TypedRateLimitingInterface[string]
	return handler.TypedFuncs[T, string]{
		CreateFunc: func(_ context.Context, _ event.TypedCreateEvent[T], q queue) { q.AddAfter(i.Item, i.Delay) },
		DeleteFunc: func(_ context.Context, _ event.TypedDeleteEvent[T], q queue) { q.AddAfter(i.Item, i.Delay) },
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[T], q queue) {
			if changed(e.ObjectOld, e.ObjectNew) {
				q.AddAfter(i.Item, i.Delay)
			}
		},
	}
}

// nodecache is the cache of nodes that all controllers of the operator share. It uses one watch and
// keeps only the fields that a controller reads: about 1 kB of a node's 10 kB, which are mostly
// image names.

// ByObject configures a manager's cache to store nodes reduced by Keep with the named annotations.
// Cached objects are shared: copy them before changes.
func ByObject(annotations ...string) cache.ByObject {
	shared := true
	return cache.ByObject{UnsafeDisableDeepCopy: &shared, Transform: func(in any) (any, error) {
		n, ok := in.(*core.Node)
		if !ok {
			return nil, fmt.Errorf("unexpected object in the node cache: %T", in)
		}
		return Keep(n, annotations...), nil
	}}
}

// Keep returns a node reduced to name, labels, provider without machine name, schedulability,
// conditions without heartbeat times, kubelet version, and the named annotations. It shares the
// labels with n.
func Keep(n *core.Node, annotations ...string) *core.Node {
	return &core.Node{
		ObjectMeta: meta.ObjectMeta{Name: n.Name, UID: n.UID, ResourceVersion: n.ResourceVersion, Labels: n.Labels, Annotations: only(n.Annotations, annotations)},
		Spec:       core.NodeSpec{ProviderID: provider(n.Spec.ProviderID), Unschedulable: n.Spec.Unschedulable},
		Status: core.NodeStatus{
			Conditions: conditions(n.Status.Conditions),
			NodeInfo:   core.NodeSystemInfo{KubeletVersion: unique.Make(n.Status.NodeInfo.KubeletVersion).Value()},
		},
	}
}

// only returns the named annotations; their strings are cloned.
func only(in map[string]string, names []string) (out map[string]string) {
	for _, name := range names {
		if in[name] != "" {
			if out == nil {
				out = map[string]string{}
			}
			out[name] = strings.Clone(in[name])
		}
	}
	return out
}

// conditions returns all conditions, because a machine health check may use any of them.
func conditions(in []core.NodeCondition) []core.NodeCondition {
	if len(in) == 0 {
		return nil
	}
	out := make([]core.NodeCondition, len(in))
	for i, c := range in {
		out[i] = core.NodeCondition{ // these strings repeat on all nodes
			Type:               core.NodeConditionType(unique.Make(string(c.Type)).Value()),
			Status:             core.ConditionStatus(unique.Make(string(c.Status)).Value()),
			LastTransitionTime: c.LastTransitionTime,
		}
	}
	return out
}

// provider cuts a providerID after its scheme: "aws:///eu-west-1a/i-1" becomes "aws://". The result
// does not keep the whole ID in memory.
func provider(id string) string {
	name, _, found := strings.Cut(id, "://")
	if !found || name == "" {
		return ""
	}
	return unique.Make(name + "://").Value()
}

// All returns the cached nodes. The caller owns the slice, but shares its content.
func All(ctx context.Context, cached client.Reader) ([]core.Node, error) {
	var all core.NodeList
	if err := cached.List(ctx, &all); err != nil {
		return nil, err
	}
	return all.Items, nil
}

// page is the number of nodes per request; 100 nodes are about 1 MB.
const page = 100

// Live reads all nodes from the API server, each reduced by Keep. api must not use a cache.
func Live(ctx context.Context, api client.Reader) (out []core.Node, err error) {
	next := ""
	for {
		var some core.NodeList
		if err := api.List(ctx, &some, client.Limit(page), client.Continue(next)); err != nil {
			return nil, err
		}
		for i := range some.Items {
			out = append(out, *Keep(&some.Items[i]))
		}
		if next = some.Continue; next == "" {
			return out, nil
		}
	}
}
