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

// APIVersion is the API version of all objects here.
const APIVersion = "machine.openshift.io/v1beta1"

// Namespace is OpenShift's namespace of machines.
const Namespace = "openshift-machine-api"

// Labels and annotations that affect decisions.
const (
	// RoleLabel is the role of a machine: worker, master.
	RoleLabel = "machine.openshift.io/cluster-api-machine-role"
	// SetLabel is the name of its machine set.
	SetLabel = "machine.openshift.io/cluster-api-machineset"
	// ZoneLabel is the zone that the provider put it in.
	ZoneLabel = "machine.openshift.io/zone"
	// DeleteAnnotation marks the machine that goes first when its set shrinks.
	DeleteAnnotation = "machine.openshift.io/delete-machine"
	// OldDeleteAnnotation is its name before OpenShift 4.11.
	OldDeleteAnnotation = "machine.openshift.io/cluster-api-delete-machine"
	// PausedAnnotation on a check pauses it.
	PausedAnnotation = "cluster.x-k8s.io/paused"
	// ExternalAnnotation on a machine asks the bare-metal provider to power-cycle its host;
	// the provider removes it when it is done.
	ExternalAnnotation = "host.metal3.io/external-remediation"
	// StrategyAnnotation on a check selects the remediation: with StrategyExternal OpenShift's
	// controller sets ExternalAnnotation on a machine instead of deleting it. It ignores every
	// other value.
	StrategyAnnotation = "machine.openshift.io/remediation-strategy"
	StrategyExternal   = "external-baremetal"
	// RollAnnotation on a machine set lists its machines that are being replaced, so that a later
	// call can continue the roll.
	RollAnnotation = "fettle.dev/roll"
)

// ScaleLease is the name of the Lease that is held while machine sets are scaled, in the
// namespace of the machines. ScaleAnnotation on it describes the scale.
const (
	ScaleLease      = "fettle-scale"
	ScaleAnnotation = "fettle.dev/scale"
)

// Phases of a machine.
const (
	PhaseRunning = "Running"
	PhaseFailed  = "Failed"
)

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
	// NodeRef is its node; nil until it has joined.
	NodeRef     *core.ObjectReference `json:"nodeRef"`
	LastUpdated *meta.Time            `json:"lastUpdated"`
	Phase       *string               `json:"phase"`
}

// Phase returns the machine's phase, "" if it has none yet.
func (m *Machine) Phase() string {
	if m.Status.Phase == nil {
		return ""
	}
	return *m.Status.Phase
}

// Node returns the name of the machine's node; "" until it has joined.
func (m *Machine) Node() string {
	if m.Status.NodeRef == nil {
		return ""
	}
	return m.Status.NodeRef.Name
}

// Controller returns the kind and the name of the object that would replace the machine, such
// as "MachineSet workers-a" or "ControlPlaneMachineSet cluster"; "" if none owns the machine.
func (m *Machine) Controller() string {
	o := meta.GetControllerOfNoCopy(m)
	if o == nil {
		return ""
	}
	return o.Kind + " " + o.Name
}

// ExternalMark returns the entry of the machine's managed fields with ExternalAnnotation,
// reduced to that field, or nil. Its time is the earliest at which the annotation is known to
// have existed. The API server keeps these entries, so the time survives a restart of the
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

// Set returns the name of the machine set that would replace the machine; "" if none exists.
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
	// Unread is the reason that its spec cannot be decoded and is empty, which does not affect the
	// other checks in a list; "" if it was decoded.
	Unread string `json:"-"`
}

// HealthCheckSpec selects machines and defines when they are unhealthy.
//
// +kubebuilder:object:generate=true
type HealthCheckSpec struct {
	// Selector selects machines; an empty one selects all.
	Selector            meta.LabelSelector   `json:"selector,omitzero"`
	UnhealthyConditions []UnhealthyCondition `json:"unhealthyConditions"`
	// MaxUnhealthy is a number or a percentage; the default is 100%.
	MaxUnhealthy *intstr.IntOrString `json:"maxUnhealthy,omitempty"`
	// NodeStartupTimeout is the time limit for a machine to join: 10 minutes by default, 0 for no
	// limit.
	NodeStartupTimeout *meta.Duration `json:"nodeStartupTimeout,omitempty"`
	// RemediationTemplate is the template of an object with which another controller remedies a
	// machine.
	RemediationTemplate *core.ObjectReference `json:"remediationTemplate,omitempty"`
}

// UnhealthyCondition is a node condition that makes it unhealthy after a timeout.
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

// AddToScheme registers the types in a scheme. They lack fields of the objects, which must not
// be overwritten: change objects with patches.
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
