// recommend decides each node's profile from the Tuned objects, the node's labels and pods, and the
// pools. It returns one value per node and one per Tuned object, and sends no requests.
//
// The rules are those of OpenShift's Node Tuning Operator: the recommend lists of the objects, in
// order of their names, are sorted by priority, and the first matching rule decides.
// docs/kubernetes-tuned.md lists the differences. The main one: an error in one object affects only
// the nodes that would get its profile.

package tuned

import (
	"fmt"
	"io/fs"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Options are the operator's options for decisions.
type Options struct {
	// PodLabels lets rules match pod labels. Without it, items with pod labels never match.
	PodLabels bool
	// Allow lists the permitted actions beyond settings, see Kind.
	Allow Allow
	// Builtin has the profiles that every node has anyway, as NAME/tuned.conf; it may be nil.
	Builtin fs.FS
}

// Pool is a set of nodes with a common configuration: a MachineConfigPool.
type Pool struct {
	Name string
	// NodeSelector and MachineConfigSelector select nothing if nil or empty.
	NodeSelector          *metav1.LabelSelector
	MachineConfigSelector *metav1.LabelSelector
}

// RecommendedNode is the input about one node.
type RecommendedNode struct {
	Name   string
	Labels map[string]string
	// Pods are the node's pods, used only with Options.PodLabels.
	Pods []Pod
}

// Pod is a pod on a node; Name is namespace/name.
type Pod struct {
	Name   string
	Labels map[string]string
}

// State is the result of a decision.
type State string

// Values of State; none of them is an error.
const (
	Decided State = "decided"
	// Held means that the profile of the node's matching rule is unusable. The node keeps its
	// present profile, because later rules are meant for other nodes.
	Held State = "held"
	// NoMatch means that no rule matches the node; it gets no profile.
	NoMatch State = "no-match"
	// NotLinux means that the label kubernetes.io/os names another system.
	NotLinux State = "not-linux"
)

// Decision is the result for one node, with the reason.
type Decision struct {
	Node  string `json:"node"`
	State State  `json:"state"`
	// Profile is the rule's profile; a held node would get it.
	Profile string `json:"profile,omitempty"`
	// Rule is the deciding rule, or nil.
	Rule *Rule `json:"rule,omitempty"`
	// Debug, Verbosity, ReapplySysctl and UdevSettleS are the rule's operand
	// options.
	Debug         bool      `json:"debug,omitempty"`
	Verbosity     int       `json:"verbosity,omitempty"`
	ReapplySysctl *bool     `json:"reapply_sysctl,omitempty"`
	UdevSettleS   *int64    `json:"udev_settle_s,omitempty"`
	Deferred      DeferMode `json:"deferred,omitempty"`
	// Profiles are the sorted names of the objects' profiles that the node needs: Profile and its
	// includes, or all profiles if only the node can resolve the includes.
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
	ByCatchAll By = "catch-all" // the rule has no condition
)

// Rule is the deciding rule of a Decision.
type Rule struct {
	Object string `json:"object"`
	// Index is the rule's index in the object's recommend list, from 0.
	Index int `json:"index"`
	// Priority is nil if the rule has none.
	Priority *uint64 `json:"priority"`
	By       By      `json:"by"`
	// Items are the matching match items, outermost first.
	Items []Item `json:"items,omitempty"`
	// Pools are the node's pools that match machineConfigLabels.
	Pools []string `json:"pools,omitempty"`
}

// Item is a matching match item.
type Item struct {
	Path  string `json:"path"` // "match[0].match[2]"
	Type  string `json:"type"`
	Label string `json:"label"`
	Value string `json:"value"`         // value of the node's or pod's label
	Pod   string `json:"pod,omitempty"` // pod with the label, if any
}

func (i Item) String() string {
	whose := "node"
	if i.Type == PodLabel {
		whose = "pod " + i.Pod
	}
	return fmt.Sprintf("%s: %s has %s=%q", i.Path, whose, i.Label, i.Value)
}

// where returns a rule's path, such as "Tuned ingress, recommend[0]".
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
