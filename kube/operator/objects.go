package operator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/kube/tuned"
)

// readObjects compiles the rules from all objects, and writes each object's validity. If it fails,
// the previous rules stay in force.
func (o *operator) readObjects(ctx context.Context) (reconcile.Result, error) {
	var tuneds tuned.TunedList
	var profiles tuned.ProfileList
	for _, list := range []client.ObjectList{&tuneds, &profiles} {
		if err := o.client.List(ctx, list); err != nil {
			return reconcile.Result{}, err
		}
	}
	who, err := rival(ctx, o.api, o.Namespace, profiles.Items)
	if err != nil {
		return reconcile.Result{}, err
	}
	s := &situation{}
	if !o.Adopt {
		s.reportOnly = who
	}
	all := make([]*tuned.Tuned, len(tuneds.Items))
	for i := range all {
		all[i] = &tuneds.Items[i]
	}
	if s.reportOnly == "" {
		ready, err := o.keepDefault(ctx, all)
		if err != nil {
			return reconcile.Result{}, err
		}
		if !ready {
			// Without the object default, nodes would briefly lose their profiles. Its creation
			// causes an event.
			return reconcile.Result{RequeueAfter: recheck}, nil
		}
	}
	pools, err := o.pools(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	s.rules = tuned.New(all, pools, o.Recommend)
	s.inputs = inputs(all, pools, s.reportOnly)
	o.tally.ruled(s, s.rules.Objects())
	last := o.inForce.Swap(s)
	changed := last == nil || last.inputs != s.inputs
	if changed {
		o.tellChange(last, s, who, all)
	}
	if s.reportOnly == "" {
		// Before the nodes, so that events about an object are not lost among those about nodes.
		err = o.sayValid(ctx, all, s.rules.Objects())
	}
	if changed {
		if e := o.putAllNodes(ctx, profiles.Items); e != nil {
			s.inputs = "" // so that the retry queues all nodes
			err = errors.Join(err, e)
		}
	}
	return reconcile.Result{RequeueAfter: recheck}, err
}

// inputs returns a fingerprint of the whole input of the rules.
func inputs(all []*tuned.Tuned, pools []tuned.Pool, reportOnly string) string {
	var parts []string
	for _, t := range all {
		parts = append(parts, objectInput(t))
	}
	slices.Sort(parts)
	for _, p := range pools {
		parts = append(parts, "pool", p.Name, p.NodeSelector.String(), p.MachineConfigSelector.String())
	}
	return strings.Join(append(parts, reportOnly), "\x00")
}

// objectInput returns a fingerprint of the parts of a Tuned object that the rules use.
func objectInput(t *tuned.Tuned) string {
	return fmt.Sprintf("%s\x00%s\x00%d\x00%q", t.Name, t.UID, t.Generation, t.Annotations[tuned.DeferredAnnotation])
}

// tellChange logs that the rules changed, or that another controller owns the objects.
func (o *operator) tellChange(last, now *situation, who string, all []*tuned.Tuned) {
	o.Log.Info("rules read", "Tuned objects", len(all), "management state", now.rules.Managed(), "report only because of", now.reportOnly)
	for _, n := range now.rules.Notes() {
		o.Log.Info("a pool", "reason", n.Reason, "text", n.Text)
	}
	if last != nil && last.reportOnly == now.reportOnly {
		return
	}
	var text string
	switch {
	case now.reportOnly != "":
		text = "nothing written: the objects belong to " + now.reportOnly + "; take them over with --adopt"
	case who != "":
		text = "the objects of " + who + " are taken over (--adopt); stop that controller, or both undo each other's changes"
	default:
		return
	}
	o.Log.Info(text)
	for _, t := range all {
		if t.Name == tuned.DefaultName {
			o.events.Event(t, corev1.EventTypeWarning, "OtherController", text)
		}
	}
}

// putAllNodes queues all nodes, and all Profiles, whose nodes may be gone.
func (o *operator) putAllNodes(ctx context.Context, profiles []tuned.Profile) error {
	o.mu.Lock()
	q := o.nodes
	o.mu.Unlock()
	if q == nil {
		return nil // the queue starts with all of them
	}
	var nodes corev1.NodeList
	if err := o.client.List(ctx, &nodes); err != nil {
		return err
	}
	now := time.Now()
	for i := range nodes.Items {
		o.tally.heard(nodes.Items[i].Name, now)
		q.Add(nodes.Items[i].Name)
	}
	for i := range profiles {
		q.Add(profiles[i].Name)
	}
	return nil
}

// keepDefault creates or restores the object default, and adds it to all. ready is false while it
// is missing there.
func (o *operator) keepDefault(ctx context.Context, all []*tuned.Tuned) (ready bool, err error) {
	i := slices.IndexFunc(all, func(t *tuned.Tuned) bool { return t.Name == tuned.DefaultName })
	if i < 0 {
		t := o.Default.DeepCopy()
		t.Namespace = o.Namespace
		t.Labels = map[string]string{tuned.ManagedByLabel: tuned.ManagedBy}
		err := o.client.Create(ctx, t, client.FieldOwner(Name))
		if apierrors.IsAlreadyExists(err) {
			return false, nil // the cache lags behind
		}
		if err != nil {
			return false, fmt.Errorf("cannot create Tuned %s: %w", tuned.DefaultName, err)
		}
		o.Log.Info("Tuned default created")
		o.events.Event(t, corev1.EventTypeNormal, "Created", "the operator's own object was missing")
		return false, nil
	}
	want := o.Default.DeepCopy().Spec
	want.ManagementState = all[i].Spec.ManagementState
	if want.ManagementState == tuned.Unmanaged || equality.Semantic.DeepEqual(want, all[i].Spec) {
		return true, nil
	}
	t := all[i].DeepCopy()
	t.Spec = want
	if err := o.client.Patch(ctx, t, client.MergeFrom(all[i]), client.FieldOwner(Name)); err != nil {
		return false, fmt.Errorf("cannot restore Tuned %s: %w", tuned.DefaultName, err)
	}
	o.Log.Info("Tuned default restored", "generation", t.Generation)
	o.events.Event(t, corev1.EventTypeWarning, "Restored", "the operator owns this object; change only managementState, and put rules into another Tuned object")
	all[i] = t
	return true, nil
}

// sayValid writes the condition Valid of each object for which it has changed. The nodes wait for it,
// so several objects are written at a time.
func (o *operator) sayValid(ctx context.Context, all []*tuned.Tuned, found []tuned.Object) error {
	byName := map[string]tuned.Object{}
	for _, f := range found {
		byName[f.Name] = f
	}
	return errors.Join(atOnce(len(all), func(i int) error { return o.sayValidOf(ctx, all[i], byName[all[i].Name]) })...)
}

// sayValidOf writes the condition Valid of one object.
func (o *operator) sayValidOf(ctx context.Context, t *tuned.Tuned, found tuned.Object) error {
	condition := found.Condition()
	conditions, changed := tuned.SetCondition(t.Status.Conditions, condition, metav1.Now())
	if !changed {
		return nil
	}
	was := conditionStatus(t.Status.Conditions, tuned.Valid)
	updated := t.DeepCopy()
	updated.Status.Conditions = conditions
	if err := o.client.Status().Patch(ctx, updated, client.MergeFrom(t), client.FieldOwner(Name)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("condition of Tuned %s: %w", t.Name, err)
	}
	switch {
	case condition.Status == metav1.ConditionFalse:
		o.events.Event(t, corev1.EventTypeWarning, condition.Reason, text.Truncate(condition.Message, maxEvent))
	case was == metav1.ConditionFalse:
		o.events.Event(t, corev1.EventTypeNormal, "Valid", "the object is valid again")
	}
	if condition.Status == metav1.ConditionTrue {
		o.sayNotes(t, found.Notes)
	}
	return nil
}

// sayNotes creates events for the notes about a valid object.
func (o *operator) sayNotes(t *tuned.Tuned, notes []tuned.Note) {
	said := map[tuned.Reason]bool{}
	for _, n := range notes {
		if said[n.Reason] {
			continue // the condition has them all
		}
		said[n.Reason] = true
		kind := corev1.EventTypeNormal
		if n.Reason == tuned.MissingProfile {
			kind = corev1.EventTypeWarning // a node that lacks it gets nothing of the profile
		}
		o.events.Event(t, kind, string(n.Reason), text.Truncate(n.Text, maxEvent))
	}
}

// maxEvent is the maximum length of an event's text, in bytes; the API server accepts 1 KiB.
const maxEvent = 1000
