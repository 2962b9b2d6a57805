package operator

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/kube/corestate"
	"fettle.dev/fettle/kube/tuned"
)

// decideNode decides a node and writes its Profile, if it has to be another one.
func (o *operator) decideNode(ctx context.Context, name string) error {
	s := o.inForce.Load()
	if s == nil {
		return nil // once there are rules, all nodes are put into the queue
	}
	since := o.tally.begun(name)
	wrote, err := o.decideBy(ctx, s, name)
	switch {
	case err != nil && !since.IsZero():
		o.tally.heard(name, since) // it waits still
	case wrote:
		o.tally.ended(since, time.Now())
	}
	return err
}

// decideBy decides a node by what holds for all, and says whether its Profile was written.
func (o *operator) decideBy(ctx context.Context, s *situation, name string) (wrote bool, err error) {
	w, err := o.wish(ctx, s, name)
	if err != nil {
		return false, err
	}
	o.tellHeld(ctx, w)
	if s.reportOnly != "" || s.rules.Managed() == tuned.Unmanaged {
		return false, nil
	}
	var present *tuned.Profile
	p := &tuned.Profile{}
	switch err := o.client.Get(ctx, client.ObjectKey{Namespace: o.Namespace, Name: name}, p); {
	case err == nil:
		present = p
	case !apierrors.IsNotFound(err):
		return false, err
	}
	if present != nil && !o.Adopt {
		if who, _ := foreign(present); who != "" {
			o.Log.V(1).Info("a Profile of another program is left alone", "profile", name, "written by", who)
			return false, nil
		}
	}
	do, profile := step(o.Namespace, present, w)
	if do == nothing {
		return false, nil
	}
	err = o.write(ctx, do, present, profile)
	o.tally.wrote(do, err)
	o.sleeper.Worked() // to find nothing to write takes little: that is no work
	if err != nil {
		return false, fmt.Errorf("%s Profile %s: %w", do, name, err)
	}
	o.Log.V(1).Info("a Profile is written", "profile", name, "action", do, "tuned profile", w.Profile, "why", w.Why())
	return true, nil
}

// wish says what a node is to have.
func (o *operator) wish(ctx context.Context, s *situation, name string) (wish, error) {
	var node corev1.Node
	err := o.client.Get(ctx, client.ObjectKey{Name: name}, &node)
	if apierrors.IsNotFound(err) {
		o.tally.decided(name, "")
		return wish{Decision: tuned.Decision{Node: name}, gone: true}, nil
	}
	if err != nil {
		return wish{}, err
	}
	n := tuned.RecommendedNode{Name: name, Labels: node.Labels}
	if o.Recommend.PodLabels {
		var pods corev1.PodList
		if err := o.client.List(ctx, &pods, client.MatchingFields{byNode: name}); err != nil {
			return wish{}, err
		}
		for i := range pods.Items {
			if p := &pods.Items[i]; !corestate.Ended(p) {
				n.Pods = append(n.Pods, tuned.Pod{Name: p.Namespace + "/" + p.Name, Labels: p.Labels})
			}
		}
	}
	d := s.rules.Decide(n)
	return wish{
		Decision: d, texts: s.rules.Texts(d.Profiles), providerName: providerName(node.Spec.ProviderID),
		gone: s.rules.Managed() == tuned.Removed,
	}, nil
}

// tellHeld says of a node that begins to be held, on the object whose rule holds it.
func (o *operator) tellHeld(ctx context.Context, w wish) {
	if w.State == "" {
		return
	}
	last := o.tally.decided(w.Node, w.State)
	if w.State != tuned.Held || last == tuned.Held {
		return
	}
	o.Log.Info("a node keeps what it has", "node", w.Node, "why", w.Why())
	t := &tuned.Tuned{}
	if err := o.client.Get(ctx, client.ObjectKey{Namespace: o.Namespace, Name: w.Rule.Object}, t); err == nil {
		o.events.Event(t, corev1.EventTypeWarning, "NodeHeld", text.Truncate(fmt.Sprintf("node %s: %s", w.Node, w.Why()), maxEvent))
	}
}

// write does what a step says. Only what differs is sent: the status is the agent's.
func (o *operator) write(ctx context.Context, do action, present, profile *tuned.Profile) error {
	switch do {
	case create:
		// The cache may lag behind a Profile that is there: tried again, soon.
		return o.client.Create(ctx, profile, client.FieldOwner(Name))
	case update:
		return client.IgnoreNotFound(o.client.Patch(ctx, profile, client.MergeFrom(present), client.FieldOwner(Name)))
	default:
		return client.IgnoreNotFound(o.client.Delete(ctx, profile, client.Preconditions{UID: &profile.UID}))
	}
}
