package operator

import (
	"context"
	"errors"
	"maps"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"fettle.dev/fettle/kube/cluster"
	"fettle.dev/fettle/kube/machine"
)

// look sees whether there is something to watch, and what else is at work.
func (c *healthController) look(ctx context.Context) (reconcile.Result, error) {
	again := reconcile.Result{RequeueAfter: healthRecheck}
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
func (c *healthController) lookAround(ctx context.Context) error {
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
func (c *healthController) watch(ctx context.Context) (why string, err error) {
	switch err := machine.Served(c.reader.Mapper); {
	case errors.Is(err, machine.ErrNotServed):
		return machine.ErrNotServed.Error(), nil
	case err != nil:
		return "", err
	}
	// An informer whose account may not list says so again and again.
	for _, namespace := range c.Namespaces {
		for _, l := range []client.ObjectList{&machine.HealthCheckList{}, &machine.MachineList{}} {
			err := c.api.List(ctx, l, client.InNamespace(namespace), client.Limit(1))
			if apierrors.IsForbidden(err) {
				return err.Error() + " (kubectl apply -k kube/deploy/machines gives the right)", nil
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
		cluster.Kind(healthSoon, c.kept, &machine.HealthCheck{}, checkChanged),
		cluster.Kind(healthSoon, c.kept, &machine.Machine{}, machineChanged),
		cluster.Kind(healthSoon, c.nodes, &core.Node{}, nodeChanged),
	} {
		if err := c.queue.Watch(s); err != nil {
			return "", err
		}
	}
	c.machines = c.kept
	return "", nil
}

// healthSoon is the decision about all checks, with the events that are collected before it.
var healthSoon = cluster.Into{Item: theChecks, Delay: 200 * time.Millisecond}

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
