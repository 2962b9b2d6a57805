// Package tuned defines the objects of tuned.openshift.io/v1, Tuned and Profile, as Go types,
// and reads them strictly from files. The fields, their JSON names and constraints are those of
// the CustomResourceDefinitions that OpenShift publishes, so that objects written for its Node
// Tuning Operator are accepted unmodified. kube/deploy/crds/plain has the same as YAML; a test
// compares them.
//
// A field whose JSON name has no omitempty or omitzero is required. The tags enum, min,
// minLength and pattern are OpenAPI's constraints, for the test and for Read.
package tuned

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Tuned holds profiles, and rules that select the nodes for them.
//
// +kubebuilder:object:root=true
type Tuned struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec   TunedSpec   `json:"spec,omitzero"`
	Status TunedStatus `json:"status,omitzero"`
}

// DefaultName is the name of the Tuned object that is the operator's own. Its
// ManagementState is the only one that counts, and the only thing in it that
// others may change.
const DefaultName = "default"

// Namespace is the namespace of the objects: that of the Node Tuning Operator, so that objects
// written for it are accepted unmodified.
const Namespace = "openshift-cluster-node-tuning-operator"

// ManagementState selects what the operator does with the nodes.
type ManagementState string

// Management states. "" means Managed, and Force means the same.
const (
	Managed   ManagementState = "Managed"
	Force     ManagementState = "Force"
	Unmanaged ManagementState = "Unmanaged" // nothing is done
	Removed   ManagementState = "Removed"   // every node gets back what it had
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

// TunedRecommend is a rule: which nodes get a profile.
//
// +kubebuilder:object:generate=true
type TunedRecommend struct {
	Profile string `json:"profile" minLength:"1"`
	// Priority: lower numbers come first. A rule without one comes last; only an
	// API server that does not check its objects has such a rule.
	Priority *uint64 `json:"priority" min:"0"`
	// Match is a list of which one item has to match. An empty list differs from none: it matches
	// every node, even if the rule has MachineConfigLabels.
	Match []TunedMatch `json:"match,omitzero"`
	// MachineConfigLabels are the labels of a MachineConfig: the rule matches the nodes of the
	// pools that would select it.
	MachineConfigLabels map[string]string `json:"machineConfigLabels,omitzero"`
	Operand             OperandConfig     `json:"operand,omitzero"`
}

// TunedMatch is a label that a node, or a pod on it, has to have.
//
// +kubebuilder:object:generate=true
type TunedMatch struct {
	Label string `json:"label"`
	// Value is the value of the label; nil matches any.
	Value *string `json:"value,omitempty"`
	// Type is NodeLabel or PodLabel; "" means NodeLabel.
	Type string `json:"type,omitempty" oneof:"node,pod"`
	// Match is a list of which one item has to match as well, if it is not empty.
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
	// ReapplySysctl lets the machine's own sysctl files override the profile; nil leaves it to the
	// agent.
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

// Profile is the requested and the applied profile of one node. It has the name of the node.
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

// ProfileConfig names the profile of a node, and how its agent is to run.
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
	// ObservedGeneration is the generation of the spec that the conditions are about.
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

// Types of conditions. For a working profile Applied is True and Degraded is False.
const (
	Valid    ConditionType = "Valid"    // of a Tuned object
	Applied  ConditionType = "Applied"  // of a Profile object
	Degraded ConditionType = "Degraded" // of a Profile object
)

// AsExpected is the reason of a normal condition.
const AsExpected = "AsExpected"

// SetCondition returns the conditions with one of them set, and whether that changed anything.
// The transition time becomes now if the status changes; otherwise it stays.
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

// DeferredAnnotation of a Tuned object sets when changes take effect.
const DeferredAnnotation = "tuned.openshift.io/deferred"

// DeferMode is when a profile takes effect.
type DeferMode string

// Values of DeferMode.
const (
	DeferNever  DeferMode = "never"  // at once
	DeferAlways DeferMode = "always" // at the next boot
	// DeferUpdate is at the next boot for a change of the profile in force, and at once for a
	// switch to another profile.
	DeferUpdate DeferMode = "update"
)

// Deferred parses the annotation. known is false if its value is not a mode, which means never.
func Deferred(annotations map[string]string) (mode DeferMode, known bool) {
	text, ok := annotations[DeferredAnnotation]
	switch mode := DeferMode(text); mode {
	case DeferAlways, DeferUpdate, DeferNever:
		return mode, true
	}
	return DeferNever, !ok
}

// The label of the Profile objects that fettle's operator writes.
const (
	ManagedByLabel = "app.kubernetes.io/managed-by"
	ManagedBy      = "fettle"
)

// Ours reports whether fettle's operator has written the Profile.
func (p *Profile) Ours() bool { return p.Labels[ManagedByLabel] == ManagedBy }

// NodeTuningOwner returns the object through which the Node Tuning Operator owns a Profile,
// such as "Tuned default"; "" if it does not own it, or if fettle's operator has taken it over.
// Its operand applies such a Profile, and writes its status. Source:
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
