package tuned

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// pools are the cluster's, in order of their names.
type pools struct {
	all   []pool
	notes []Note
}

type pool struct {
	name           string
	nodes, configs labels.Selector
}

// The names of the pools that OpenShift makes itself. All others are custom
// own.
const (
	masterPool = "master"
	workerPool = "worker"
)

func newPools(all []Pool) *pools {
	p := &pools{}
	for _, from := range all {
		read := func(what string, s *metav1.LabelSelector) labels.Selector {
			selector, err := metav1.LabelSelectorAsSelector(s)
			if err != nil {
				p.notes = append(p.notes, Note{Reason: InvalidPool, Text: fmt.Sprintf("pool %s: %s selects nothing: %v", from.Name, what, err)})
				return labels.Nothing()
			}
			if selector.Empty() {
				return labels.Nothing()
			}
			return selector
		}
		p.all = append(p.all, pool{from.Name, read("nodeSelector", from.NodeSelector), read("machineConfigSelector", from.MachineConfigSelector)})
	}
	slices.SortStableFunc(p.all, func(a, b pool) int { return cmp.Compare(a.name, b.name) })
	return p
}

// taking are the pools that take a MachineConfig of these labels.
func (p *pools) taking(configLabels map[string]string) []string {
	var names []string
	for _, pool := range p.all {
		if pool.configs.Matches(labels.Set(configLabels)) {
			names = append(names, pool.name)
		}
	}
	return names
}

// of returns the pools whose MachineConfigs a node takes: a custom one, or master's,
// which goes before it, and worker's in addition to either; else master's alone, else
// worker's. A node in several custom pools takes none, because it is undecided whose
// it is.
func (p *pools) of(nodeLabels map[string]string) (names []string, conflict *Note) {
	var own []string
	in := map[string]bool{}
	for _, pool := range p.all {
		if !pool.nodes.Matches(labels.Set(nodeLabels)) {
			continue
		}
		if in[pool.name] = true; pool.name != masterPool && pool.name != workerPool {
			own = append(own, pool.name)
		}
	}
	switch {
	case len(own) > 1:
		return nil, &Note{Reason: SeveralPools, Text: fmt.Sprintf("the node is in the pools %s: no machineConfigLabels hold on it", strings.Join(own, ", "))}
	case len(own) == 1:
		names = own
		if in[masterPool] {
			names = []string{masterPool}
		}
		if in[workerPool] {
			names = append(names, workerPool)
		}
	case in[masterPool]:
		names = []string{masterPool}
	case in[workerPool]:
		names = []string{workerPool}
	}
	return names, nil
}
