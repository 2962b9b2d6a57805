package kubelet

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// kubeletconfig has the objects that ask for settings of kubelets, and reads them
// strictly from files: KubeletConfig of machineconfiguration.openshift.io/v1, as
// OpenShift has it, and KubeletPool of fettle.dev/v1alpha1, which says what OpenShift's
// MachineConfigPool says of a roll-out, for clusters that have none. NodeKubelet is what
// the operator and the agent of a node say to each other.

// The APIs.
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

// KubeletConfigSpec is what is asked for.
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

// KubeletConfigStatus is what became of it.
//
// +kubebuilder:object:generate=true
type KubeletConfigStatus struct {
	ObservedGeneration int64                    `json:"observedGeneration,omitempty"`
	Conditions         []KubeletConfigCondition `json:"conditions,omitempty"`
}

// KubeletConfigCondition is OpenShift's, of the type Success or Failure.
//
// +kubebuilder:object:generate=true
type KubeletConfigCondition struct {
	Type               string                 `json:"type,omitempty"`
	Status             metav1.ConditionStatus `json:"status,omitempty"`
	LastTransitionTime metav1.Time            `json:"lastTransitionTime,omitzero"`
	Reason             string                 `json:"reason,omitempty"`
	Message            string                 `json:"message,omitempty"`
}

// The types of a KubeletConfigCondition.
const (
	Success = "Success"
	Failure = "Failure"
)

// KubeletConfigList is a list of them.
//
// +kubebuilder:object:root=true
type KubeletConfigList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	Items []KubeletConfig `json:"items"`
}

// KubeletPool is nodes whose kubelets have the same settings, and how a change of these
// goes from one to the next. Its labels are what a KubeletConfig selects it by.
//
// +kubebuilder:object:root=true
type KubeletPool struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec   KubeletPoolSpec   `json:"spec"`
	Status KubeletPoolStatus `json:"status,omitzero"`
}

// KubeletPoolSpec is the pool.
//
// +kubebuilder:object:generate=true
type KubeletPoolSpec struct {
	// NodeSelector selects nodes by their labels. None, and an empty one, select nothing.
	NodeSelector *metav1.LabelSelector `json:"nodeSelector,omitempty"`
	// MaxUnavailable is how many nodes may be unavailable at once, for any reason: a
	// number, or a percentage, rounded down. None, and what comes to 0, is 1.
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	// Paused lets no node begin.
	Paused bool `json:"paused,omitempty"`
	// ManagementState is Managed, or Removed: then the nodes get back what they had before
	// fettle came, by slots as ever, whatever KubeletConfig objects want. None is Managed.
	ManagementState string `json:"managementState,omitempty" pattern:"^(Managed|Removed)$"`
}

// The management states of a pool.
const (
	Managed = "Managed"
	Removed = "Removed"
)

// KubeletPoolStatus is how far a change is.
//
// +kubebuilder:object:generate=true
type KubeletPoolStatus struct {
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Digest names the settings that are wanted; KubeletConfigs the objects they come from.
	Digest         string   `json:"digest,omitempty"`
	KubeletConfigs []string `json:"kubeletConfigs,omitempty"`
	// Nodes counts the nodes of the pool, Updated those that have the settings,
	// Unavailable those that are unavailable.
	Nodes       int32 `json:"nodes,omitempty"`
	Updated     int32 `json:"updated,omitempty"`
	Unavailable int32 `json:"unavailable,omitempty"`
	// Changing are the nodes that change now.
	Changing   []string           `json:"changing,omitempty"`
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// The conditions of a KubeletPool.
const (
	Updated  = "Updated"  // all nodes have the settings
	Updating = "Updating" // nodes change, or wait for it
	Degraded = "Degraded" // the rollout has stopped until an administrator acts
)

// KubeletPoolList is a list of them.
//
// +kubebuilder:object:root=true
type KubeletPoolList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	Items []KubeletPool `json:"items"`
}

// AddToScheme tells a scheme of the types.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(ConfigVersion, &KubeletConfig{}, &KubeletConfigList{})
	metav1.AddToGroupVersion(s, ConfigVersion)
	s.AddKnownTypes(PoolVersion, &KubeletPool{}, &KubeletPoolList{}, &NodeKubelet{}, &NodeKubeletList{})
	metav1.AddToGroupVersion(s, PoolVersion)
	return nil
}

// NodeKubelet is the kubelet of one node: what it is to run with, and what became of
// that. It is named like the node. The operator writes its spec, the agent of the node
// its status.
//
// +kubebuilder:object:root=true
type NodeKubelet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec   NodeKubeletSpec   `json:"spec"`
	Status NodeKubeletStatus `json:"status,omitzero"`
}

// NodeKubeletSpec is what the node is told.
//
// +kubebuilder:object:generate=true
type NodeKubeletSpec struct {
	// Pool is the KubeletPool of the node; "" for a node that no pool has any more.
	Pool string `json:"pool,omitempty"`
	// Turn counts how often the node was told to begin. It has its slot as long as
	// status.turn is another one: whoever raises it has counted who is unavailable.
	Turn int64 `json:"turn,omitempty"`
	// Since is when it was told.
	Since metav1.Time `json:"since,omitzero"`
	// Digest names the settings of that turn; "" that the node gets its own back.
	Digest string `json:"digest,omitempty"`
	// KubeletConfig are the settings, KubeletConfigs the objects that they come from.
	KubeletConfig  *runtime.RawExtension `json:"kubeletConfig,omitempty"`
	KubeletConfigs []string              `json:"kubeletConfigs,omitempty"`
	// Retry is what the pool's annotation RetryAnnotation said then.
	Retry string `json:"retry,omitempty"`
}

// RetryAnnotation of a KubeletPool lets nodes try settings again that have failed on
// them, or that they could not begin with, each time that it gets another value.
const RetryAnnotation = "fettle.dev/retry"

// SettingsAnnotation of a Node names the settings that its kubelet has of fettle's, as long
// as it has some. It outlives the objects of fettle, which may be deleted first, and so
// says then which nodes have them still.
const SettingsAnnotation = "fettle.dev/kubelet-settings"

// NodePhase is how a node's last turn ended.
type NodePhase string

// The phases. An agent that has said nothing yet has none.
const (
	Settled          NodePhase = "Settled" // it runs with what status.has names, and nothing is wrong
	ConditionFailed  NodePhase = "Failed"  // it has tried, and runs with its former settings
	ConditionBroken  NodePhase = "Broken"  // it runs with neither
	ConditionBlocked NodePhase = "Blocked" // nothing was tried: something is in the way, which the message names
)

// NodeKubeletStatus is what the agent of the node says.
//
// +kubebuilder:object:generate=true
type NodeKubeletStatus struct {
	// Turn is the last one that has ended.
	Turn  int64     `json:"turn,omitempty"`
	Phase NodePhase `json:"phase,omitempty"`
	// Has names the settings that the node has of fettle's, Tried those of the last turn.
	Has   string `json:"has,omitempty"`
	Tried string `json:"tried,omitempty"`
	// Settings are the names of those that the last turn changed, or was to.
	Settings []string `json:"settings,omitempty"`
	// Step is where it failed, Message why, LastWords the end of the kubelet's log then.
	Step      string `json:"step,omitempty"`
	Message   string `json:"message,omitempty"`
	LastWords string `json:"lastWords,omitempty"`
	// Waiting is what keeps the present turn from going on, while that is tried again.
	Waiting string `json:"waiting,omitempty"`
	// DownMilliseconds is how long no kubelet was there.
	DownMilliseconds int64 `json:"downMilliseconds,omitempty"`
}

// Changing reports whether the node was told to begin and has not said how that ended.
func (k *NodeKubelet) Changing() bool { return k.Spec.Turn != k.Status.Turn }

// NodeKubeletList is a list of them.
//
// +kubebuilder:object:root=true
type NodeKubeletList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	Items []NodeKubelet `json:"items"`
}

// Stuck is the reason of a pool's condition Degraded where a node does not say how its
// change ended.
const Stuck = "Stuck"
