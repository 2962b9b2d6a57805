package control

import (
	"context"
	"errors"
	"maps"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"fettle.dev/fettle/internal/kube/health/around"
	"fettle.dev/fettle/internal/kube/machine"
)

// look sees whether there is something to watch, and what else is at work.
func (c *controller) look(ctx context.Context) (reconcile.Result, error) {
	again := reconcile.Result{RequeueAfter: recheck}
	if !c.watched {
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
		c.Log.Info("machine health", "another controller", c.found.Rival, "others", len(c.found.Others), "remediation waits for", c.found.Pauses)
		if err := c.allChecks(ctx); err != nil {
			return again, err
		}
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
		if found.Rival != "" && found.Rival != c.taken {
			c.Log.Info("machine health is taken over (--adopt): the other controller must not run any more", "other", found.Rival)
		}
		c.taken, found.Rival = found.Rival, ""
	}
	c.found = found
	return nil
}

// allChecks puts all checks into the queue.
func (c *controller) allChecks(ctx context.Context) error {
	var all machine.HealthCheckList
	if err := c.client.List(ctx, &all); err != nil {
		return err
	}
	for i := range all.Items {
		c.items.Add(all.Items[i].Name)
	}
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
	for _, l := range []client.ObjectList{&machine.HealthCheckList{}, &machine.MachineList{}} {
		err := c.api.List(ctx, l, client.InNamespace(c.Namespace), client.Limit(1))
		if apierrors.IsForbidden(err) {
			return err.Error() + " (kubectl apply -k deploy/machines gives the right)", nil
		}
		if err != nil {
			return "", err
		}
	}
	every := func(ctx context.Context) []string {
		var names []string
		var all machine.HealthCheckList
		if err := c.client.List(ctx, &all); err != nil {
			return nil // not before the cache is there, which begins with all of them
		}
		for i := range all.Items {
			names = append(names, all.Items[i].Name)
		}
		return names
	}
	for _, s := range []source.TypedSource[string]{
		kind(c, &machine.HealthCheck{}, func(_ context.Context, x *machine.HealthCheck) []string { return []string{x.Name} }, checkChanged),
		kind(c, &machine.Machine{}, func(ctx context.Context, _ *machine.Machine) []string { return every(ctx) }, machineChanged),
		kind(c, &core.Node{}, func(ctx context.Context, _ *core.Node) []string { return every(ctx) }, nodeChanged),
	} {
		if err := c.queue.Watch(s); err != nil {
			return "", err
		}
	}
	c.watched = true
	return "", nil
}

// kind watches a kind of object: each event puts names of checks into the queue, an
// update only if changed says so. A name is in the queue once.
func kind[T client.Object](c *controller, of T, names func(context.Context, T) []string, changed func(old, now T) bool) source.TypedSyncingSource[string] {
	return source.TypedKind(c.cache, of,
		handler.TypedEnqueueRequestsFromMapFunc(names),
		predicate.TypedFuncs[T]{UpdateFunc: func(e event.TypedUpdateEvent[T]) bool { return changed(e.ObjectOld, e.ObjectNew) }})
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

// lean makes an object that comes from the API server into what is kept of it.
func lean(in any) (any, error) {
	switch o := in.(type) {
	case *core.Node:
		return around.Lean(o), nil
	case meta.Object:
		o.SetManagedFields(nil)
	}
	return in, nil
}
