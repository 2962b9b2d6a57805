package nodestatus

import (
	"cmp"
	"fmt"
	"time"

	core "k8s.io/api/core/v1"

	"fettle.dev/fettle/kube/corestate"
	"fettle.dev/fettle/kube/tuned"
)

// AgentSelector is by which the pods of agents are known (kube/deploy/agent).
var AgentSelector = map[string]string{"app.kubernetes.io/name": "fettle-agent"}

// Agent is whether a node's agent runs, as its pod tells.
type Agent struct {
	// Pod is its name; left out without a pod.
	Pod   string `json:"pod,omitempty"`
	Ready bool   `json:"ready"`
	// Since is when it last became Ready, or ceased to be; left out if unknown.
	Since time.Time `json:"since,omitzero"`
	// Why says what is wrong with one that is not Ready.
	Why string `json:"why,omitempty"`
}

// Agents are those of pods, by node. Of several on one node the one that is Ready is it,
// else the newest.
func Agents(pods []core.Pod) map[string]Agent {
	out := map[string]Agent{}
	made := map[string]time.Time{}
	for i := range pods {
		p := &pods[i]
		node := p.Spec.NodeName
		if node == "" || corestate.Ended(p) {
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
	// What keeps a container from running says more than that it does not.
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

// attend adds to a node whether its agent runs. Only who has spoken, or is the one to
// speak first, is fettle's agent: elsewhere another program writes the status.
func (n *Node) attend(c *Cluster, p *tuned.Profile) {
	spoke := p != nil && p.Annotations[valuesAnnotation] != ""
	if c.Agents == nil || p == nil || !spoke && len(p.Status.Conditions) > 0 {
		return
	}
	a := c.Agents[n.Node]
	n.Agent = &a
	if spoke && !a.Ready {
		n.Standing = NoAgent
	}
}

// Absent says in a sentence, without the node, that its agent does not run; "" where it
// does, or if it is unknown.
func (n *Node) Absent() string {
	a := n.Agent
	switch {
	case a == nil || a.Ready:
		return ""
	case a.Pod == "":
		return "its agent has no pod"
	}
	text := fmt.Sprintf("its agent does not run: pod %s is not Ready", a.Pod)
	if !a.Since.IsZero() {
		text += " since " + a.Since.UTC().Format(time.RFC3339)
	}
	if a.Why != "" {
		text += ": " + a.Why
	}
	return text
}
