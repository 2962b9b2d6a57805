package tuned

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fettle.dev/fettle/internal/text"
)

// Rules are the compiled rules of all Tuned objects. They are immutable and safe for concurrent
// use.
type Rules struct {
	options  Options
	managed  ManagementState
	rules    []rule // in evaluation order
	profiles *catalogue
	pools    *pools
	objects  []*Object // sorted by name
}

// rule is an item of a recommend list.
type rule struct {
	*TunedRecommend
	object   string
	index    int
	deferred DeferMode
	// takers are the pools that match machineConfigLabels.
	takers map[string]bool
	need   need
}

// New compiles the Tuned objects and pools of a cluster. The objects must not change while the
// Rules are in use.
func New(objects []*Tuned, all []Pool, o Options) *Rules {
	r := &Rules{options: o, managed: Managed, pools: newPools(all)}
	sorted := slices.Clone(objects)
	slices.SortFunc(sorted, func(a, b *Tuned) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Namespace, b.Namespace))
	})
	var copies []copyOf
	byObject := make([]*Object, len(sorted))
	for i, t := range sorted {
		byObject[i] = &Object{Name: t.Name, Generation: t.Generation}
		for j, p := range t.Spec.Profile {
			copies = append(copies, copyOf{byObject[i], j, p})
		}
	}
	r.objects = byObject
	r.profiles = newCatalogue(copies, o)
	for i, t := range sorted {
		r.manage(byObject[i], t)
		r.add(byObject[i], t)
	}
	chosen := map[string]bool{}
	for _, rule := range r.rules {
		chosen[rule.Profile] = true
	}
	r.profiles.strangers(chosen)
	slices.SortStableFunc(r.rules, func(a, b rule) int { return cmp.Compare(order(a.Priority), order(b.Priority)) })
	for _, o := range r.objects {
		o.finish()
	}
	return r
}

// order returns a priority's sort key. A rule without a priority comes last; the API allows no
// number above the largest int64.
func order(p *uint64) uint64 {
	if p == nil {
		return math.MaxUint64
	}
	return *p
}

func (r *Rules) manage(o *Object, t *Tuned) {
	state := t.Spec.ManagementState
	if state == "" {
		return
	}
	note := func(reason Reason, format string, args ...any) {
		o.Notes = append(o.Notes, Note{Reason: reason, Object: o.Name, Path: "spec.managementState", Text: fmt.Sprintf(format, args...)})
	}
	switch {
	case o.Name != DefaultName:
		note(ManagementStateIgnored, "managementState is only read in Tuned %s", DefaultName)
	case state == Managed || state == Force:
	case state == Unmanaged || state == Removed:
		r.managed = state
	default:
		r.managed = Unmanaged
		note(UnknownManagementState, "managementState %q is not one of Managed, Unmanaged, Removed and Force; no node is changed", state)
	}
}

// Managed returns the nodes' management state. Decisions do not depend on it.
func (r *Rules) Managed() ManagementState { return r.managed }

// add compiles an object's rules.
func (r *Rules) add(o *Object, t *Tuned) {
	deferred, known := Deferred(t.Annotations)
	if !known {
		o.Notes = append(o.Notes, Note{
			Reason: UnknownDeferred, Object: o.Name, Path: "metadata.annotations",
			Text: fmt.Sprintf("%s=%q is not one of always, update and never; it counts as never", DeferredAnnotation, t.Annotations[DeferredAnnotation]),
		})
	}
	for i := range t.Spec.Recommend {
		ru := rule{TunedRecommend: &t.Spec.Recommend[i], object: o.Name, index: i, deferred: deferred}
		note := func(reason Reason, path, format string, args ...any) {
			o.Notes = append(o.Notes, Note{
				Reason: reason, Object: o.Name, Path: fmt.Sprintf("spec.recommend[%d]%s", i, path), Profile: ru.Profile,
				Text: fmt.Sprintf("recommend[%d]%s: ", i, path) + fmt.Sprintf(format, args...),
			})
		}
		if ValidName(ru.Profile) {
			ru.need = r.profiles.needs(ru.Profile)
			for _, m := range ru.need.missing {
				note(MissingProfile, "", "%s", m)
			}
		} else {
			note(InvalidRule, "", "%q is not a valid name of a profile", ru.Profile)
			ru.need.blocked = []Note{o.Notes[len(o.Notes)-1]}
		}
		r.items(ru.Match, "", note)
		r.labels(&ru, note)
		r.rules = append(r.rules, ru)
	}
}

// labels determines the pools that match a rule's machineConfigLabels.
func (r *Rules) labels(ru *rule, note func(Reason, string, string, ...any)) {
	if ru.MachineConfigLabels == nil {
		return
	}
	const at = ".machineConfigLabels"
	if _, err := metav1.LabelSelectorAsSelector(&metav1.LabelSelector{MatchLabels: ru.MachineConfigLabels}); err != nil {
		note(InvalidRule, at, "match no node: %v", err)
		return
	}
	names := r.pools.taking(ru.MachineConfigLabels)
	ru.takers = map[string]bool{}
	for _, name := range names {
		ru.takers[name] = true
	}
	switch {
	case len(names) > 1 && len(ru.MachineConfigLabels) > 0: // OpenShift does not define the case of {}
		note(LabelsAcrossPools, at, "match more than one pool: %s", strings.Join(names, ", "))
	case len(names) == 0:
		note(NoPool, at, "match no pool")
	}
	if ru.Match != nil && len(ru.Match) == 0 {
		note(EmptyMatch, ".match", "is empty and matches every node, regardless of machineConfigLabels")
	}
}

func (m missing) String() string {
	if m.by == "" {
		return fmt.Sprintf("profile %s is in no Tuned object and not built in; the node must have it", m.name)
	}
	if m.by == m.name {
		return fmt.Sprintf("profile %s includes another profile of the same name, which is not built in; the node must have it", m.name)
	}
	if len(m.also) > 0 {
		return text.Sprintf("profile %s includes a profile depending on the node; %s and %d more are in no Tuned object and not built in, so a node that needs one must have it", m.by, m.name, len(m.also))
	}
	return fmt.Sprintf("profile %s, included by %s, is in no Tuned object and not built in; the node must have it", m.name, m.by)
}

// items notes errors in match items; path is their path in the rule.
func (r *Rules) items(all []TunedMatch, path string, note func(Reason, string, string, ...any)) {
	for i := range all {
		m := &all[i]
		at := fmt.Sprintf("%s.match[%d]", path, i)
		switch {
		case m.Label == "":
			note(InvalidRule, at, "has no label; matches no node")
		case m.Type == PodLabel && !r.options.PodLabels:
			note(PodLabelsIgnored, at, "needs the pod label %s, which the operator does not watch (--pod-labels); matches no node", m.Label)
		case m.Type != "" && m.Type != NodeLabel && m.Type != PodLabel:
			note(InvalidRule, at, "type %q is neither node nor pod; matches no node", m.Type)
		}
		r.items(m.Match, at, note)
	}
}

// Objects returns the Tuned objects with their notes, ordered by name.
func (r *Rules) Objects() []Object {
	out := make([]Object, len(r.objects))
	for i, o := range r.objects {
		out[i] = *o
		out[i].Notes = slices.Clone(o.Notes)
	}
	return out
}

// Notes returns the notes about the pools.
func (r *Rules) Notes() []Note { return slices.Clone(r.pools.notes) }

// Texts returns the profiles with these names, for a node's Profile object.
func (r *Rules) Texts(names []string) []TunedProfile {
	var out []TunedProfile
	for _, name := range names {
		if t := r.profiles.texts[name]; t != nil && t.blocked == nil {
			out = append(out, t.TunedProfile)
		}
	}
	return out
}
