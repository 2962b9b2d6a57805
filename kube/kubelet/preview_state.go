package kubelet

import (
	"maps"
	"slices"
)

// has names the settings that the node has of fettle's; "" none.
func (n *NodePreview) has() string {
	if n.Kubelet != nil && n.Kubelet.Status.Phase != "" {
		return n.Kubelet.Status.Has
	}
	return n.Annotations[SettingsAnnotation]
}

// back are the settings that the node has of fettle's and that are wanted no more, or of
// which a part is not. What it goes back to is in its own files. None are known where its
// last turn was of other settings than it has.
func (n *NodePreview) back(want Want) []string {
	k := n.Kubelet
	if k == nil || k.Spec.KubeletConfig == nil || k.Status.Has == "" || k.Status.Has != k.Spec.Digest {
		return nil
	}
	had, err := Parse(k.Spec.KubeletConfig.Raw)
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

// covers reports whether a value takes the place of another one wholly: an object is merged
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
func (n *NodePreview) state(pool PoolPreview, want Want) Node {
	s := SeenNode(&n.Node, n.Kubelet, want.Digest, pool.Retry)
	s.Has = n.has()
	return s
}
