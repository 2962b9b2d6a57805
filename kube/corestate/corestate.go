// Package corestate says what the objects of pods and nodes tell of them.
package corestate

import (
	"slices"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Ended reports whether nothing of a pod runs any more, and that it holds nothing.
func Ended(p *core.Pod) bool {
	return p.Status.Phase == core.PodSucceeded || p.Status.Phase == core.PodFailed
}

// Stays reports whether a pod belongs to its node, so that a drain leaves it there: one of a
// DaemonSet, or a static one.
func Stays(p *core.Pod) bool {
	owner := meta.GetControllerOf(p)
	_, static := p.Annotations[core.MirrorPodAnnotationKey]
	return static || owner != nil && owner.Kind == "DaemonSet"
}

// Ready reports whether a node is there and says of itself that it takes pods.
func Ready(n *core.Node) bool {
	return n != nil && slices.ContainsFunc(n.Status.Conditions, func(c core.NodeCondition) bool {
		return c.Type == core.NodeReady && c.Status == core.ConditionTrue
	})
}

// NoWay says what a node lacks without which the API server cannot ask its kubelet, and
// whose it is; "" where it lacks nothing. The API server looks for an address of the types
// of its option --kubelet-preferred-address-types.
func NoWay(n *core.Node) string {
	if len(n.Status.Addresses) > 0 {
		return ""
	}
	return "its Node object has no address (status.addresses), by which the API server would ask it: its kubelet, or the cloud's controller manager, has not said one yet"
}
