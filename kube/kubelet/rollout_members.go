package kubelet

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Selector says which nodes a pool has.
type Selector struct {
	Pool  string
	Nodes *metav1.LabelSelector
}

// Member is a node's pool. A node that several pools select is in none, and Conflict
// says so: it is undecided whose settings it gets.
type Member struct {
	Pool     string
	Conflict string
	// Selected are the pools that select the node, in order of their names.
	Selected []string
}

// Members finds the pool of each node by its labels; nodes that no pool selects are left
// out. A selector that is nil or empty selects nothing: a pool of all nodes, control
// plane included, is rarely what was meant. problems are selectors that cannot be
// read, by pool; such a pool has no nodes.
func Members(pools []Selector, nodes map[string]map[string]string) (members map[string]Member, problems map[string]error) {
	members, problems = map[string]Member{}, map[string]error{}
	selectors := map[string]labels.Selector{}
	var names []string
	for _, p := range pools {
		s, err := metav1.LabelSelectorAsSelector(p.Nodes)
		switch {
		case err != nil:
			problems[p.Pool] = fmt.Errorf("pool %s: nodeSelector selects nothing: %w", p.Pool, err)
		case !s.Empty():
			selectors[p.Pool] = s
			names = append(names, p.Pool)
		}
	}
	slices.Sort(names)
	for node, has := range nodes {
		var m Member
		for _, name := range names {
			if selectors[name].Matches(labels.Set(has)) {
				m.Selected = append(m.Selected, name)
			}
		}
		switch len(m.Selected) {
		case 0:
			continue
		case 1:
			m.Pool = m.Selected[0]
		default:
			m.Conflict = "it is in the pools " + strings.Join(m.Selected, " and ") + ": let one of them select it"
		}
		members[node] = m
	}
	return members, problems
}
