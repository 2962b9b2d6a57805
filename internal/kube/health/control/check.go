package control

import (
	"context"
	"fmt"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"fettle.dev/fettle/internal/kube/health"
	"fettle.dev/fettle/internal/kube/health/around"
	"fettle.dev/fettle/internal/kube/machine"
	"fettle.dev/fettle/internal/wording"
)

// minimum is the shortest time until a check is looked at again by itself.
const minimum = time.Second

// check decides about a check from the caches, writes its status, and remedies what is
// to be.
func (c *controller) check(ctx context.Context, name string) (reconcile.Result, error) {
	if c.found == nil {
		return reconcile.Result{}, nil // the first look puts all checks into the queue
	}
	api := c.client
	check := &machine.HealthCheck{}
	if err := api.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: name}, check); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	var nodes core.NodeList
	if err := api.List(ctx, &nodes); err != nil {
		return reconcile.Result{}, err
	}
	d, err := c.decide(ctx, api, check, nodes.Items)
	if err != nil {
		return reconcile.Result{}, err
	}
	if d != nil && len(d.Remediate) > 0 {
		return c.remediate(ctx, name)
	}
	return c.later(d), c.say(ctx, check, d, false)
}

// decide decides about a check; nil where it cannot be read, which its status says.
func (c *controller) decide(ctx context.Context, api client.Reader, check *machine.HealthCheck, nodes []core.Node) (*health.Decision, error) {
	in, err := around.Check(ctx, api, check, nodes, c.found, c.now())
	if err != nil {
		return nil, err
	}
	in.Adopt, in.ControlPlane = c.Adopt, c.ControlPlane
	d, err := health.Decide(in)
	if err != nil {
		return nil, c.write(ctx, check, health.Unreadable(check.Status, err, c.now()), false)
	}
	return d, nil
}

// remediate decides once more, from what the API server says now, and deletes the
// machines whose turn it is.
func (c *controller) remediate(ctx context.Context, name string) (reconcile.Result, error) {
	api := c.api
	// The check first: whoever writes its status after this has to read it again.
	check := &machine.HealthCheck{}
	if err := api.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: name}, check); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if err := c.lookAround(ctx); err != nil {
		return reconcile.Result{}, err
	}
	if !c.found.Same(c.spread) {
		// All checks are to be decided with it, and again when it is over.
		c.spread = nil
		c.items.Add(theLook)
	}
	nodes, err := around.Nodes(ctx, api)
	if err != nil {
		return reconcile.Result{}, err
	}
	d, err := c.decide(ctx, api, check, nodes)
	if d == nil || err != nil {
		return reconcile.Result{}, err
	}
	if err := c.say(ctx, check, d, true); err != nil {
		if apierrors.IsConflict(err) {
			return reconcile.Result{RequeueAfter: minimum}, nil
		}
		return reconcile.Result{}, err
	}
	for _, j := range d.Remediate {
		if err := c.remove(ctx, check, &j); err != nil {
			return reconcile.Result{}, err
		}
	}
	return c.later(d), nil
}

// remove deletes a machine, if it is still as it was judged.
func (c *controller) remove(ctx context.Context, check *machine.HealthCheck, j *health.Judged) error {
	m := j.Machine
	err := c.client.Delete(ctx, m, client.Preconditions{UID: &m.UID, ResourceVersion: &m.ResourceVersion})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return nil // it has changed, which is an event
	case err != nil:
		c.events.Event(check, core.EventTypeWarning, "MachineDeletionFailed", wording.Clip(fmt.Sprintf("machine %s cannot be deleted: %v", m.Name, err), maxEvent))
		return fmt.Errorf("machine %s cannot be deleted: %w", m.Name, err)
	}
	c.Log.Info("a machine is deleted, to be made anew", "machine", m.Name, "check", check.Name, "why", j.Why)
	c.events.Event(check, core.EventTypeNormal, "MachineDeleted", wording.Clip(fmt.Sprintf("machine %s is deleted, so that machine set %s makes another: %s", m.Name, m.Set(), j.Why), maxEvent))
	return nil
}

// later is when a check has to be looked at again though nothing changes.
func (c *controller) later(d *health.Decision) (r reconcile.Result) {
	if d != nil && !d.Next.IsZero() {
		r.RequeueAfter = max(d.Next.Sub(c.now()), minimum)
	}
	return r
}

// say writes the status of a check. With locked it is an error if somebody has changed
// the check since it was read.
func (c *controller) say(ctx context.Context, check *machine.HealthCheck, d *health.Decision, locked bool) error {
	if d == nil {
		return nil
	}
	want := d.Status(check.Status, c.now())
	before, after := condition(check.Status), condition(want)
	if err := c.write(ctx, check, want, locked); err != nil {
		return err
	}
	if after.Reason == health.TooManyUnhealthy && before.Reason != after.Reason {
		c.events.Event(check, core.EventTypeWarning, "RemediationRestricted", wording.Clip(d.Sentence, maxEvent))
	}
	return nil
}

// condition is fettle's own of a status.
func condition(s machine.HealthCheckStatus) machine.Condition {
	for _, c := range s.Conditions {
		if c.Type == health.Remediating {
			return c
		}
	}
	return machine.Condition{}
}

// write writes a status, if it is another one.
func (c *controller) write(ctx context.Context, check *machine.HealthCheck, want machine.HealthCheckStatus, locked bool) error {
	if equality.Semantic.DeepEqual(check.Status, want) {
		return nil
	}
	updated := check.DeepCopy()
	updated.Status = want
	patch := client.MergeFrom(check)
	if locked {
		patch = client.MergeFromWithOptions(check, client.MergeFromWithOptimisticLock{})
	}
	err := c.client.Status().Patch(ctx, updated, patch, client.FieldOwner(Name))
	if apierrors.IsConflict(err) {
		return err
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("status of MachineHealthCheck %s: %w", check.Name, err)
	}
	return nil
}

// maxEvent is how long the text of an event gets, in bytes; the API server takes 1 KiB.
const maxEvent = 1000
