package admission

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	core "k8s.io/api/core/v1"

	"fettle.dev/fettle/internal/text"
)

// makeRoom searches for a pod of the node without which the new pod would be admitted.
func (p *Prediction) makeRoom() {
	type holder struct {
		uid  string
		cpus int
	}
	held := map[string]int{}
	if st := p.in.State.CPU; st != nil {
		for uid, containers := range st.Entries {
			held[uid] += 0
			for _, cpus := range containers {
				held[uid] += cpus.Len()
			}
		}
	}
	if st := p.in.State.Memory; st != nil {
		for uid := range st.Entries {
			held[uid] += 0
		}
	}
	var holders []holder
	for uid, n := range held {
		holders = append(holders, holder{uid, n})
	}
	slices.SortFunc(holders, func(a, b holder) int {
		if a.cpus != b.cpus {
			return a.cpus - b.cpus
		}
		return strings.Compare(a.uid, b.uid)
	})
	active := p.in.State.active()
	found := 0
	for _, h := range holders {
		rest := slices.DeleteFunc(slices.Clone(active), func(a ActivePod) bool { return a.UID == h.uid })
		if len(rest) == len(active) {
			continue // already removed
		}
		name := h.uid
		for _, a := range active {
			if a.UID == h.uid && a.Name != "" {
				name = a.Name
			}
		}
		if p.try(edit{"node", fmt.Sprintf("delete pod %s, which has exclusive use of %s", name, text.Count(h.cpus, "CPU")), func(in *Input) { in.State.Active = append([]ActivePod{}, rest...) }}) {
			if found++; found == 3 {
				return
			}
		}
	}
}

// active returns the pods that hold resources: the known ones, or else all pods in the state files.
func (s State) active() []ActivePod {
	if s.Active != nil {
		return s.Active
	}
	held := map[string]map[string]bool{}
	add := func(uid, container string) {
		if held[uid] == nil {
			held[uid] = map[string]bool{}
		}
		held[uid][container] = true
	}
	if s.CPU != nil {
		for uid, containers := range s.CPU.Entries {
			for c := range containers {
				add(uid, c)
			}
		}
	}
	if s.Memory != nil {
		for uid, containers := range s.Memory.Entries {
			for c := range containers {
				add(uid, c)
			}
		}
	}
	out := []ActivePod{}
	for _, uid := range sorted(held) {
		out = append(out, ActivePod{UID: uid, Containers: sorted(held[uid])})
	}
	return out
}

// resettle returns edits of the kubelet's settings, in groups; the first edit of a group that helps
// is enough. Each needs a kubelet restart, and affects every pod of the node.
func (p *Prediction) resettle() [][]edit {
	var out [][]edit
	s := p.in.Settings.withDefaults()
	set := func(change string, do func(*Settings)) edit {
		return edit{"kubelet", change, func(in *Input) { do(&in.Settings); in.State.Running = false }}
	}
	if s.TopologyManagerPolicy != PolicyNone {
		other := ScopePod
		if s.TopologyManagerScope == ScopePod {
			other = ScopeContainer
		}
		out = append(out, []edit{set("topologyManagerScope: "+other, func(s *Settings) { s.TopologyManagerScope = other })})
	}
	if s.CPUManagerPolicyOptions["full-pcpus-only"] != "" {
		out = append(out, []edit{set("cpuManagerPolicyOptions: without full-pcpus-only", func(s *Settings) { delete(s.CPUManagerPolicyOptions, "full-pcpus-only") })})
	}
	order := []string{PolicySingleNUMANode, PolicyRestricted, PolicyBestEffort, PolicyNone}
	var softer []edit
	for _, policy := range order[slices.Index(order, s.TopologyManagerPolicy)+1:] {
		softer = append(softer, set("topologyManagerPolicy: "+policy, func(s *Settings) { s.TopologyManagerPolicy = policy }))
	}
	out = append(out, softer)
	if s.MemoryManagerPolicy == MemoryPolicyStatic {
		out = append(out, []edit{{"kubelet", "memoryManagerPolicy: None (drain the node and remove memory_manager_state)", func(in *Input) {
			in.Settings.MemoryManagerPolicy, in.State.Memory, in.State.Running = MemoryPolicyNone, nil, false
		}}})
	}
	return out
}

// replace advises which changes of the pod and of the node's labels, taints and cordon together let
// the pod run on the node.
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

// name returns the node's name for a command.
func (n *Node) name() string {
	if n.Name == "" {
		return "NODE"
	}
	return n.Name
}

// relabel returns edits for the labels that the pod's nodeSelector requires. If the node with these
// labels still does not match the pod's node affinity, another edit changes the affinity.
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
		edits = append(edits, edit{"pod", "change the required node affinity so that it matches the node, or remove it", func(in *Input) { in.Pod.Placement.Affinity = nil }})
	}
	return edits
}

// rename returns an edit of spec.nodeName, if the pod names another node.
func rename(in *Input) []edit {
	if p := &in.Pod.Placement; p.Node == "" || in.Node.Name == "" || p.Node == in.Node.Name {
		return nil
	}
	return []edit{{"pod", "spec.nodeName: " + in.Node.Name, func(in *Input) { in.Pod.Placement.Node = in.Node.Name }}}
}

// untaint returns edits that tolerate the node's taints and remove its cordon.
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

// maxTries limits the sizes of a resource that are tried.
const maxTries = 300

// shrink searches for the largest admitted request, one resource at a time, in the failed
// container, or else in the one with the largest request.
func (p *Prediction) shrink() {
	for _, name := range p.in.Pod.requests().names() {
		c := p.largest(name)
		if c == nil || name == EphemeralStorage {
			continue
		}
		for i, amount := range p.smaller(name, c) {
			if i == maxTries || p.try(p.size(c.Name, name, amount, "")) {
				break
			}
		}
	}
}

func (p *Prediction) largest(name string) *Container {
	if c := p.in.Pod.container(p.Verdict.Container); c != nil {
		if q := c.Requests[name]; positive(q) {
			return c
		}
		return nil
	}
	var most *Container
	for _, c := range p.in.Pod.all() {
		if q := c.Requests[name]; positive(q) {
			if most == nil || q.Cmp(most.Requests[name]) > 0 {
				most = p.in.Pod.container(c.Name)
			}
		}
	}
	return most
}

// smaller returns smaller amounts of a resource to try, largest first.
func (p *Prediction) smaller(name string, c *Container) []int64 {
	q := c.Requests[name]
	var out []int64
	switch {
	case name == Memory || isHugePages(name):
		for _, free := range p.freeMemory(name) {
			if size, err := pageSize(name); isHugePages(name) && err == nil && size.Value() > 0 {
				free -= free % size.Value()
			}
			if free > 0 && free < q.Value() {
				out = append(out, free)
			}
		}
	case name == CPU || isExtended(name):
		for n := min((q.MilliValue()+999)/1000-1, p.present(name)); n > 0; n-- {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	out = slices.Compact(out)
	slices.Reverse(out)
	return out
}

// present returns the node's number of CPUs or devices.
func (p *Prediction) present(name string) int64 {
	if name == CPU {
		return int64(len(p.in.Node.CPUs))
	}
	for _, r := range p.in.Devices {
		if r.Name == name {
			return int64(len(r.Devices))
		}
	}
	if c := p.in.Capacity; c != nil {
		q := c.Allocatable[name]
		return min(q.Value(), maxTries)
	}
	return 0
}

// freeMemory returns a resource's free amounts on sets of NUMA nodes, and on the whole node.
func (p *Prediction) freeMemory(name string) []int64 {
	var out []int64
	if k, problems := start(p.in); len(problems) == 0 {
		subsets(k.memory.nodes.ids(), func(set Mask) {
			var sum uint64
			for _, id := range set.Nodes() {
				if t := k.memory.nodes[id].Tables[name]; t != nil {
					sum += t.FreeBytes
				}
			}
			out = append(out, int64(sum))
		})
	}
	if c := p.in.Capacity; c != nil {
		have, used := c.Allocatable[name], c.Requested[name]
		out = append(out, have.Value()-used.Value())
	}
	return out
}
