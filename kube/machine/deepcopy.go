package machine

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime"

	"fettle.dev/fettle/kube/cluster"
)

// DeepCopyObject makes a Machine a runtime.Object.
func (m *Machine) DeepCopyObject() runtime.Object { return cluster.Object(m) }

// DeepCopyObject makes a MachineList a runtime.Object.
func (l *MachineList) DeepCopyObject() runtime.Object { return cluster.Object(l) }

// DeepCopyObject makes a Set a runtime.Object.
func (s *Set) DeepCopyObject() runtime.Object { return cluster.Object(s) }

// DeepCopyObject makes a SetList a runtime.Object.
func (l *SetList) DeepCopyObject() runtime.Object { return cluster.Object(l) }

// DeepCopyObject makes a HealthCheck a runtime.Object.
func (c *HealthCheck) DeepCopyObject() runtime.Object { return cluster.Object(c) }

// DeepCopyObject makes a HealthCheckList a runtime.Object.
func (l *HealthCheckList) DeepCopyObject() runtime.Object { return cluster.Object(l) }

// DeepCopy shares nothing with m.
func (m *Machine) DeepCopy() *Machine {
	if m == nil {
		return nil
	}
	out := *m
	m.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Status.NodeRef = m.Status.NodeRef.DeepCopy()
	out.Status.LastUpdated = m.Status.LastUpdated.DeepCopy()
	out.Status.Phase = cluster.Pointer(m.Status.Phase)
	return &out
}

// DeepCopy shares nothing with s.
func (s *Set) DeepCopy() *Set {
	if s == nil {
		return nil
	}
	out := *s
	s.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Spec.Replicas = cluster.Pointer(s.Spec.Replicas)
	s.Spec.Selector.DeepCopyInto(&out.Spec.Selector)
	s.Spec.Template.ObjectMeta.DeepCopyInto(&out.Spec.Template.ObjectMeta)
	return &out
}

// DeepCopy shares nothing with c.
func (c *HealthCheck) DeepCopy() *HealthCheck {
	if c == nil {
		return nil
	}
	out := *c
	c.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	c.Spec.Selector.DeepCopyInto(&out.Spec.Selector)
	out.Spec.UnhealthyConditions = slices.Clone(c.Spec.UnhealthyConditions)
	out.Spec.MaxUnhealthy = cluster.Pointer(c.Spec.MaxUnhealthy)
	out.Spec.NodeStartupTimeout = cluster.Pointer(c.Spec.NodeStartupTimeout)
	out.Spec.RemediationTemplate = c.Spec.RemediationTemplate.DeepCopy()
	out.Status = c.Status.DeepCopy()
	return &out
}

// DeepCopy shares nothing with s.
func (s HealthCheckStatus) DeepCopy() HealthCheckStatus {
	s.ExpectedMachines, s.CurrentHealthy, s.RemediationsAllowed = cluster.Pointer(s.ExpectedMachines), cluster.Pointer(s.CurrentHealthy), cluster.Pointer(s.RemediationsAllowed)
	s.Conditions = slices.Clone(s.Conditions)
	return s
}

// DeepCopy shares nothing with l.
func (l *MachineList) DeepCopy() *MachineList {
	if l == nil {
		return nil
	}
	return &MachineList{l.TypeMeta, *l.ListMeta.DeepCopy(), cluster.Slice(l.Items, (*Machine).DeepCopy)}
}

// DeepCopy shares nothing with l.
func (l *SetList) DeepCopy() *SetList {
	if l == nil {
		return nil
	}
	return &SetList{l.TypeMeta, *l.ListMeta.DeepCopy(), cluster.Slice(l.Items, (*Set).DeepCopy)}
}

// DeepCopy shares nothing with l.
func (l *HealthCheckList) DeepCopy() *HealthCheckList {
	if l == nil {
		return nil
	}
	return &HealthCheckList{l.TypeMeta, *l.ListMeta.DeepCopy(), cluster.Slice(l.Items, (*HealthCheck).DeepCopy)}
}
