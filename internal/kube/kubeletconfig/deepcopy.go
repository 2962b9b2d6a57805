package kubeletconfig

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Objects from a cache are shared: whoever changes one copies it first.

// DeepCopyObject makes a KubeletConfig a runtime.Object.
func (k *KubeletConfig) DeepCopyObject() runtime.Object { return copied(k) }

// DeepCopyObject makes a KubeletConfigList a runtime.Object.
func (l *KubeletConfigList) DeepCopyObject() runtime.Object { return copied(l) }

// DeepCopyObject makes a KubeletPool a runtime.Object.
func (p *KubeletPool) DeepCopyObject() runtime.Object { return copied(p) }

// DeepCopyObject makes a KubeletPoolList a runtime.Object.
func (l *KubeletPoolList) DeepCopyObject() runtime.Object { return copied(l) }

// DeepCopyObject makes a NodeKubelet a runtime.Object.
func (k *NodeKubelet) DeepCopyObject() runtime.Object { return copied(k) }

// DeepCopyObject makes a NodeKubeletList a runtime.Object.
func (l *NodeKubeletList) DeepCopyObject() runtime.Object { return copied(l) }

type copier[T any] interface {
	*T
	runtime.Object
	DeepCopy() *T
}

// copied is a copy as an interface, which is nil for nil.
func copied[T any, P copier[T]](p P) runtime.Object {
	if p == nil {
		return nil
	}
	return P(p.DeepCopy())
}

// DeepCopy shares nothing with k.
func (k *KubeletConfig) DeepCopy() *KubeletConfig {
	if k == nil {
		return nil
	}
	out := *k
	k.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	s := &out.Spec
	s.MachineConfigPoolSelector = s.MachineConfigPoolSelector.DeepCopy()
	s.KubeletConfig, s.TLSSecurityProfile = s.KubeletConfig.DeepCopy(), s.TLSSecurityProfile.DeepCopy()
	s.AutoSizingReserved, s.LogLevel = own(s.AutoSizingReserved), own(s.LogLevel)
	out.Status.Conditions = slices.Clone(k.Status.Conditions)
	for i, c := range k.Status.Conditions {
		c.LastTransitionTime.DeepCopyInto(&out.Status.Conditions[i].LastTransitionTime)
	}
	return &out
}

// DeepCopy shares nothing with p.
func (p *KubeletPool) DeepCopy() *KubeletPool {
	if p == nil {
		return nil
	}
	out := *p
	p.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Spec.NodeSelector, out.Spec.MaxUnavailable = p.Spec.NodeSelector.DeepCopy(), own(p.Spec.MaxUnavailable)
	out.Status.KubeletConfigs, out.Status.Changing = slices.Clone(p.Status.KubeletConfigs), slices.Clone(p.Status.Changing)
	out.Status.Conditions = each(p.Status.Conditions, (*metav1.Condition).DeepCopy)
	return &out
}

// DeepCopy shares nothing with k.
func (k *NodeKubelet) DeepCopy() *NodeKubelet {
	if k == nil {
		return nil
	}
	out := *k
	k.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	k.Spec.Since.DeepCopyInto(&out.Spec.Since)
	out.Spec.KubeletConfig = k.Spec.KubeletConfig.DeepCopy()
	out.Spec.KubeletConfigs, out.Status.Settings = slices.Clone(k.Spec.KubeletConfigs), slices.Clone(k.Status.Settings)
	return &out
}

// DeepCopy shares nothing with l.
func (l *NodeKubeletList) DeepCopy() *NodeKubeletList {
	if l == nil {
		return nil
	}
	out := *l
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	out.Items = each(l.Items, (*NodeKubelet).DeepCopy)
	return &out
}

// DeepCopy shares nothing with l.
func (l *KubeletConfigList) DeepCopy() *KubeletConfigList {
	if l == nil {
		return nil
	}
	out := *l
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	out.Items = each(l.Items, (*KubeletConfig).DeepCopy)
	return &out
}

// DeepCopy shares nothing with l.
func (l *KubeletPoolList) DeepCopy() *KubeletPoolList {
	if l == nil {
		return nil
	}
	out := *l
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	out.Items = each(l.Items, (*KubeletPool).DeepCopy)
	return &out
}

func own[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}

func each[T any](all []T, deep func(*T) *T) []T {
	out := slices.Clone(all)
	for i := range all {
		out[i] = *deep(&all[i])
	}
	return out
}
