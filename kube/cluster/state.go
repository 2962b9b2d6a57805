package cluster

import (
	"slices"
	"strings"

	core "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"fettle.dev/fettle/internal/text"
)

// Ended reports whether all containers of a pod have ended, so that it holds no resources.
func Ended(p *core.Pod) bool {
	return p.Status.Phase == core.PodSucceeded || p.Status.Phase == core.PodFailed
}

// Stays reports whether a drain leaves a pod on its node: DaemonSet pods and static pods.
func Stays(p *core.Pod) bool {
	owner := meta.GetControllerOf(p)
	_, static := p.Annotations[core.MirrorPodAnnotationKey]
	return static || owner != nil && owner.Kind == "DaemonSet"
}

// Ready reports whether n is not nil and its condition Ready is True.
func Ready(n *core.Node) bool {
	return n != nil && slices.ContainsFunc(n.Status.Conditions, func(c core.NodeCondition) bool {
		return c.Type == core.NodeReady && c.Status == core.ConditionTrue
	})
}

// NoWay returns what prevents the API server from reaching a node's kubelet, and the component that
// must provide it; "" if nothing does. The API server tries the address types in
// --kubelet-preferred-address-types.
func NoWay(n *core.Node) string {
	if len(n.Status.Addresses) > 0 {
		return ""
	}
	return "its Node object has no address (status.addresses) yet, so the API server cannot reach its kubelet"
}

// First returns at most most names, and the number of further ones: "a, b and 3 more".
func First(names []string, most int) string {
	out := strings.Join(names[:min(len(names), most)], ", ")
	if more := len(names) - most; more > 0 {
		out += text.Sprintf(" and %d more", more)
	}
	return out
}

// Served returns the mapper's error for the first kind that the cluster lacks (meta.IsNoMatchError),
// or for which that is unknown.
func Served(mapper apimeta.RESTMapper, kinds ...schema.GroupVersionKind) error {
	for _, k := range kinds {
		if _, err := mapper.RESTMapping(k.GroupKind(), k.Version); err != nil {
			return err
		}
	}
	return nil
}
