package kubelet

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// The API types of kubelet settings. KubeletConfig (machineconfiguration.openshift.io/v1) is
// OpenShift's. KubeletPool (fettle.dev/v1alpha1) replaces MachineConfigPool on clusters without
// OpenShift. The operator and a node's agent communicate through NodeKubelet.

// API versions of these types.
var (
	ConfigVersion = schema.GroupVersion{Group: "machineconfiguration.openshift.io", Version: "v1"}
	PoolVersion   = schema.GroupVersion{Group: "fettle.dev", Version: "v1alpha1"}
)

// MachineConfigPool is OpenShift's pool kind, MachineConfigPools its list kind.
var (
	MachineConfigPool  = ConfigVersion.WithKind("MachineConfigPool")
	MachineConfigPools = ConfigVersion.WithKind("MachineConfigPoolList")
)

// KubeletConfig requests settings for the kubelets of pools.
//
// +kubebuilder:object:root=true
type KubeletConfig struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec   KubeletConfigSpec   `json:"spec"`
	Status KubeletConfigStatus `json:"status,omitzero"`
}

// KubeletConfigSpec holds the requested settings and the pools they apply to.
//
// +kubebuilder:object:generate=true
type KubeletConfigSpec struct {
	// MachineConfigPoolSelector selects MachineConfigPools or KubeletPools by their labels. A nil
	// or empty selector selects nothing.
	MachineConfigPoolSelector *metav1.LabelSelector `json:"machineConfigPoolSelector,omitempty"`
	// KubeletConfig is a partial KubeletConfiguration.
	KubeletConfig *runtime.RawExtension `json:"kubeletConfig,omitempty"`
	// AutoSizingReserved, LogLevel and TLSSecurityProfile are for OpenShift only: fettle rejects an
	// object with one of them.
	AutoSizingReserved *bool                 `json:"autoSizingReserved,omitempty"`
	LogLevel           *int32                `json:"logLevel,omitempty"`
	TLSSecurityProfile *runtime.RawExtension `json:"tlsSecurityProfile,omitempty"`
}

// KubeletConfigStatus is the result of applying a KubeletConfig.
//
// +kubebuilder:object:generate=true
type KubeletConfigStatus struct {
	ObservedGeneration int64                    `json:"observedGeneration,omitempty"`
	Conditions         []KubeletConfigCondition `json:"conditions,omitempty"`
}

// KubeletConfigCondition is OpenShift's condition, of type Success or Failure.
//
// +kubebuilder:object:generate=true
type KubeletConfigCondition struct {
	Type               string                 `json:"type,omitempty"`
	Status             metav1.ConditionStatus `json:"status,omitempty"`
	LastTransitionTime metav1.Time            `json:"lastTransitionTime,omitzero"`
	Reason             string                 `json:"reason,omitempty"`
	Message            string                 `json:"message,omitempty"`
}

// Types of a KubeletConfigCondition.
const (
	Success = "Success"
	Failure = "Failure"
)

// KubeletConfigList is a list of KubeletConfig objects.
//
// +kubebuilder:object:root=true
type KubeletConfigList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	Items []KubeletConfig `json:"items"`
}

// KubeletPool is a set of nodes whose kubelets have the same settings, and their rollout limits.
// KubeletConfig objects select pools by labels.
//
// +kubebuilder:object:root=true
type KubeletPool struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec   KubeletPoolSpec   `json:"spec"`
	Status KubeletPoolStatus `json:"status,omitzero"`
}

// KubeletPoolSpec is the specification of a pool.
//
// +kubebuilder:object:generate=true
type KubeletPoolSpec struct {
	// NodeSelector selects nodes by their labels. A nil or empty selector selects nothing.
	NodeSelector *metav1.LabelSelector `json:"nodeSelector,omitempty"`
	// MaxUnavailable is the maximum number of concurrently unavailable nodes, for any reason: a
	// number, or a percentage, rounded down. nil and 0 mean 1.
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	// Paused prevents nodes from starting a change.
	Paused bool `json:"paused,omitempty"`
	// ManagementState is Managed, the default, or Removed. With Removed the nodes' own settings are
	// restored within the same limits, and KubeletConfig objects are ignored.
	ManagementState string `json:"managementState,omitempty" pattern:"^(Managed|Removed)$"`
}

// Management states of a pool.
const (
	Managed = "Managed"
	Removed = "Removed"
)

// KubeletPoolStatus is the progress of a pool's rollout.
//
// +kubebuilder:object:generate=true
type KubeletPoolStatus struct {
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Digest identifies the requested settings; KubeletConfigs are the objects that request them.
	Digest         string   `json:"digest,omitempty"`
	KubeletConfigs []string `json:"kubeletConfigs,omitempty"`
	// Nodes counts the pool's nodes, Updated those with the requested settings, Unavailable the
	// unavailable ones.
	Nodes       int32 `json:"nodes,omitempty"`
	Updated     int32 `json:"updated,omitempty"`
	Unavailable int32 `json:"unavailable,omitempty"`
	// Changing are the nodes whose change is in progress.
	Changing   []string           `json:"changing,omitempty"`
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Conditions of a KubeletPool.
const (
	Updated  = "Updated"  // all nodes have the settings
	Updating = "Updating" // nodes are changing or waiting for their turn
	Degraded = "Degraded" // the rollout has stopped until an administrator acts
)

// KubeletPoolList is a list of KubeletPool objects.
//
// +kubebuilder:object:root=true
type KubeletPoolList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	Items []KubeletPool `json:"items"`
}

// AddToScheme registers the types in a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(ConfigVersion, &KubeletConfig{}, &KubeletConfigList{})
	metav1.AddToGroupVersion(s, ConfigVersion)
	s.AddKnownTypes(PoolVersion, &KubeletPool{}, &KubeletPoolList{}, &NodeKubelet{}, &NodeKubeletList{})
	metav1.AddToGroupVersion(s, PoolVersion)
	return nil
}

// NodeKubelet is one node's kubelet: the requested settings and the result. It has the node's name.
// The operator writes the spec, the node's agent the status.
//
// +kubebuilder:object:root=true
type NodeKubelet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec   NodeKubeletSpec   `json:"spec"`
	Status NodeKubeletStatus `json:"status,omitzero"`
}

// NodeKubeletSpec is the operator's request to the node.
//
// +kubebuilder:object:generate=true
type NodeKubeletSpec struct {
	// Pool is the node's KubeletPool; "" if no pool selects the node any more.
	Pool string `json:"pool,omitempty"`
	// Turn is the number of the last requested change. While status.turn differs, the node occupies
	// a slot: the operator checks the limit before it increases Turn.
	Turn int64 `json:"turn,omitempty"`
	// Since is when the operator requested the turn.
	Since metav1.Time `json:"since,omitzero"`
	// Digest identifies the turn's settings; "" restores the node's own.
	Digest string `json:"digest,omitempty"`
	// KubeletConfig are the settings, KubeletConfigs the objects that request them.
	KubeletConfig  *runtime.RawExtension `json:"kubeletConfig,omitempty"`
	KubeletConfigs []string              `json:"kubeletConfigs,omitempty"`
	// Retry is the value of the pool's annotation RetryAnnotation when the turn was requested.
	Retry string `json:"retry,omitempty"`
}

// RetryAnnotation is a KubeletPool's annotation. When its value changes, nodes retry settings that
// failed or were blocked.
const RetryAnnotation = "fettle.dev/retry"

// SettingsAnnotation is a Node's annotation with the digest of its kubelet's settings from fettle.
// It shows which nodes still have settings, even after fettle's objects were deleted.
const SettingsAnnotation = "fettle.dev/kubelet-settings"

// NodePhase is the result of a node's last turn.
type NodePhase string

// Phases of a node; "" until its agent has reported.
const (
	Settled          NodePhase = "Settled" // runs with the settings in status.has, without problems
	ConditionFailed  NodePhase = "Failed"  // tried the settings, and runs with its former ones
	ConditionBroken  NodePhase = "Broken"  // runs with neither the new nor the former settings
	ConditionBlocked NodePhase = "Blocked" // tried nothing, for the reason in the message
)

// NodeKubeletStatus is the report of a node's agent.
//
// +kubebuilder:object:generate=true
type NodeKubeletStatus struct {
	// Turn is the last finished turn.
	Turn  int64     `json:"turn,omitempty"`
	Phase NodePhase `json:"phase,omitempty"`
	// Has is the digest of the node's settings from fettle, Tried that of the last turn.
	Has   string `json:"has,omitempty"`
	Tried string `json:"tried,omitempty"`
	// Settings are the names of the settings that the last turn tried to change.
	Settings []string `json:"settings,omitempty"`
	// Step is the failed step, Message the error, LastWords the end of the kubelet's log at the
	// failure.
	Step      string `json:"step,omitempty"`
	Message   string `json:"message,omitempty"`
	LastWords string `json:"lastWords,omitempty"`
	// Waiting is what delays the present turn, which the agent retries.
	Waiting string `json:"waiting,omitempty"`
	// DownMilliseconds is how long the kubelet was not running.
	DownMilliseconds int64 `json:"downMilliseconds,omitempty"`
}

// Changing reports whether the node has a turn whose result is not reported yet.
func (k *NodeKubelet) Changing() bool { return k.Spec.Turn != k.Status.Turn }

// NodeKubeletList is a list of NodeKubelet objects.
//
// +kubebuilder:object:root=true
type NodeKubeletList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	Items []NodeKubelet `json:"items"`
}

// Stuck is the reason of a pool's condition Degraded if a node does not report a turn's result in
// time.
const Stuck = "Stuck"
