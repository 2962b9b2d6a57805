// Package nodestatus derives each node's status from the cluster's objects: requested and applied
// profile, the deciding rule, and values not in force. It sends no requests; kubectl fettle status
// prints the result.
package nodestatus

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	core "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/kube/agent"
	"fettle.dev/fettle/kube/cluster"
	"fettle.dev/fettle/kube/tuned"
)

// Schema is the schema of the document.
const Schema = "fettle/node-status/v1"

// Document is the status of the nodes of a cluster.
type Document struct {
	Schema string `json:"schema"`
	// Headline counts the nodes by state.
	Headline  ui.Headline `json:"headline"`
	Namespace string      `json:"namespace"`
	// Management is the operator's managementState: Managed, Unmanaged or Removed.
	Management tuned.ManagementState `json:"management_state"`
	// AgentsUnknown is the reason that the state of the agents is unknown; omitted if it is known.
	AgentsUnknown string        `json:"agents_unknown,omitempty"`
	Counts        map[State]int `json:"counts"`
	Nodes         []Node        `json:"nodes"`
	// Objects are the Tuned objects with their conditions.
	Objects []tuned.Object `json:"tuned_objects"`
	// Stray are Profile objects without a node.
	Stray []string `json:"profiles_without_node"`
}

// State is the status of a node in one word.
type State string

// Values of State.
const (
	OK       State = "ok"       // the profile is in force
	Degraded State = "degraded" // in force, but with wrong values or another problem
	Deferred State = "deferred" // waits for the next boot
	Failed   State = "failed"   // could not be applied
	Pending  State = "pending"  // the agent has not reported the result yet
	NoAgent  State = "no-agent" // no agent runs on the node; only its last report is known
	None     State = "none"     // the node has no Profile
)

// States lists all states, most harmful first.
var States = []State{Failed, Degraded, NoAgent, None, Pending, Deferred, OK}

// Node is the status of one node.
type Node struct {
	Node  string `json:"node"`
	State State  `json:"state"`
	// Wanted is the profile in the node's Profile object, Applied the profile that the agent
	// reports.
	Wanted  string `json:"wanted,omitempty"`
	Applied string `json:"applied,omitempty"`
	// Rule explains the decision with the operator's sentence, or, without one, with the rules'
	// present result (Computed).
	Rule     string `json:"rule"`
	Computed bool   `json:"rule_computed"`
	// Deferred is when changes take effect: always or update; omitted for immediately.
	Deferred tuned.DeferMode `json:"deferred,omitempty"`
	// Agent is the state of the node's agent; nil if unknown, or if another program than fettle's
	// agent writes the status.
	Agent *Agent `json:"agent,omitempty"`
	// Conditions are the conditions that the agent reports.
	Conditions []Condition `json:"conditions"`
	// Values are the values that are not in force.
	Values []agent.Value `json:"values"`
	// History are the node's last profile switches from its journal, newest last.
	History []agent.Switch `json:"history"`
	// Decision is the present decision of the rules.
	Decision tuned.Decision `json:"decision"`
}

// Condition is a condition that the agent reports.
type Condition struct {
	Type    tuned.ConditionType `json:"type"`   // Applied or Degraded
	Status  string              `json:"status"` // True, False or Unknown
	Since   time.Time           `json:"since"`  // last change of the status
	Reason  string              `json:"reason,omitempty"`
	Message string              `json:"message,omitempty"`
}

// Cluster is the data read from a cluster.
type Cluster struct {
	Namespace string
	Tuneds    []*tuned.Tuned
	Profiles  []tuned.Profile
	Nodes     []tuned.RecommendedNode
	Pools     []tuned.Pool
	Options   tuned.Options
	// Agents are the agents by node. If it is nil, AgentsUnknown has the reason.
	Agents        map[string]Agent
	AgentsUnknown string
}

// Look returns the status of the nodes of a cluster, ordered by name.
func Look(c Cluster) Document {
	rules := tuned.New(c.Tuneds, c.Pools, c.Options)
	d := Document{
		Schema: Schema, Namespace: c.Namespace, Management: rules.Managed(), AgentsUnknown: c.AgentsUnknown, Counts: map[State]int{},
		Nodes: []Node{}, Objects: rules.Objects(), Stray: []string{},
	}
	profiles := map[string]*tuned.Profile{}
	for i := range c.Profiles {
		profiles[c.Profiles[i].Name] = &c.Profiles[i]
	}
	for _, n := range c.Nodes {
		node := look(rules.Decide(n), profiles[n.Name])
		if len(c.Tuneds) == 0 && node.Computed {
			node.Rule = c.Namespace + " has no Tuned object"
		}
		node.attend(&c, profiles[n.Name])
		delete(profiles, n.Name)
		d.Nodes = append(d.Nodes, node)
		d.Counts[node.State]++
	}
	for name := range profiles {
		d.Stray = append(d.Stray, name)
	}
	slices.Sort(d.Stray)
	slices.SortFunc(d.Nodes, func(a, b Node) int { return cmp.Compare(a.Node, b.Node) })
	return d
}

func look(decision tuned.Decision, p *tuned.Profile) Node {
	n := Node{
		Node: decision.Node, State: None, Rule: decision.Why(), Computed: true,
		Conditions: []Condition{}, Values: []agent.Value{}, History: []agent.Switch{}, Decision: decision,
	}
	if p == nil {
		return n
	}
	n.Wanted, n.Applied = p.Spec.Config.TunedProfile, p.Status.TunedProfile
	for _, c := range p.Status.Conditions {
		n.Conditions = append(n.Conditions, Condition{c.Type, string(c.Status), c.LastTransitionTime.Time, c.Reason, c.Message})
	}
	if mode, _ := tuned.Deferred(p.Annotations); mode != tuned.DeferNever {
		n.Deferred = mode
	}
	if said := p.Annotations[tuned.RuleAnnotation]; said != "" {
		n.Rule, n.Computed = said, false
	}
	n.State = stateOf(p)
	n.Values = values(p.Annotations[agent.ValuesAnnotation])
	n.History = history(p.Annotations[agent.HistoryAnnotation])
	return n
}

// stateOf derives the state from the conditions. Conditions without an observed generation
// count if they are about the requested profile.
func stateOf(p *tuned.Profile) State {
	applied, degraded := condition(p, tuned.Applied), condition(p, tuned.Degraded)
	old := p.Status.ObservedGeneration != 0 && p.Status.ObservedGeneration < p.Generation
	switch {
	case applied == nil || old || applied.Status == metav1.ConditionUnknown:
		return Pending
	case applied.Status == metav1.ConditionFalse && applied.Reason == agent.Deferred:
		return Deferred
	case applied.Status == metav1.ConditionFalse:
		return Failed
	case p.Status.TunedProfile != p.Spec.Config.TunedProfile:
		return Pending
	case degraded != nil && degraded.Status == metav1.ConditionTrue:
		return Degraded
	}
	return OK
}

func condition(p *tuned.Profile, kind tuned.ConditionType) *tuned.StatusCondition {
	i := slices.IndexFunc(p.Status.Conditions, func(c tuned.StatusCondition) bool { return c.Type == kind })
	if i < 0 {
		return nil
	}
	return &p.Status.Conditions[i]
}

// values returns the values in the agent's annotation that are not in force. For an unreadable
// annotation it returns nil; the conditions still report the problem.
func values(text string) []agent.Value {
	out := []agent.Value{}
	var said agent.Values
	if text == "" || json.Unmarshal([]byte(text), &said) != nil {
		return out
	}
	for _, v := range said.Values {
		if v.Verdict != plugin.OK && v.Verdict != plugin.Dynamic {
			out = append(out, v)
		}
	}
	return out
}

// maxSwitches limits the switches read from an annotation; agents write no more.
const maxSwitches = 20

// history returns the switches in the agent's annotation; none if it cannot be read.
func history(text string) []agent.Switch {
	var said agent.History
	if text == "" || json.Unmarshal([]byte(text), &said) != nil {
		return []agent.Switch{}
	}
	return append([]agent.Switch{}, said.Switches[max(0, len(said.Switches)-maxSwitches):]...)
}

// AgentSelector selects the pods of agents (kube/deploy/agent).
var AgentSelector = map[string]string{"app.kubernetes.io/name": "fettle-agent"}

// Agent is the state of a node's agent, from its pod.
type Agent struct {
	// Pod is its name; omitted without a pod.
	Pod   string `json:"pod,omitempty"`
	Ready bool   `json:"ready"`
	// Since is when its Ready condition last changed; omitted if unknown.
	Since time.Time `json:"since,omitzero"`
	// Why is the reason that it is not Ready.
	Why string `json:"why,omitempty"`
}

// Agents returns the agents by node. Of several pods on a node, it takes the Ready one, or else the
// newest.
func Agents(pods []core.Pod) map[string]Agent {
	out := map[string]Agent{}
	made := map[string]time.Time{}
	for i := range pods {
		p := &pods[i]
		node := p.Spec.NodeName
		if node == "" || cluster.Ended(p) {
			continue
		}
		a := agentOf(p)
		has, there := out[node]
		if there && (has.Ready || !a.Ready && p.CreationTimestamp.Time.Before(made[node])) {
			continue
		}
		out[node], made[node] = a, p.CreationTimestamp.Time
	}
	return out
}

func agentOf(p *core.Pod) Agent {
	a := Agent{Pod: p.Name, Since: p.CreationTimestamp.Time}
	for _, c := range p.Status.Conditions {
		if c.Type == core.PodReady {
			a.Ready, a.Since = c.Status == core.ConditionTrue, c.LastTransitionTime.Time
			a.Why = cmp.Or(c.Message, c.Reason)
		}
	}
	if a.Ready {
		a.Why = ""
		return a
	}
	// A waiting container's reason explains more than the condition Ready.
	for _, c := range p.Status.ContainerStatuses {
		if w := c.State.Waiting; w != nil && w.Reason != "" {
			a.Why = w.Reason
			if w.Message != "" {
				a.Why += ": " + w.Message
			}
		}
	}
	a.Why = cmp.Or(a.Why, p.Status.Message, p.Status.Reason)
	return a
}

// attend sets the state of a node's agent, unless another program than fettle's agent has written
// the status.
func (n *Node) attend(c *Cluster, p *tuned.Profile) {
	spoke := p != nil && p.Annotations[agent.ValuesAnnotation] != ""
	if c.Agents == nil || p == nil || !spoke && len(p.Status.Conditions) > 0 {
		return
	}
	a := c.Agents[n.Node]
	n.Agent = &a
	if spoke && !a.Ready {
		n.State = NoAgent
	}
}

// Absent returns a sentence, without the node's name, if the node's agent does not run; otherwise
// "".
func (n *Node) Absent() string {
	a := n.Agent
	switch {
	case a == nil || a.Ready:
		return ""
	case a.Pod == "":
		return "its agent has no pod"
	}
	text := fmt.Sprintf("its agent is not running: pod %s is not Ready", a.Pod)
	if !a.Since.IsZero() {
		text += " since " + a.Since.UTC().Format(time.RFC3339)
	}
	if a.Why != "" {
		text += ": " + a.Why
	}
	return text
}
