package kubelet

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// kubeletconfig defines the objects that request kubelet settings, and reads them strictly from
// files: OpenShift's KubeletConfig of machineconfiguration.openshift.io/v1, and KubeletPool of
// fettle.dev/v1alpha1, which controls a rollout as MachineConfigPool does, for clusters without
// OpenShift. Through NodeKubelet the operator and a node's agent communicate.

// Versions of the APIs.
var (
	ConfigVersion = schema.GroupVersion{Group: "machineconfiguration.openshift.io", Version: "v1"}
	PoolVersion   = schema.GroupVersion{Group: "fettle.dev", Version: "v1alpha1"}
)

// MachineConfigPool is OpenShift's kind of pools, and MachineConfigPools the list of them.
var (
	MachineConfigPool  = ConfigVersion.WithKind("MachineConfigPool")
	MachineConfigPools = ConfigVersion.WithKind("MachineConfigPoolList")
)

// KubeletConfig asks for settings of the kubelets of pools.
//
// +kubebuilder:object:root=true
type KubeletConfig struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec   KubeletConfigSpec   `json:"spec"`
	Status KubeletConfigStatus `json:"status,omitzero"`
}

// KubeletConfigSpec is the request of a KubeletConfig.
//
// +kubebuilder:object:generate=true
type KubeletConfigSpec struct {
	// MachineConfigPoolSelector selects pools by their labels, MachineConfigPools or
	// KubeletPools. None, and an empty one, select nothing.
	MachineConfigPoolSelector *metav1.LabelSelector `json:"machineConfigPoolSelector,omitempty"`
	// KubeletConfig is a part of a KubeletConfiguration.
	KubeletConfig *runtime.RawExtension `json:"kubeletConfig,omitempty"`
	// AutoSizingReserved, LogLevel and TLSSecurityProfile are OpenShift's alone: an
	// object that has one of them is refused.
	AutoSizingReserved *bool                 `json:"autoSizingReserved,omitempty"`
	LogLevel           *int32                `json:"logLevel,omitempty"`
	TLSSecurityProfile *runtime.RawExtension `json:"tlsSecurityProfile,omitempty"`
}

// KubeletConfigStatus is the result of applying it.
//
// +kubebuilder:object:generate=true
type KubeletConfigStatus struct {
	ObservedGeneration int64                    `json:"observedGeneration,omitempty"`
	Conditions         []KubeletConfigCondition `json:"conditions,omitempty"`
}

// KubeletConfigCondition is OpenShift's condition of the type Success or Failure.
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

// KubeletPool is a set of nodes whose kubelets have the same settings, and the rules for their
// rollout. KubeletConfig objects select it by its labels.
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
	// MaxUnavailable is the maximum number of nodes unavailable at once, for any reason: a number,
	// or a percentage, rounded down. nil and 0 mean 1.
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	// Paused prevents nodes from beginning a change.
	Paused bool `json:"paused,omitempty"`
	// ManagementState is Managed, the default, or Removed: then the nodes' settings from before
	// fettle are restored, with the usual limits, whatever KubeletConfig objects request.
	ManagementState string `json:"managementState,omitempty" pattern:"^(Managed|Removed)$"`
}

// Management states of a pool.
const (
	Managed = "Managed"
	Removed = "Removed"
)

// KubeletPoolStatus is the progress of a change.
//
// +kubebuilder:object:generate=true
type KubeletPoolStatus struct {
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Digest identifies the requested settings; KubeletConfigs are the objects they come from.
	Digest         string   `json:"digest,omitempty"`
	KubeletConfigs []string `json:"kubeletConfigs,omitempty"`
	// Nodes counts the nodes of the pool, Updated those with the settings, Unavailable the
	// unavailable ones.
	Nodes       int32 `json:"nodes,omitempty"`
	Updated     int32 `json:"updated,omitempty"`
	Unavailable int32 `json:"unavailable,omitempty"`
	// Changing are the nodes that change now.
	Changing   []string           `json:"changing,omitempty"`
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Conditions of a KubeletPool.
const (
	Updated  = "Updated"  // all nodes have the settings
	Updating = "Updating" // nodes change, or wait for it
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

// NodeKubelet is the kubelet of one node: its requested settings and the result. It has the
// name of the node. The operator writes its spec, the agent of the node its status.
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
	// Pool is the KubeletPool of the node; "" if no pool selects the node any more.
	Pool string `json:"pool,omitempty"`
	// Turn counts the requests to begin. The node occupies a slot while status.turn differs: the
	// operator counts unavailable nodes before it raises it.
	Turn int64 `json:"turn,omitempty"`
	// Since is the time of that request.
	Since metav1.Time `json:"since,omitzero"`
	// Digest identifies the settings of that turn; "" restores the node's own.
	Digest string `json:"digest,omitempty"`
	// KubeletConfig are the settings, KubeletConfigs the objects that they come from.
	KubeletConfig  *runtime.RawExtension `json:"kubeletConfig,omitempty"`
	KubeletConfigs []string              `json:"kubeletConfigs,omitempty"`
	// Retry is the value of the pool's annotation RetryAnnotation at that time.
	Retry string `json:"retry,omitempty"`
}

// RetryAnnotation of a KubeletPool makes nodes retry settings that failed or were blocked on
// them, each time its value changes.
const RetryAnnotation = "fettle.dev/retry"

// SettingsAnnotation of a Node identifies the settings that its kubelet has from fettle, while
// it has any. It outlives the objects of fettle, which may be deleted first, and so shows which
// nodes still have settings.
const SettingsAnnotation = "fettle.dev/kubelet-settings"

// NodePhase is the result of a node's last turn.
type NodePhase string

// Phases of a node; "" until its agent has reported.
const (
	Settled          NodePhase = "Settled" // it runs with what status.has names, and nothing is wrong
	ConditionFailed  NodePhase = "Failed"  // it has tried, and runs with its former settings
	ConditionBroken  NodePhase = "Broken"  // it runs with neither
	ConditionBlocked NodePhase = "Blocked" // nothing was tried: something is in the way, which the message names
)

// NodeKubeletStatus is the report of the node's agent.
//
// +kubebuilder:object:generate=true
type NodeKubeletStatus struct {
	// Turn is the last turn that has ended.
	Turn  int64     `json:"turn,omitempty"`
	Phase NodePhase `json:"phase,omitempty"`
	// Has identifies the node's settings from fettle, Tried those of the last turn.
	Has   string `json:"has,omitempty"`
	Tried string `json:"tried,omitempty"`
	// Settings are the names of the settings that the last turn changed or tried to change.
	Settings []string `json:"settings,omitempty"`
	// Step is the step that failed, Message the error, LastWords the end of the kubelet's log
	// then.
	Step      string `json:"step,omitempty"`
	Message   string `json:"message,omitempty"`
	LastWords string `json:"lastWords,omitempty"`
	// Waiting is what blocks the present turn, which is retried.
	Waiting string `json:"waiting,omitempty"`
	// DownMilliseconds is the time without a running kubelet.
	DownMilliseconds int64 `json:"downMilliseconds,omitempty"`
}

// Changing reports whether the node was told to begin and has not reported the result.
func (k *NodeKubelet) Changing() bool { return k.Spec.Turn != k.Status.Turn }

// NodeKubeletList is a list of NodeKubelet objects.
//
// +kubebuilder:object:root=true
type NodeKubeletList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	Items []NodeKubelet `json:"items"`
}

// Stuck is the reason of a pool's condition Degraded if a node does not report the result of
// its change.
const Stuck = "Stuck"
