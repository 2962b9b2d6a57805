package tuned

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"

	"fettle.dev/fettle/kube/cluster"
)

// DeepCopyObject makes a Tuned a runtime.Object.
func (t *Tuned) DeepCopyObject() runtime.Object { return cluster.Object(t) }

// DeepCopyObject makes a TunedList a runtime.Object.
func (l *TunedList) DeepCopyObject() runtime.Object { return cluster.Object(l) }

// DeepCopyObject makes a Profile a runtime.Object.
func (p *Profile) DeepCopyObject() runtime.Object { return cluster.Object(p) }

// DeepCopyObject makes a ProfileList a runtime.Object.
func (l *ProfileList) DeepCopyObject() runtime.Object { return cluster.Object(l) }

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
		r.Priority = cluster.Pointer(r.Priority)
		r.Match = copyMatch(r.Match)
		r.MachineConfigLabels = maps.Clone(r.MachineConfigLabels)
		r.Operand.TuneDConfig = r.Operand.TuneDConfig.deepCopy()
	}
	out.Status.Conditions = slices.Clone(t.Status.Conditions)
	return &out
}

// DeepCopy shares nothing with l.
func (l *TunedList) DeepCopy() *TunedList {
	if l == nil {
		return nil
	}
	return &TunedList{l.TypeMeta, *l.ListMeta.DeepCopy(), cluster.Slice(l.Items, (*Tuned).DeepCopy)}
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
	out.Status.Conditions = slices.Clone(p.Status.Conditions)
	return &out
}

// DeepCopy shares nothing with l.
func (l *ProfileList) DeepCopy() *ProfileList {
	if l == nil {
		return nil
	}
	return &ProfileList{l.TypeMeta, *l.ListMeta.DeepCopy(), cluster.Slice(l.Items, (*Profile).DeepCopy)}
}

func copyMatch(in []TunedMatch) []TunedMatch {
	out := slices.Clone(in)
	for i := range out {
		out[i].Value = cluster.Pointer(out[i].Value)
		out[i].Match = copyMatch(out[i].Match)
	}
	return out
}

func (c TuneDConfig) deepCopy() TuneDConfig {
	return TuneDConfig{ReapplySysctl: cluster.Pointer(c.ReapplySysctl), StartupUdevSettleWait: cluster.Pointer(c.StartupUdevSettleWait)}
}
