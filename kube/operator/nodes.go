package operator

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/kube/cluster"
	"fettle.dev/fettle/kube/tuned"
)

// decideNode decides a node, and writes its Profile if it changed.
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

// decideBy decides a node in a situation, and reports whether its Profile was written.
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
			o.Log.V(1).Info("ignoring a Profile of another program", "profile", name, "written by", who)
			return false, nil
		}
	}
	do, profile := step(o.Namespace, present, w)
	if do == nothing {
		return false, nil
	}
	err = o.write(ctx, do, present, profile)
	o.tally.wrote(do, err)
	o.sleeper.Worked() // finding nothing to write takes little: it does not count as work
	if err != nil {
		return false, fmt.Errorf("%s Profile %s: %w", do, name, err)
	}
	o.Log.V(1).Info("Profile written", "profile", name, "action", do, "tuned profile", w.Profile, "why", w.Why())
	return true, nil
}

// wish returns the decision for a node with its profile texts.
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
			if p := &pods.Items[i]; !cluster.Ended(p) {
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

// tellHeld creates an event when a node becomes held, on the Tuned object whose rule holds it.
func (o *operator) tellHeld(ctx context.Context, w wish) {
	if w.State == "" {
		return
	}
	last := o.tally.decided(w.Node, w.State)
	if w.State != tuned.Held || last == tuned.Held {
		return
	}
	o.Log.Info("node unchanged", "node", w.Node, "why", w.Why())
	t := &tuned.Tuned{}
	if err := o.client.Get(ctx, client.ObjectKey{Namespace: o.Namespace, Name: w.Rule.Object}, t); err == nil {
		o.events.Event(t, corev1.EventTypeWarning, "NodeHeld", text.Truncate(fmt.Sprintf("node %s: %s", w.Node, w.Why()), maxEvent))
	}
}

// write carries out an action. It sends only differences, because the agent owns the status.
func (o *operator) write(ctx context.Context, do action, present, profile *tuned.Profile) error {
	switch do {
	case create:
		// The cache may lag behind an existing Profile: this is retried soon.
		return o.client.Create(ctx, profile, client.FieldOwner(Name))
	case update:
		return client.IgnoreNotFound(o.client.Patch(ctx, profile, client.MergeFrom(present), client.FieldOwner(Name)))
	default:
		return client.IgnoreNotFound(o.client.Delete(ctx, profile, client.Preconditions{UID: &profile.UID}))
	}
}

// action is what to do with a node's Profile.
type action string

const (
	nothing action = ""
	create  action = "create"
	update  action = "update"
	remove  action = "delete"
)

// actions are the actions that write.
var actions = []action{create, update, remove}

// wish is the decision for a node with its profile texts.
type wish struct {
	tuned.Decision
	texts        []tuned.TunedProfile
	providerName string
	// gone reports whether the node is gone, or all nodes must get their former values back.
	gone bool
}

// step compares a wish with the node's present Profile, which may be nil. It returns the action and
// the object to write, without changing present.
func step(namespace string, present *tuned.Profile, w wish) (do action, profile *tuned.Profile) {
	var want *tuned.Profile
	switch {
	case w.gone:
	case w.State == tuned.Decided:
		want = fresh(namespace, present, w)
		want.Spec = tuned.ProfileSpec{
			Config: tuned.ProfileConfig{
				TunedProfile: w.Profile, Debug: w.Debug, Verbosity: w.Verbosity, ProviderName: w.providerName,
				TuneDConfig: tuned.TuneDConfig{ReapplySysctl: w.ReapplySysctl, StartupUdevSettleWait: w.UdevSettleS},
			},
			Profile: w.texts,
		}
		if w.Deferred != "" && w.Deferred != tuned.DeferNever {
			want.Annotations[tuned.DeferredAnnotation] = string(w.Deferred)
		} else {
			delete(want.Annotations, tuned.DeferredAnnotation)
		}
	case w.State == tuned.Held && present != nil:
		want = fresh(namespace, present, w) // keeps what it has
	}
	switch {
	case want == nil && present == nil:
		return nothing, nil
	case want == nil:
		return remove, present
	case present == nil:
		return create, want
	case maps.Equal(present.Labels, want.Labels) && maps.Equal(present.Annotations, want.Annotations) &&
		equality.Semantic.DeepEqual(present.Spec, want.Spec):
		return nothing, nil
	}
	return update, want
}

// fresh returns a copy of a node's Profile, or a new one, with this operator's labels and the
// decision's reason.
func fresh(namespace string, present *tuned.Profile, w wish) *tuned.Profile {
	p := &tuned.Profile{ObjectMeta: metav1.ObjectMeta{Name: w.Node, Namespace: namespace}}
	if present != nil {
		p = present.DeepCopy()
	}
	if p.Labels == nil {
		p.Labels = map[string]string{}
	}
	if p.Annotations == nil {
		p.Annotations = map[string]string{}
	}
	p.Labels[tuned.ManagedByLabel] = tuned.ManagedBy
	p.Annotations[tuned.RuleAnnotation] = w.Why()
	return p
}

// providerName returns the scheme of a providerID: "aws" for aws:///eu-west-1a/i-1.
func providerName(id string) string {
	name, _, found := strings.Cut(id, "://")
	if !found {
		return ""
	}
	return name
}

// foreign returns the writer of a Profile that is not fettle's. controller reports whether the
// writer is a controller, which would write again.
func foreign(p *tuned.Profile) (who string, controller bool) {
	if p.Ours() {
		return "", false
	}
	if owner := p.NodeTuningOwner(); owner != "" {
		who, controller = "a controller that makes "+owner+" its owner", true
	}
	for _, f := range p.ManagedFields {
		if f.Subresource != "" || f.Manager == "" {
			continue // the agent's status
		}
		// The field manager of manual writes is kubectl, kubectl-create and so on.
		if !strings.HasPrefix(f.Manager, "kubectl") {
			return f.Manager, true
		}
		who = cmp.Or(who, f.Manager)
	}
	return cmp.Or(who, "another program"), controller
}
