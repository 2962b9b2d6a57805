package admission

import (
	"fmt"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/text"
)

// makeRoom looks for a pod of the node without which this one would be admitted.
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
			continue // gone already
		}
		name := h.uid
		for _, a := range active {
			if a.UID == h.uid && a.Name != "" {
				name = a.Name
			}
		}
		if p.try(edit{"node", fmt.Sprintf("end pod %s, which has %s for itself", name, text.Count(h.cpus, "CPU")), func(in *Input) { in.State.Active = append([]ActivePod{}, rest...) }}) {
			if found++; found == 3 {
				return
			}
		}
	}
}

// active are the pods that hold something: those that are known, or all that the state
// files name.
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

// resettle are other settings of the kubelet, in groups of which the first that helps
// is enough. Each needs a restart of the kubelet, and changes what holds for every pod
// of the node.
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
