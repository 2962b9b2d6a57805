package kubeletconfig

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Stuck is the reason of a pool's condition Degraded where a node does not say how its
// change ended.
const Stuck = "Stuck"

// UnderWay says which pools are being changed now, each as a sentence: what makes nodes
// unavailable on purpose, and is nothing to remediate. A pool of which no node changes is
// not under way, though nodes wait for their turns: what they wait for may be the very
// node that is to be remediated. Nor is one whose node is stuck.
func UnderWay(pools []KubeletPool) []string {
	var out []string
	for _, p := range pools {
		s := p.Status
		if d := meta.FindStatusCondition(s.Conditions, Degraded); len(s.Changing) == 0 || d != nil && d.Status == metav1.ConditionTrue && d.Reason == Stuck {
			continue
		}
		out = append(out, fmt.Sprintf("the kubelets of pool %s get other settings: %d of %d nodes have them, now at %s", p.Name, s.Updated, s.Nodes, strings.Join(first(s.Changing, 3), ", ")))
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
