package control

import (
	"context"
	"errors"
	"maps"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"fettle.dev/fettle/internal/kube/health/around"
	"fettle.dev/fettle/internal/kube/machine"
)

// look sees whether there is something to watch, and what else is at work.
func (c *controller) look(ctx context.Context) (reconcile.Result, error) {
	again := reconcile.Result{RequeueAfter: recheck}
	if c.machines == nil {
		why, err := c.watch(ctx)
		if err != nil {
			return again, err
		}
		if why != c.told {
			c.told = why
			c.Log.Info("machine health", "nothing is watched because", why)
		}
		if why != "" {
			return again, nil
		}
	}
	if err := c.lookAround(ctx); err != nil {
		return again, err
	}
	if !c.found.Same(c.spread) {
		c.Log.Info("machine health", "other controllers", c.found.Rivals, "others", len(c.found.Others), "remediation waits for", c.found.Pauses)
		c.items.Add(theChecks)
		c.spread = c.found
	}
	if u := c.found.Until; !u.IsZero() {
		again.RequeueAfter = max(min(again.RequeueAfter, u.Sub(c.now())), minimum)
	}
	return again, nil
}

// lookAround reads what else is at work.
func (c *controller) lookAround(ctx context.Context) error {
	found, err := c.reader.Read(ctx, c.now())
	if err != nil {
		return err
	}
	if c.Adopt {
		for namespace, who := range found.Rivals {
			if who != c.taken[namespace] {
				c.Log.Info("machine health is taken over (--adopt): the other controller must not run any more", "other", who)
			}
		}
		c.taken, found.Rivals = found.Rivals, nil
	}
	c.found = found
	return nil
}

// watch begins to watch, or says why it does not.
func (c *controller) watch(ctx context.Context) (why string, err error) {
	switch err := around.Served(c.reader.Mapper); {
	case errors.Is(err, around.ErrNotServed):
		return around.ErrNotServed.Error(), nil
	case err != nil:
		return "", err
	}
	// An informer whose account may not list says so again and again.
	for _, namespace := range c.Namespaces {
		for _, l := range []client.ObjectList{&machine.HealthCheckList{}, &machine.MachineList{}} {
			err := c.api.List(ctx, l, client.InNamespace(namespace), client.Limit(1))
			if apierrors.IsForbidden(err) {
				return err.Error() + " (kubectl apply -k deploy/machines gives the right)", nil
			}
			if err != nil {
				return "", err
			}
		}
	}
	if c.kept == nil {
		if c.kept, err = c.start(); err != nil {
			return "", err
		}
	}
	for _, s := range []source.TypedSource[string]{
		kind(c.kept, &machine.HealthCheck{}, checkChanged),
		kind(c.kept, &machine.Machine{}, machineChanged),
		kind(c.nodes, &core.Node{}, nodeChanged),
	} {
		if err := c.queue.Watch(s); err != nil {
			return "", err
		}
	}
	c.machines = c.kept
	return "", nil
}

// soon is how long events are collected before the checks are decided: a change of all
// nodes is hundreds of events, and a decision looks at all nodes and machines.
const soon = 200 * time.Millisecond

// kind watches a kind of object: each event is a reason to decide soon, an update only if
// changed says so.
func kind[T client.Object](of cache.Cache, object T, changed func(old, now T) bool) source.TypedSyncingSource[string] {
	type queue = workqueue.TypedRateLimitingInterface[string]
	return source.TypedKind(of, object, handler.TypedFuncs[T, string]{
		CreateFunc: func(_ context.Context, _ event.TypedCreateEvent[T], q queue) { q.AddAfter(theChecks, soon) },
		DeleteFunc: func(_ context.Context, _ event.TypedDeleteEvent[T], q queue) { q.AddAfter(theChecks, soon) },
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[T], q queue) {
			if changed(e.ObjectOld, e.ObjectNew) {
				q.AddAfter(theChecks, soon)
			}
		},
	})
}

// checkChanged: not what is said in the status.
func checkChanged(old, now *machine.HealthCheck) bool {
	return old.UID != now.UID || old.Generation != now.Generation || !maps.Equal(old.Annotations, now.Annotations)
}

func machineChanged(old, now *machine.Machine) bool {
	return old.UID != now.UID || !maps.Equal(old.Labels, now.Labels) || !maps.Equal(old.Annotations, now.Annotations) ||
		(old.DeletionTimestamp == nil) != (now.DeletionTimestamp == nil) ||
		!equality.Semantic.DeepEqual(old.OwnerReferences, now.OwnerReferences) || !equality.Semantic.DeepEqual(old.Status, now.Status)
}

func nodeChanged(old, now *core.Node) bool {
	return old.UID != now.UID || !maps.Equal(old.Labels, now.Labels) || !equality.Semantic.DeepEqual(old.Status.Conditions, now.Status.Conditions)
}
