// Package machine defines the objects of machine.openshift.io/v1beta1 that fettle reads: the
// machines of a cluster, their machine sets, and their health checks.
package machine

import (
	"encoding/json"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// APIVersion is the API version of all objects in this package.
const APIVersion = "machine.openshift.io/v1beta1"

// Namespace is OpenShift's namespace of machines.
const Namespace = "openshift-machine-api"

// Labels and annotations that affect decisions.
const (
	// RoleLabel is a machine's role, such as worker or master.
	RoleLabel = "machine.openshift.io/cluster-api-machine-role"
	// ZoneLabel is the provider's zone of a machine.
	ZoneLabel = "machine.openshift.io/zone"
	// DeleteAnnotation marks the machine to remove first when its set shrinks.
	DeleteAnnotation = "machine.openshift.io/delete-machine"
	// OldDeleteAnnotation is the name of DeleteAnnotation before OpenShift 4.11.
	OldDeleteAnnotation = "machine.openshift.io/cluster-api-delete-machine"
	// PausedAnnotation on a check pauses it.
	PausedAnnotation = "cluster.x-k8s.io/paused"
	// ExternalAnnotation on a machine requests a power cycle of its host from the bare-metal
	// provider, which then removes the annotation.
	ExternalAnnotation = "host.metal3.io/external-remediation"
	// StrategyAnnotation on a check selects the remediation. With StrategyExternal, OpenShift's
	// controller sets ExternalAnnotation instead of deleting the machine; it ignores other values.
	StrategyAnnotation = "machine.openshift.io/remediation-strategy"
	StrategyExternal   = "external-baremetal"
	// RollAnnotation on a machine set records a rollout in progress, with the machines to replace,
	// so that a later call can continue.
	RollAnnotation = "fettle.dev/roll"
)

// ScaleLease is the name of the Lease, in the machines' namespace, that is held while machine sets
// are scaled. ScaleAnnotation on the lease describes the scaling.
const (
	ScaleLease      = "fettle-scale"
	ScaleAnnotation = "fettle.dev/scale"
)

// PhaseFailed is the phase of a machine that will never join.
const PhaseFailed = "Failed"

// Machine is a machine of OpenShift's machine API.
//
// +kubebuilder:object:root=true
type Machine struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`
	Status          Status `json:"status"`
}

// Status is the status of a machine.
//
// +kubebuilder:object:generate=true
type Status struct {
	// NodeRef is the machine's node; nil until it has joined.
	NodeRef     *core.ObjectReference `json:"nodeRef"`
	LastUpdated *meta.Time            `json:"lastUpdated"`
	Phase       *string               `json:"phase"`
}

// Phase returns the machine's phase, or "".
func (m *Machine) Phase() string {
	if m.Status.Phase == nil {
		return ""
	}
	return *m.Status.Phase
}

// Node returns the name of the machine's node; "" until the node has joined.
func (m *Machine) Node() string {
	if m.Status.NodeRef == nil {
		return ""
	}
	return m.Status.NodeRef.Name
}

// Controller returns the kind and name of the object that would replace the machine, such as
// "MachineSet workers-a"; "" if none exists.
func (m *Machine) Controller() string {
	o := meta.GetControllerOfNoCopy(m)
	if o == nil {
		return ""
	}
	return o.Kind + " " + o.Name
}

// ExternalMark returns the managed-fields entry with ExternalAnnotation, reduced to that field, or
// nil. Its time is the earliest known time of the annotation, which survives a restart of the
// reader.
func (m *Machine) ExternalMark() *meta.ManagedFieldsEntry {
	var first *meta.ManagedFieldsEntry
	for i := range m.ManagedFields {
		f := &m.ManagedFields[i]
		if f.Time == nil || f.FieldsV1 == nil || first != nil && !f.Time.Before(first.Time) {
			continue
		}
		var fields struct {
			Metadata struct {
				Annotations map[string]json.RawMessage `json:"f:annotations"`
			} `json:"f:metadata"`
		}
		if json.Unmarshal(f.FieldsV1.GetRawBytes(), &fields) != nil {
			continue
		}
		if _, ok := fields.Metadata.Annotations["f:"+ExternalAnnotation]; ok {
			first = f
		}
	}
	if first == nil {
		return nil
	}
	return &meta.ManagedFieldsEntry{Time: first.Time, FieldsV1: meta.NewFieldsV1(externalField)}
}

// externalField is the field of ExternalAnnotation in managed fields.
const externalField = `{"f:metadata":{"f:annotations":{"f:` + ExternalAnnotation + `":{}}}}`

// Set returns the name of the machine set that would replace the machine, or "".
func (m *Machine) Set() string {
	if o := meta.GetControllerOf(m); o != nil && o.Kind == "MachineSet" {
		return o.Name
	}
	return ""
}

// ControlPlane reports whether a machine, or its node, belongs to the control plane. node may
// be nil.
func (m *Machine) ControlPlane(node *core.Node) bool {
	if role := m.Labels[RoleLabel]; role == "master" || role == "control-plane" {
		return true
	}
	if node == nil {
		return false
	}
	_, master := node.Labels["node-role.kubernetes.io/master"]
	_, control := node.Labels["node-role.kubernetes.io/control-plane"]
	return master || control
}

// Set is a MachineSet, which keeps a number of machines.
//
// +kubebuilder:object:root=true
type Set struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`
	Spec            SetSpec   `json:"spec"`
	Status          SetStatus `json:"status"`
}

// SetSpec is the specification of a machine set.
//
// +kubebuilder:object:generate=true
type SetSpec struct {
	// Replicas defaults to 1.
	Replicas *int32             `json:"replicas"`
	Selector meta.LabelSelector `json:"selector"`
	// DeletePolicy is Random (the default), Newest or Oldest.
	DeletePolicy string `json:"deletePolicy"`
	// Template is the template of its machines.
	Template Template `json:"template"`
}

// Template is the template of a set's machines.
//
// +kubebuilder:object:generate=true
type Template struct {
	// ObjectMeta has the labels by which checks select them.
	meta.ObjectMeta `json:"metadata"`
}

// SetStatus is the status of a machine set.
//
// +kubebuilder:object:generate=true
type SetStatus struct {
	Replicas      int32 `json:"replicas"`
	ReadyReplicas int32 `json:"readyReplicas"`
	// ObservedGeneration is the generation of the set that its controller has processed; 0 if
	// none.
	ObservedGeneration int64 `json:"observedGeneration"`
}

// HealthCheck is a MachineHealthCheck.
//
// +kubebuilder:object:root=true
type HealthCheck struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`
	Spec            HealthCheckSpec   `json:"spec"`
	Status          HealthCheckStatus `json:"status,omitzero"`
	// Unread is why the spec is invalid and left empty, or "". Other checks in a list are not
	// affected.
	Unread string `json:"-"`
}

// HealthCheckSpec selects machines and defines when they are unhealthy.
//
// +kubebuilder:object:generate=true
type HealthCheckSpec struct {
	// Selector selects machines by labels; an empty selector selects all.
	Selector            meta.LabelSelector   `json:"selector,omitzero"`
	UnhealthyConditions []UnhealthyCondition `json:"unhealthyConditions"`
	// MaxUnhealthy is a number or a percentage; the default is 100%.
	MaxUnhealthy *intstr.IntOrString `json:"maxUnhealthy,omitempty"`
	// NodeStartupTimeout limits the time until a machine's node joins; the default is 10 minutes, 0
	// means no limit.
	NodeStartupTimeout *meta.Duration `json:"nodeStartupTimeout,omitempty"`
	// RemediationTemplate is a template with which another controller remediates a machine.
	RemediationTemplate *core.ObjectReference `json:"remediationTemplate,omitempty"`
}

// UnhealthyCondition is a node condition that makes a machine unhealthy after a timeout.
//
// +kubebuilder:object:generate=true
type UnhealthyCondition struct {
	Type    core.NodeConditionType `json:"type"`
	Status  core.ConditionStatus   `json:"status"`
	Timeout meta.Duration          `json:"timeout,omitzero"`
}

// HealthCheckStatus is a controller's report on a check; no decision depends on it.
//
// +kubebuilder:object:generate=true
type HealthCheckStatus struct {
	ExpectedMachines    *int        `json:"expectedMachines,omitempty"`
	CurrentHealthy      *int        `json:"currentHealthy,omitempty"`
	RemediationsAllowed *int32      `json:"remediationsAllowed,omitempty"`
	Conditions          []Condition `json:"conditions,omitempty"`
}

// Condition is a condition of a check. Severity is set if the status is False: Error, Warning
// or Info.
//
// +kubebuilder:object:generate=true
type Condition struct {
	Type               string               `json:"type"`
	Status             core.ConditionStatus `json:"status"`
	Severity           string               `json:"severity,omitempty"`
	LastTransitionTime meta.Time            `json:"lastTransitionTime,omitzero"`
	Reason             string               `json:"reason,omitempty"`
	Message            string               `json:"message,omitempty"`
}

// MachineList is a list of machines.
//
// +kubebuilder:object:root=true
type MachineList struct {
	meta.TypeMeta `json:",inline"`
	meta.ListMeta `json:"metadata"`
	Items         []Machine `json:"items"`
}

// SetList is a list of machine sets.
//
// +kubebuilder:object:root=true
type SetList struct {
	meta.TypeMeta `json:",inline"`
	meta.ListMeta `json:"metadata"`
	Items         []Set `json:"items"`
}

// HealthCheckList is a list of checks.
//
// +kubebuilder:object:root=true
type HealthCheckList struct {
	meta.TypeMeta `json:",inline"`
	meta.ListMeta `json:"metadata"`
	Items         []HealthCheck `json:"items"`
}

// GroupVersion is the version of the API.
var GroupVersion = schema.GroupVersion{Group: "machine.openshift.io", Version: "v1beta1"}

// AddToScheme registers the types in a scheme. The types lack some fields of the objects, so change
// objects only with patches.
func AddToScheme(s *runtime.Scheme) error {
	for kind, o := range map[string]runtime.Object{
		"Machine": &Machine{}, "MachineList": &MachineList{}, "MachineSet": &Set{}, "MachineSetList": &SetList{},
		"MachineHealthCheck": &HealthCheck{}, "MachineHealthCheckList": &HealthCheckList{},
	} {
		s.AddKnownTypeWithName(GroupVersion.WithKind(kind), o)
	}
	meta.AddToGroupVersion(s, GroupVersion)
	return nil
}
