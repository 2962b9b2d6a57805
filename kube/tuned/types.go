// Package tuned defines the objects of tuned.openshift.io/v1, Tuned and Profile, as Go types, and
// reads them strictly from files. Fields, JSON names and constraints are those of OpenShift's
// CustomResourceDefinitions, so objects for its Node Tuning Operator are accepted unmodified. A
// test compares the types with the YAML in kube/deploy/kinds/plain.
//
// A field whose JSON name has no omitempty or omitzero is required. The tags enum, min, minLength
// and pattern are OpenAPI's constraints, for the test and for Read.
package tuned

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Tuned holds profiles, and rules that assign them to nodes.
//
// +kubebuilder:object:root=true
type Tuned struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec   TunedSpec   `json:"spec,omitzero"`
	Status TunedStatus `json:"status,omitzero"`
}

// DefaultName is the name of the operator's own Tuned object. Only its ManagementState has an
// effect, and only that field may be changed by others.
const DefaultName = "default"

// Namespace is the objects' namespace. It is the Node Tuning Operator's, so objects for that
// operator are accepted unmodified.
const Namespace = "openshift-cluster-node-tuning-operator"

// ManagementState selects how the operator treats the nodes.
type ManagementState string

// Management states. "" means Managed, and Force means the same.
const (
	Managed   ManagementState = "Managed"
	Force     ManagementState = "Force"
	Unmanaged ManagementState = "Unmanaged" // the operator does nothing
	Removed   ManagementState = "Removed"   // nodes get their former values back
)

// TunedSpec is the specification of a Tuned object.
//
// +kubebuilder:object:generate=true
type TunedSpec struct {
	ManagementState ManagementState  `json:"managementState,omitempty" pattern:"^(Managed|Unmanaged|Force|Removed)$"`
	Profile         []TunedProfile   `json:"profile,omitempty"`
	Recommend       []TunedRecommend `json:"recommend,omitempty"`
}

// TunedProfile is a profile in TuneD's language.
//
// +kubebuilder:object:generate=true
type TunedProfile struct {
	Name string `json:"name" minLength:"1"`
	Data string `json:"data"`
}

// TunedRecommend is a rule that assigns a profile to matching nodes.
//
// +kubebuilder:object:generate=true
type TunedRecommend struct {
	Profile string `json:"profile" minLength:"1"`
	// Priority orders rules; lower numbers come first. A rule without one comes last, which a
	// validating API server rejects.
	Priority *uint64 `json:"priority" min:"0"`
	// Match is a list of items, one of which must match. An empty list, unlike nil, matches every
	// node, even if the rule has MachineConfigLabels.
	Match []TunedMatch `json:"match,omitzero"`
	// MachineConfigLabels are labels of a MachineConfig: the rule matches the nodes of pools that
	// select it.
	MachineConfigLabels map[string]string `json:"machineConfigLabels,omitzero"`
	Operand             OperandConfig     `json:"operand,omitzero"`
}

// TunedMatch is a label that a node, or a pod on it, must have.
//
// +kubebuilder:object:generate=true
type TunedMatch struct {
	Label string `json:"label"`
	// Value is the label's value; nil matches any value.
	Value *string `json:"value,omitempty"`
	// Type is node or pod, see NodeLabel and PodLabel; "" means node.
	Type string `json:"type,omitempty" oneof:"node,pod"`
	// Match is a list of items; unless it is empty, one of them must match too.
	Match []TunedMatch `json:"match,omitempty"`
}

// Types of TunedMatch.
const (
	NodeLabel = "node"
	PodLabel  = "pod"
)

// OperandConfig configures the agent.
//
// +kubebuilder:object:generate=true
type OperandConfig struct {
	Debug bool `json:"debug,omitempty"`
	// Verbosity is the agent's log level; 0 logs least.
	Verbosity   int         `json:"verbosity,omitempty"`
	TuneDConfig TuneDConfig `json:"tunedConfig,omitzero"`
}

// TuneDConfig has options of tuned-main.conf.
//
// +kubebuilder:object:generate=true
type TuneDConfig struct {
	// ReapplySysctl lets the node's own sysctl files override the profile; nil means the agent's
	// default.
	ReapplySysctl *bool `json:"reapply_sysctl,omitempty"`
	// StartupUdevSettleWait is in seconds. Newer published definitions have it.
	StartupUdevSettleWait *int64 `json:"startup_udev_settle_wait,omitempty"`
}

// TunedStatus is the operator's report on a Tuned object.
//
// +kubebuilder:object:generate=true
type TunedStatus struct {
	Conditions []StatusCondition `json:"conditions,omitempty"`
}

// TunedList is a list of Tuned objects.
//
// +kubebuilder:object:root=true
type TunedList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	Items []Tuned `json:"items"`
}

// Profile is one node's requested and applied profile; it has the node's name.
//
// +kubebuilder:object:root=true
type Profile struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec   ProfileSpec   `json:"spec,omitzero"`
	Status ProfileStatus `json:"status,omitzero"`
}

// ProfileSpec is the operator's decision for a node.
//
// +kubebuilder:object:generate=true
type ProfileSpec struct {
	Config ProfileConfig `json:"config"`
	// Profile are the profile texts that the node needs.
	Profile []TunedProfile `json:"profile,omitempty"`
}

// ProfileConfig names a node's profile, and configures its agent.
//
// +kubebuilder:object:generate=true
type ProfileConfig struct {
	TunedProfile string `json:"tunedProfile"`
	Debug        bool   `json:"debug,omitempty"`
	// Verbosity is the agent's log level; 0 logs least.
	Verbosity   int         `json:"verbosity,omitempty"`
	TuneDConfig TuneDConfig `json:"tunedConfig,omitzero"`
	// ProviderName is the scheme of the node's providerID: "aws" for aws:///x.
	ProviderName string `json:"providerName,omitempty"`
}

// ProfileStatus is the report of a node's agent.
//
// +kubebuilder:object:generate=true
type ProfileStatus struct {
	// TunedProfile is the profile in force.
	TunedProfile string            `json:"tunedProfile"`
	Conditions   []StatusCondition `json:"conditions,omitempty"`
	// ObservedGeneration is the spec's generation to which the conditions apply.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// ProfileList is a list of Profile objects.
//
// +kubebuilder:object:root=true
type ProfileList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	Items []Profile `json:"items"`
}

// StatusCondition is a condition of an object.
//
// +kubebuilder:object:generate=true
type StatusCondition struct {
	Type   ConditionType          `json:"type"`
	Status metav1.ConditionStatus `json:"status"`
	// LastTransitionTime is when Status last changed.
	LastTransitionTime metav1.Time `json:"lastTransitionTime"`
	// Reason is one word in CamelCase.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// ConditionType is the type of a condition.
type ConditionType string

// Types of conditions. With a working profile, Applied is True and Degraded is False.
const (
	Valid    ConditionType = "Valid"    // of a Tuned object
	Applied  ConditionType = "Applied"  // of a Profile object
	Degraded ConditionType = "Degraded" // of a Profile object
)

// AsExpected is the reason of a normal condition.
const AsExpected = "AsExpected"

// SetCondition returns the conditions with one of them set, and whether anything changed. The
// transition time becomes now only if the status changes.
func SetCondition(conditions []StatusCondition, c StatusCondition, now metav1.Time) ([]StatusCondition, bool) {
	i := slices.IndexFunc(conditions, func(old StatusCondition) bool { return old.Type == c.Type })
	c.LastTransitionTime = now
	if i < 0 {
		return append(slices.Clone(conditions), c), true
	}
	if old := conditions[i]; old.Status == c.Status {
		c.LastTransitionTime = old.LastTransitionTime
		if old == c {
			return conditions, false
		}
	}
	out := slices.Clone(conditions)
	out[i] = c
	return out, true
}

// DeferredAnnotation is a Tuned object's annotation that sets when changes take effect.
const DeferredAnnotation = "tuned.openshift.io/deferred"

// RuleAnnotation is a Profile object's annotation with a sentence that explains the operator's
// decision.
const RuleAnnotation = "fettle.dev/rule"

// DeferMode is when a profile takes effect.
type DeferMode string

// Values of DeferMode.
const (
	DeferNever  DeferMode = "never"  // at once
	DeferAlways DeferMode = "always" // at the next boot
	// DeferUpdate defers a change of the profile in force to the next boot, and switches to another
	// profile at once.
	DeferUpdate DeferMode = "update"
)

// Deferred parses the annotation. An invalid value means never; known is then false.
func Deferred(annotations map[string]string) (mode DeferMode, known bool) {
	text, ok := annotations[DeferredAnnotation]
	switch mode := DeferMode(text); mode {
	case DeferAlways, DeferUpdate, DeferNever:
		return mode, true
	}
	return DeferNever, !ok
}

// Label of the objects that fettle's operator writes.
const (
	ManagedByLabel = "app.kubernetes.io/managed-by"
	ManagedBy      = "fettle"
)

// Ours reports whether fettle's operator wrote the Profile.
func (p *Profile) Ours() bool { return p.Labels[ManagedByLabel] == ManagedBy }

// NodeTuningOwner returns the owner by which a Profile belongs to the Node Tuning Operator, such as
// "Tuned default". It returns "" if that operator does not own it, or fettle's operator has taken
// it over. The other operator's operand applies such a Profile and writes its status. Source:
// openshift/cluster-node-tuning-operator at d2394aa, pkg/operator/controller.go,
// getDefaultTunedRefs.
func (p *Profile) NodeTuningOwner() string {
	if p.Ours() {
		return ""
	}
	for _, o := range p.OwnerReferences {
		if o.Kind == "Tuned" {
			return o.Kind + " " + o.Name
		}
	}
	return ""
}

// GroupVersion is the version of the API.
var GroupVersion = schema.GroupVersion{Group: "tuned.openshift.io", Version: "v1"}

// AddToScheme registers the types in a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &Tuned{}, &TunedList{}, &Profile{}, &ProfileList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
