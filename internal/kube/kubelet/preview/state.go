package preview

import (
	"maps"
	"slices"

	core "k8s.io/api/core/v1"

	"fettle.dev/fettle/internal/kube/kubelet"
	"fettle.dev/fettle/internal/kube/kubeletconfig"
	"fettle.dev/fettle/internal/kube/rollout"
)

// has names the settings that the node has of fettle's; "" none.
func (n *Node) has() string {
	if n.Kubelet != nil && n.Kubelet.Status.Phase != "" {
		return n.Kubelet.Status.Has
	}
	return n.Annotations[kubeletconfig.SettingsAnnotation]
}

// back are the settings that the node has of fettle's and that are wanted no more, or of
// which a part is not. What it goes back to is in its own files. None are known where its
// last turn was of other settings than it has.
func (n *Node) back(want kubelet.Want) []string {
	k := n.Kubelet
	if k == nil || k.Spec.KubeletConfig == nil || k.Status.Has == "" || k.Status.Has != k.Spec.Digest {
		return nil
	}
	had, err := kubelet.Parse(k.Spec.KubeletConfig.Raw)
	if err != nil {
		return nil // of an operator of another version
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(had)) {
		if name != "apiVersion" && name != "kind" && !covers(want.Fields[name], had[name]) {
			out = append(out, name)
		}
	}
	return out
}

// covers says whether a value takes the place of another one wholly: an object is merged
// into what is below it.
func covers(over, under any) bool {
	if over == nil {
		return false
	}
	was, object := under.(map[string]any)
	now, merged := over.(map[string]any)
	if !object || !merged {
		return true
	}
	for name := range was {
		if _, ok := now[name]; !ok {
			return false
		}
	}
	return true
}

// state is the node as the operator's decision sees it.
func (n *Node) state(pool Pool, want kubelet.Want) rollout.Node {
	s := rollout.Node{Name: n.Name, Unschedulable: n.Spec.Unschedulable, Has: n.has()}
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
	k := n.Kubelet
	if k == nil {
		return s
	}
	s.Tried, s.Why = k.Status.Tried, k.Status.Message
	again := k.Spec.Retry != pool.Retry
	switch phase := k.Status.Phase; {
	case k.Changing():
		s.Phase = rollout.Changing
	case phase == "":
		s.Phase, s.Tried, s.Why = rollout.Blocked, want.Digest, "its agent has not said anything yet"
	case phase == kubeletconfig.Broken:
		s.Phase = rollout.Broken
	case phase == kubeletconfig.Failed && !again:
		s.Phase = rollout.Failed
	case phase == kubeletconfig.Blocked && !again:
		s.Phase = rollout.Blocked
	}
	return s
}
