package admission

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	core "k8s.io/api/core/v1"
)

// replace says how the pod would belong on the node: what its labels, taints and cordon, or
// the pod, would have to be together.
func (p *Prediction) replace() {
	var edits []edit
	for _, of := range []func(*Input) []edit{relabel, rename, untaint} {
		edits = append(edits, of(p.in)...)
	}
	if len(edits) == 0 {
		return
	}
	in := *p.in
	in.Pod = p.in.Pod.clone()
	if in.Place != nil {
		place := *in.Place
		in.Place = &place
	}
	a := Advice{}
	var changes []string
	for _, e := range edits {
		e.do(&in)
		changes = append(changes, e.change)
		if !strings.Contains(a.Where, e.where) {
			a.Where = strings.TrimPrefix(a.Where+" and "+e.where, " and ")
		}
	}
	then, err := predict(&in)
	if err != nil || then.Verdict.Outcome != Admitted || in.Pod.Placement.Node == "" && in.unplaced() != nil {
		return
	}
	a.Change, a.Then = strings.Join(changes, "; and "), then.summary()
	p.Advice = append(p.Advice, a)
}

// name is the node's for a command.
func (n *Node) name() string {
	if n.Name == "" {
		return "NODE"
	}
	return n.Name
}

// relabel are the labels that the pod's nodeSelector wants, and a node affinity that the
// node's labels do not fit even then.
func relabel(in *Input) []edit {
	l, p := in.Place, &in.Pod.Placement
	if l == nil || p.selected(&in.Node, l) {
		return nil
	}
	var missing []string
	for _, key := range slices.Sorted(maps.Keys(p.Selector)) {
		if value, ok := l.Labels[key]; !ok || value != p.Selector[key] {
			missing = append(missing, key+"="+p.Selector[key])
		}
	}
	labels := maps.Clone(l.Labels)
	maps.Copy(labels, p.Selector)
	var edits []edit
	if len(missing) > 0 {
		edits = append(edits, edit{"node", fmt.Sprintf("kubectl label node %s --overwrite %s", in.Node.name(), strings.Join(missing, " ")), func(in *Input) { in.Place.Labels = labels }})
	}
	if !p.selected(&in.Node, &Place{Labels: labels}) {
		edits = append(edits, edit{"pod", "a required node affinity that fits the node, or none", func(in *Input) { in.Pod.Placement.Affinity = nil }})
	}
	return edits
}

// rename has a pod that names another node name this one.
func rename(in *Input) []edit {
	if p := &in.Pod.Placement; p.Node == "" || in.Node.Name == "" || p.Node == in.Node.Name {
		return nil
	}
	return []edit{{"pod", "spec.nodeName: " + in.Node.Name, func(in *Input) { in.Pod.Placement.Node = in.Node.Name }}}
}

// untaint has the pod tolerate the taints for which it would not come to the node, and lifts
// a cordon.
func untaint(in *Input) []edit {
	l, p := in.Place, &in.Pod.Placement
	if l == nil {
		return nil
	}
	var edits []edit
	if l.Cordoned && p.Node == "" && !p.tolerates(cordon) {
		edits = append(edits, edit{"node", "kubectl uncordon " + in.Node.name(), func(in *Input) {
			in.Place.Cordoned = false
			in.Place.Taints = slices.DeleteFunc(slices.Clone(in.Place.Taints), func(t core.Taint) bool { return t.MatchTaint(&cordon) })
		}})
	}
	for _, t := range l.Taints {
		bound := p.Node != "" && t.Effect == core.TaintEffectNoSchedule
		if t.Effect == core.TaintEffectPreferNoSchedule || bound || t.MatchTaint(&cordon) || p.tolerates(t) {
			continue
		}
		toleration := core.Toleration{Key: t.Key, Operator: core.TolerationOpEqual, Value: t.Value, Effect: t.Effect}
		edits = append(edits, edit{"pod", "a toleration of " + t.ToString(), func(in *Input) {
			in.Pod.Placement.Tolerations = append(slices.Clip(in.Pod.Placement.Tolerations), toleration)
		}})
	}
	return edits
}
