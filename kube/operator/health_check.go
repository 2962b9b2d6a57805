package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/kube/cluster"
	"fettle.dev/fettle/kube/machine"
)

// minimum is the shortest delay of a repeated decision without an event.
const minimum = time.Second

// checks decides about all checks from the caches, writes their status, and remediates the machine
// whose turn it is.
func (c *healthController) checks(ctx context.Context) (reconcile.Result, error) {
	if c.found == nil {
		return reconcile.Result{}, nil // the first look decides about all of them
	}
	all, err := c.all(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	if machine.Turn(all) != nil {
		return c.remediate(ctx)
	}
	return c.later(all), c.say(ctx, all, false)
}

// all decides about all checks from the caches.
func (c *healthController) all(ctx context.Context) ([]machine.Answer, error) {
	checks, err := machine.Checks(ctx, c.machines, c.Namespaces)
	if err != nil {
		return nil, err
	}
	machines, err := machine.Machines(ctx, c.machines, c.Namespaces)
	if err != nil {
		return nil, err
	}
	nodes, err := cluster.All(ctx, c.client)
	if err != nil {
		return nil, err
	}
	all := c.decide(c.found, checks, machines, nodes)
	c.tally.decided(all, machines, c.now())
	return all, nil
}

// decide decides about all checks.
func (c *healthController) decide(f *machine.Found, checks []machine.HealthCheck, machines []machine.Machine, nodes []core.Node) []machine.Answer {
	in := f.Cluster(checks, machines, nodes, c.now())
	in.Adopt, in.ControlPlane, in.External = c.Adopt, c.ControlPlane, c.external(machines)
	return in.Decide()
}

// external returns when machine.ExternalAnnotation was first seen on each machine, for API servers
// that keep no managed fields of machines.
func (c *healthController) external(machines []machine.Machine) map[types.UID]time.Time {
	seen := map[types.UID]time.Time{}
	for i := range machines {
		if _, ok := machines[i].Annotations[machine.ExternalAnnotation]; ok {
			uid := machines[i].UID
			seen[uid] = cmp.Or(c.marked[uid], c.now())
		}
	}
	c.marked = seen
	return seen
}

// remediate decides again with the API server's present data, and deletes the machine to remediate.
func (c *healthController) remediate(ctx context.Context) (reconcile.Result, error) {
	defer c.worked() // to read all this takes memory
	// Read the checks first: a concurrent writer of their status then gets a conflict.
	checks, err := machine.Checks(ctx, c.api, c.Namespaces)
	if err != nil {
		return reconcile.Result{}, err
	}
	if err := c.lookAround(ctx); err != nil {
		return reconcile.Result{}, err
	}
	if !c.found.Same(c.spread) {
		// It has to be decided again when the pause is over.
		c.spread = nil
		c.items.Add(theLook)
	}
	machines, err := machine.Machines(ctx, c.api, c.Namespaces)
	if err != nil {
		return reconcile.Result{}, err
	}
	nodes, err := cluster.Live(ctx, c.api)
	if err != nil {
		return reconcile.Result{}, err
	}
	all := c.decide(c.found, checks, machines, nodes)
	if err := c.say(ctx, all, true); err != nil {
		if apierrors.IsConflict(err) {
			return reconcile.Result{RequeueAfter: minimum}, nil
		}
		return reconcile.Result{}, err
	}
	if turn := machine.Turn(all); turn != nil {
		if err := c.remove(ctx, turn.Check, &turn.Remediate[0]); err != nil {
			return reconcile.Result{}, err
		}
	}
	return c.later(all), nil
}

// remove deletes a machine, if it is unchanged since the decision.
func (c *healthController) remove(ctx context.Context, check *machine.HealthCheck, j *machine.Judged) error {
	m := j.Machine
	err := c.client.Delete(ctx, m, client.Preconditions{UID: &m.UID, ResourceVersion: &m.ResourceVersion})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return nil // it has changed, which is an event
	case err != nil:
		c.tally.refuse(deletionFailed)
		c.events.Event(check, core.EventTypeWarning, "MachineDeletionFailed", text.Truncate(fmt.Sprintf("machine %s cannot be deleted: %v", m.Name, err), maxEvent))
		return fmt.Errorf("machine %s cannot be deleted: %w", m.Name, err)
	}
	c.tally.started(m)
	c.Log.Info("deleting a machine to replace it", "machine", m.Name, "check", check.Name, "why", j.Why)
	c.events.Event(check, core.EventTypeNormal, "MachineDeleted", text.Truncate(fmt.Sprintf("deleting machine %s, so that %s creates a new one: %s", m.Name, m.Controller(), j.Why), maxEvent))
	return nil
}

// later returns when to decide again even without a change.
func (c *healthController) later(all []machine.Answer) (r reconcile.Result) {
	var next time.Time
	for _, a := range all {
		if a.Decision != nil && !a.Next.IsZero() && (next.IsZero() || a.Next.Before(next)) {
			next = a.Next
		}
	}
	if !next.IsZero() {
		r.RequeueAfter = max(next.Sub(c.now()), minimum)
	}
	return r
}

// say writes the status of all checks. The check whose machine is remediated comes last. With
// locked, it returns an error if a check was changed after it was read.
func (c *healthController) say(ctx context.Context, all []machine.Answer, locked bool) error {
	turn := machine.Turn(all)
	isTurn := func(a *machine.Answer) int {
		if turn != nil && a.Check == turn.Check {
			return 1
		}
		return 0
	}
	order := make([]*machine.Answer, len(all))
	for i := range all {
		order[i] = &all[i]
	}
	slices.SortStableFunc(order, func(a, b *machine.Answer) int { return cmp.Compare(isTurn(a), isTurn(b)) })
	var failed []error
	for _, a := range order {
		err := c.sayOf(ctx, a, locked)
		if locked && err != nil {
			return err
		}
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

// sayOf writes the status of a check.
func (c *healthController) sayOf(ctx context.Context, a *machine.Answer, locked bool) error {
	want := statusOf(a, c.now())
	if err := c.write(ctx, a.Check, want, locked); err != nil {
		return err
	}
	before, after := condition(a.Check.Status), condition(want)
	if before.Reason == after.Reason {
		return nil
	}
	switch after.Reason {
	case machine.TooManyUnhealthy:
		c.events.Event(a.Check, core.EventTypeWarning, "RemediationRestricted", text.Truncate(a.Sentence, maxEvent))
	case machine.Stuck:
		c.events.Event(a.Check, core.EventTypeWarning, "RemediationStuck", text.Truncate(after.Message, maxEvent))
	case machine.BadCheck:
		c.events.Event(a.Check, core.EventTypeWarning, "BadCheck", text.Truncate(after.Message, maxEvent))
	}
	return nil
}

// statusOf returns the new status of a check.
func statusOf(a *machine.Answer, now time.Time) machine.HealthCheckStatus {
	if a.Decision == nil {
		return machine.Unreadable(a.Check.Status, a.Err, now)
	}
	return a.Status(a.Check.Status, now)
}

// condition returns fettle's own condition of a status.
func condition(s machine.HealthCheckStatus) machine.Condition {
	for _, c := range s.Conditions {
		if c.Type == machine.Remediating {
			return c
		}
	}
	return machine.Condition{}
}

// write writes a status, if it has changed.
func (c *healthController) write(ctx context.Context, check *machine.HealthCheck, want machine.HealthCheckStatus, locked bool) error {
	if equality.Semantic.DeepEqual(check.Status, want) {
		return nil
	}
	updated := check.DeepCopy()
	updated.Status = want
	patch := client.MergeFrom(check)
	if locked {
		patch = client.MergeFromWithOptions(check, client.MergeFromWithOptimisticLock{})
	}
	c.worked()
	err := c.client.Status().Patch(ctx, updated, patch, client.FieldOwner(HealthName))
	if apierrors.IsConflict(err) {
		return err
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("status of MachineHealthCheck %s: %w", check.Name, err)
	}
	return nil
}
