package kubelet

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"fettle.dev/fettle/kube/cluster"
)

// DeepCopyObject makes a KubeletConfig a runtime.Object.
func (k *KubeletConfig) DeepCopyObject() runtime.Object { return cluster.Object(k) }

// DeepCopyObject makes a KubeletConfigList a runtime.Object.
func (l *KubeletConfigList) DeepCopyObject() runtime.Object { return cluster.Object(l) }

// DeepCopyObject makes a KubeletPool a runtime.Object.
func (p *KubeletPool) DeepCopyObject() runtime.Object { return cluster.Object(p) }

// DeepCopyObject makes a KubeletPoolList a runtime.Object.
func (l *KubeletPoolList) DeepCopyObject() runtime.Object { return cluster.Object(l) }

// DeepCopyObject makes a NodeKubelet a runtime.Object.
func (k *NodeKubelet) DeepCopyObject() runtime.Object { return cluster.Object(k) }

// DeepCopyObject makes a NodeKubeletList a runtime.Object.
func (l *NodeKubeletList) DeepCopyObject() runtime.Object { return cluster.Object(l) }

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
	s.AutoSizingReserved, s.LogLevel = cluster.Pointer(s.AutoSizingReserved), cluster.Pointer(s.LogLevel)
	out.Status.Conditions = slices.Clone(k.Status.Conditions)
	return &out
}

// DeepCopy shares nothing with p.
func (p *KubeletPool) DeepCopy() *KubeletPool {
	if p == nil {
		return nil
	}
	out := *p
	p.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Spec.NodeSelector, out.Spec.MaxUnavailable = p.Spec.NodeSelector.DeepCopy(), cluster.Pointer(p.Spec.MaxUnavailable)
	out.Status.KubeletConfigs, out.Status.Changing = slices.Clone(p.Status.KubeletConfigs), slices.Clone(p.Status.Changing)
	out.Status.Conditions = cluster.Slice(p.Status.Conditions, (*metav1.Condition).DeepCopy)
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
	return &NodeKubeletList{l.TypeMeta, *l.ListMeta.DeepCopy(), cluster.Slice(l.Items, (*NodeKubelet).DeepCopy)}
}

// DeepCopy shares nothing with l.
func (l *KubeletConfigList) DeepCopy() *KubeletConfigList {
	if l == nil {
		return nil
	}
	return &KubeletConfigList{l.TypeMeta, *l.ListMeta.DeepCopy(), cluster.Slice(l.Items, (*KubeletConfig).DeepCopy)}
}

// DeepCopy shares nothing with l.
func (l *KubeletPoolList) DeepCopy() *KubeletPoolList {
	if l == nil {
		return nil
	}
	return &KubeletPoolList{l.TypeMeta, *l.ListMeta.DeepCopy(), cluster.Slice(l.Items, (*KubeletPool).DeepCopy)}
}
