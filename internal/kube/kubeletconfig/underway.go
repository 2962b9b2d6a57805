package kubeletconfig

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
)

// UnderWay says which pools are being changed now, each as a sentence: what makes nodes
// unavailable on purpose, and is nothing to remediate. A pool that waits for somebody,
// because it is paused or a node has failed, is not under way unless a node still changes.
func UnderWay(pools []KubeletPool) []string {
	var out []string
	for _, p := range pools {
		s := p.Status
		if len(s.Changing) == 0 && !meta.IsStatusConditionTrue(s.Conditions, Updating) {
			continue
		}
		text := fmt.Sprintf("the kubelets of pool %s get other settings: %d of %d nodes have them", p.Name, s.Updated, s.Nodes)
		if len(s.Changing) > 0 {
			text += ", now at " + strings.Join(first(s.Changing, 3), ", ")
		}
		out = append(out, text)
	}
	slices.Sort(out)
	return out
}

// first are the first names of a list, and how many more there are.
func first(names []string, most int) []string {
	if len(names) <= most {
		return names
	}
	return append(slices.Clone(names[:most]), fmt.Sprintf("%d more", len(names)-most))
}
