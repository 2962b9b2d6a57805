// kubeletconfig has the objects that ask for settings of kubelets, and reads them
// strictly from files: KubeletConfig of machineconfiguration.openshift.io/v1, as
// OpenShift has it, and KubeletPool of fettle.dev/v1alpha1, which says what OpenShift's
// MachineConfigPool says of a roll-out, for clusters that have none. NodeKubelet is what
// the operator and the agent of a node say to each other.

package kubelet

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
)

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
