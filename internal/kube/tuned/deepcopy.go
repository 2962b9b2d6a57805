package tuned

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
)

// Objects from a cache are shared: whoever changes one copies it first.

// DeepCopyObject makes a Tuned a runtime.Object.
func (t *Tuned) DeepCopyObject() runtime.Object { return copied(t) }

// DeepCopyObject makes a TunedList a runtime.Object.
func (l *TunedList) DeepCopyObject() runtime.Object { return copied(l) }

// DeepCopyObject makes a Profile a runtime.Object.
func (p *Profile) DeepCopyObject() runtime.Object { return copied(p) }

// DeepCopyObject makes a ProfileList a runtime.Object.
func (l *ProfileList) DeepCopyObject() runtime.Object { return copied(l) }

// DeepCopy shares nothing with t.
func (t *Tuned) DeepCopy() *Tuned {
	if t == nil {
		return nil
	}
	out := *t
	t.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Spec.Profile = slices.Clone(t.Spec.Profile)
	out.Spec.Recommend = slices.Clone(t.Spec.Recommend)
	for i := range out.Spec.Recommend {
		r := &out.Spec.Recommend[i]
		r.Priority = pointer(r.Priority)
		r.Match = copyMatch(r.Match)
		r.MachineConfigLabels = maps.Clone(r.MachineConfigLabels)
		r.Operand.TuneDConfig = r.Operand.TuneDConfig.deepCopy()
	}
	out.Status.Conditions = copyConditions(t.Status.Conditions)
	return &out
}

// DeepCopy shares nothing with l.
func (l *TunedList) DeepCopy() *TunedList {
	if l == nil {
		return nil
	}
	out := *l
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	out.Items = slices.Clone(l.Items)
	for i := range out.Items {
		out.Items[i] = *l.Items[i].DeepCopy()
	}
	return &out
}

// DeepCopy shares nothing with p.
func (p *Profile) DeepCopy() *Profile {
	if p == nil {
		return nil
	}
	out := *p
	p.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Spec.Config.TuneDConfig = p.Spec.Config.TuneDConfig.deepCopy()
	out.Spec.Profile = slices.Clone(p.Spec.Profile)
	out.Status.Conditions = copyConditions(p.Status.Conditions)
	return &out
}

// DeepCopy shares nothing with l.
func (l *ProfileList) DeepCopy() *ProfileList {
	if l == nil {
		return nil
	}
	out := *l
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	out.Items = slices.Clone(l.Items)
	for i := range out.Items {
		out.Items[i] = *l.Items[i].DeepCopy()
	}
	return &out
}

// copied avoids an interface that holds a nil pointer.
func copied[T any, P interface {
	*T
	DeepCopy() *T
	runtime.Object
}](in P) runtime.Object {
	if in == nil {
		return nil
	}
	return P(in.DeepCopy())
}

func pointer[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}

func copyMatch(in []TunedMatch) []TunedMatch {
	out := slices.Clone(in)
	for i := range out {
		out[i].Value = pointer(out[i].Value)
		out[i].Match = copyMatch(out[i].Match)
	}
	return out
}

func copyConditions(in []StatusCondition) []StatusCondition {
	out := slices.Clone(in)
	for i := range out {
		in[i].LastTransitionTime.DeepCopyInto(&out[i].LastTransitionTime)
	}
	return out
}

func (c TuneDConfig) deepCopy() TuneDConfig {
	return TuneDConfig{ReapplySysctl: pointer(c.ReapplySysctl), StartupUdevSettleWait: pointer(c.StartupUdevSettleWait)}
}
