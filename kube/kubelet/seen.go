// seen makes of a node and of what its agent says what the decision of a roll-out
// sees: for the operator that decides, and for kubectl fettle kubelet plan, which says
// what it would decide.

package kubelet

import core "k8s.io/api/core/v1"

// NoAgent is what is said of a node whose agent has said nothing.
const NoAgent = "its agent has not said anything yet"

// SeenNode is a node as the decision sees it. digest and retry are those of the settings that
// its pool wants. k is nil if the operator has told the node's agent nothing yet: then the node
// has no phase.
func SeenNode(n *core.Node, k *NodeKubelet, digest, retry string) Node {
	s := Node{Name: n.Name, Unschedulable: n.Spec.Unschedulable}
	for _, c := range n.Status.Conditions {
		on := c.Status == core.ConditionTrue
		switch c.Type {
		case core.NodeReady:
			s.Ready = on
		case core.NodeDiskPressure:
			s.DiskPressure = on
		case core.NodeNetworkUnavailable:
			s.NetworkUnavailable = on
		}
	}
	if k == nil {
		return s
	}
	s.Has, s.Tried, s.Why = k.Status.Has, k.Status.Tried, k.Status.Message
	again := k.Spec.Retry != retry
	switch phase := k.Status.Phase; {
	case k.Changing():
		s.Phase = Changing
	case phase == "":
		Silent(&s, digest)
	case phase == ConditionBroken:
		s.Phase = Broken
	case phase == ConditionFailed && !again:
		s.Phase = Failed
	case phase == ConditionBlocked && !again:
		s.Phase = Blocked
	}
	return s
}

// Silent blocks a node whose agent has said nothing of the settings.
func Silent(s *Node, digest string) {
	s.Phase, s.Tried, s.Why = Blocked, digest, NoAgent
}
