// recommend decides which profile each node of a cluster gets, from the Tuned objects, the
// node's labels, the pods on it and the pools. It computes one plain value for each node and
// one for each Tuned object, and sends no requests.
//
// The rules are those of OpenShift's Node Tuning Operator: the recommend lists of the objects,
// in order of their names, are sorted by priority, and the first matching rule decides.
// Differences are in docs/kubernetes-tuned.md; above all, a mistake in one object affects
// only the nodes that would get it.

package tuned

import (
	"fmt"
	"io/fs"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Options are the operator's options for decisions.
type Options struct {
	// PodLabels lets rules match labels of pods. Without it an item that does never matches.
	PodLabels bool
	// Allow is what profiles may do beyond the boundary.
	Allow Allow
	// Builtin has the profiles that every node has without any object, as NAME/tuned.conf; nil for
	// none.
	Builtin fs.FS
}

// Pool is a set of nodes with a configuration of their own: a MachineConfigPool.
type Pool struct {
	Name string
	// NodeSelector and MachineConfigSelector select nothing if they are nil or empty.
	NodeSelector          *metav1.LabelSelector
	MachineConfigSelector *metav1.LabelSelector
}

// RecommendedNode is a node of the cluster.
type RecommendedNode struct {
	Name   string
	Labels map[string]string
	// Pods are the pods on the node; used only with Options.PodLabels.
	Pods []Pod
}

// Pod is a pod on a node; Name is namespace/name.
type Pod struct {
	Name   string
	Labels map[string]string
}

// State is the result of a decision.
type State string

// Values of State. None of them is an error.
const (
	Decided State = "decided"
	// Held is a node whose matching rule has a profile that cannot be given. It keeps its profile:
	// the next rule is meant for other nodes.
	Held State = "held"
	// NoMatch is a node that no rule matches. It gets no profile.
	NoMatch State = "no-match"
	// NotLinux is a node with another system in its label kubernetes.io/os.
	NotLinux State = "not-linux"
)

// Decision is the decision for a node, and its reason.
type Decision struct {
	Node  string `json:"node"`
	State State  `json:"state"`
	// Profile is the profile that the rule gives, or would give to a node that is held.
	Profile string `json:"profile,omitempty"`
	// Rule is the rule that decided; nil if none did.
	Rule *Rule `json:"rule,omitempty"`
	// Debug, Verbosity, ReapplySysctl and UdevSettleS are the rule's operand
	// options.
	Debug         bool      `json:"debug,omitempty"`
	Verbosity     int       `json:"verbosity,omitempty"`
	ReapplySysctl *bool     `json:"reapply_sysctl,omitempty"`
	UdevSettleS   *int64    `json:"udev_settle_s,omitempty"`
	Deferred      DeferMode `json:"deferred,omitempty"`
	// Profiles are the names of the objects' profiles that the node needs, sorted: those that
	// Profile includes, or all if only the node can resolve the includes.
	Profiles []string `json:"profiles,omitempty"`
	// Notes are remarks about the decision.
	Notes []Note `json:"notes,omitempty"`
}

// By is the part of a rule that matched.
type By string

// Values of By.
const (
	ByMatch    By = "match"
	ByLabels   By = "machine-config-labels"
	ByCatchAll By = "catch-all" // it asks for nothing
)

// Rule is a rule that decided.
type Rule struct {
	Object string `json:"object"`
	// Index is its index in the object's recommend list, from 0.
	Index int `json:"index"`
	// Priority is nil if the rule has none.
	Priority *uint64 `json:"priority"`
	By       By      `json:"by"`
	// Items are the matching match items, from the outermost to the innermost.
	Items []Item `json:"items,omitempty"`
	// Pools are the node's pools that match the rule's machineConfigLabels.
	Pools []string `json:"pools,omitempty"`
}

// Item is a matching match item.
type Item struct {
	Path  string `json:"path"` // "match[0].match[2]"
	Type  string `json:"type"`
	Label string `json:"label"`
	Value string `json:"value"`         // that the node or the pod has
	Pod   string `json:"pod,omitempty"` // whose label it is
}

func (i Item) String() string {
	whose := "node"
	if i.Type == PodLabel {
		whose = "pod " + i.Pod
	}
	return fmt.Sprintf("%s: %s has %s=%q", i.Path, whose, i.Label, i.Value)
}

// where returns the path of a rule: Tuned ingress, recommend[0].
func where(object string, index int) string {
	return fmt.Sprintf("Tuned %s, recommend[%d]", object, index)
}

func priority(p *uint64) string {
	if p == nil {
		return "no priority"
	}
	return fmt.Sprintf("priority %d", *p)
}

func (r *Rule) String() string {
	s := fmt.Sprintf("%s (%s)", where(r.Object, r.Index), priority(r.Priority))
	switch r.By {
	case ByCatchAll:
		return s + ": matches every node"
	case ByLabels:
		return s + ": machineConfigLabels of pool " + strings.Join(r.Pools, ", ")
	}
	var items []string
	for _, i := range r.Items {
		items = append(items, i.String())
	}
	return s + ": " + strings.Join(items, ", ")
}

// Why returns a sentence that explains a decision.
func (d Decision) Why() string {
	switch d.State {
	case Decided:
		return d.Rule.String()
	case Held:
		return fmt.Sprintf("node unchanged: %s; by %s", d.Notes[0].Text, d.Rule)
	case NotLinux:
		return "the node is not Linux"
	}
	return "no rule of any Tuned object matches"
}
