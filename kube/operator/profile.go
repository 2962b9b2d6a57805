package operator

import (
	"cmp"
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fettle.dev/fettle/kube/tuned"
)

// RuleAnnotation of a Profile says in a sentence how the decision came about.
const RuleAnnotation = "fettle.dev/rule"

// action is what is to be done with the Profile of a node.
type action string

const (
	nothing action = ""
	create  action = "create"
	update  action = "update"
	remove  action = "delete"
)

// actions are those that write.
var actions = []action{create, update, remove}

// wish is what a node is to have.
type wish struct {
	tuned.Decision
	texts        []tuned.TunedProfile
	providerName string
	// gone reports whether there is no such node, or that every node is to get back what
	// it had.
	gone bool
}

// step compares a wish with the Profile that the node has, nil for none, and says what
// to do; profile is the object to write. It shares nothing with present that it changes.
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

// fresh is a copy of the Profile that a node has, or a new one, with the marks of this
// operator and why it was decided so.
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
	p.Annotations[RuleAnnotation] = w.Why()
	return p
}

// providerName is the scheme of a providerID: "aws" of aws:///eu-west-1a/i-1.
func providerName(id string) string {
	name, _, found := strings.Cut(id, "://")
	if !found {
		return ""
	}
	return name
}

// foreign says who has written a Profile that is not ours, and whether that is a
// controller, which would write it again.
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
		// Of those who write by hand the field manager is kubectl, kubectl-create and so on.
		if !strings.HasPrefix(f.Manager, "kubectl") {
			return f.Manager, true
		}
		who = cmp.Or(who, f.Manager)
	}
	return cmp.Or(who, "another program"), controller
}
