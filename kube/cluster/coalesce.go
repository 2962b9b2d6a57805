// coalesce makes many events of objects one look at all of them: a change of all
// nodes is hundreds of events, and a decision about all nodes reads all of them.

package cluster

import (
	"context"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Into says what a look is called, and how long events are collected before it: from the
// first of them, so that a cluster in which something always changes is looked at too.
type Into struct {
	Item  string // of the queue
	Delay time.Duration
}

// Kind watches a kind of object: each event is a reason to look, an update only if changed
// says so.
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
