package around

import (
	"context"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// pageOfNodes is how many nodes are asked for at once: a node has some ten kilobytes,
// most of them the names of images.
const pageOfNodes = 100

// Nodes are all nodes of an API server, each with what is needed of it.
func Nodes(ctx context.Context, api client.Reader) (out []core.Node, err error) {
	next := ""
	for {
		var page core.NodeList
		if err := api.List(ctx, &page, client.Limit(pageOfNodes), client.Continue(next)); err != nil {
			return nil, err
		}
		for i := range page.Items {
			out = append(out, *Lean(&page.Items[i]))
		}
		if next = page.Continue; next == "" {
			return out, nil
		}
	}
}

// Lean is what of a node a check looks at: its labels and its conditions, without when
// they were last heard of.
func Lean(n *core.Node) *core.Node {
	out := &core.Node{ObjectMeta: meta.ObjectMeta{Name: n.Name, UID: n.UID, ResourceVersion: n.ResourceVersion, Labels: n.Labels}}
	for _, c := range n.Status.Conditions {
		out.Status.Conditions = append(out.Status.Conditions, core.NodeCondition{Type: c.Type, Status: c.Status, LastTransitionTime: c.LastTransitionTime})
	}
	return out
}
