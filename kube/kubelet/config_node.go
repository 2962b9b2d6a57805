package kubelet

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

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
