package machine

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
)

// Objects from a cache are shared: whoever changes one copies it first.

// DeepCopyObject makes a Machine a runtime.Object.
func (m *Machine) DeepCopyObject() runtime.Object { return copied(m) }

// DeepCopyObject makes a MachineList a runtime.Object.
func (l *MachineList) DeepCopyObject() runtime.Object { return copied(l) }

// DeepCopyObject makes a Set a runtime.Object.
func (s *Set) DeepCopyObject() runtime.Object { return copied(s) }

// DeepCopyObject makes a SetList a runtime.Object.
func (l *SetList) DeepCopyObject() runtime.Object { return copied(l) }

// DeepCopyObject makes a HealthCheck a runtime.Object.
func (c *HealthCheck) DeepCopyObject() runtime.Object { return copied(c) }

// DeepCopyObject makes a HealthCheckList a runtime.Object.
func (l *HealthCheckList) DeepCopyObject() runtime.Object { return copied(l) }

// DeepCopy shares nothing with m.
func (m *Machine) DeepCopy() *Machine {
	if m == nil {
		return nil
	}
	out := *m
	m.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Status.NodeRef = m.Status.NodeRef.DeepCopy()
	out.Status.LastUpdated = m.Status.LastUpdated.DeepCopy()
	out.Status.Phase = pointer(m.Status.Phase)
	return &out
}

// DeepCopy shares nothing with s.
func (s *Set) DeepCopy() *Set {
	if s == nil {
		return nil
	}
	out := *s
	s.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Spec.Replicas = pointer(s.Spec.Replicas)
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
	out.Spec.MaxUnhealthy = pointer(c.Spec.MaxUnhealthy)
	out.Spec.NodeStartupTimeout = pointer(c.Spec.NodeStartupTimeout)
	out.Spec.RemediationTemplate = c.Spec.RemediationTemplate.DeepCopy()
	out.Status = c.Status.DeepCopy()
	return &out
}

// DeepCopy shares nothing with s.
func (s HealthCheckStatus) DeepCopy() HealthCheckStatus {
	s.ExpectedMachines, s.CurrentHealthy, s.RemediationsAllowed = pointer(s.ExpectedMachines), pointer(s.CurrentHealthy), pointer(s.RemediationsAllowed)
	s.Conditions = slices.Clone(s.Conditions)
	for i := range s.Conditions {
		s.Conditions[i].LastTransitionTime = *s.Conditions[i].LastTransitionTime.DeepCopy()
	}
	return s
}

// DeepCopy shares nothing with l.
func (l *MachineList) DeepCopy() *MachineList {
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

// DeepCopy shares nothing with l.
func (l *SetList) DeepCopy() *SetList {
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

// DeepCopy shares nothing with l.
func (l *HealthCheckList) DeepCopy() *HealthCheckList {
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
