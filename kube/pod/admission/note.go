package admission

import (
	"fmt"
	"slices"
)

// slowMerge is the number of combinations of hints from which on the kubelet takes
// longer than about a second for them.
const slowMerge = 2e6

// note adds what is worth knowing in addition to the verdict.
func (p *Prediction) note() {
	say := func(format string, args ...any) { p.Notes = append(p.Notes, fmt.Sprintf(format, args...)) }
	if p.Verdict.Outcome == Refused && !slices.Contains([]string{"", "Pod"}, p.in.Pod.Kind) {
		say("a pod that the kubelet refuses stays Failed and is not scheduled again; its %s makes another, which may meet the same node", p.in.Pod.Kind)
	}
	if len(p.Outcomes) == 0 {
		return
	}
	if p.in.Capacity != nil {
		for _, name := range p.in.Capacity.unheard(&p.in.Pod, p.kubelet.devices) {
			if p.Verdict.Reason == reasonOutOf+name {
				continue
			}
			chooses := "the scheduler does not choose it"
			if p.in.Pod.classMayGive(name) {
				chooses += " unless a DeviceClass gives it"
			}
			say("the node has no %s: "+chooses+". The kubelet takes it for a resource of the cluster and does not look: a pod that names the node is started without", name)
		}
	}
	if p.in.asksStrictGroups() && (p.in.Place == nil || p.in.Place.StrictGroups == nil) {
		say("the pod has supplementalGroupsPolicy Strict, and it is not recorded whether the node supports it: a kubelet refuses it otherwise (%s)", ReasonGroups)
	}
	for _, al := range p.Outcomes[0].alignments() {
		if al.Combinations > slowMerge {
			say("the kubelet goes through %.3g combinations of hints, one after the other, before it decides: that takes long, and other pods wait", al.Combinations)
			break
		}
	}
	for i, c := range p.Outcomes[0].Containers {
		for _, o := range p.Outcomes[1:] {
			if i < len(o.Containers) && !o.Containers[i].CPUs.Equal(c.CPUs) {
				say("which CPUs container %s gets depends on which devices are taken", c.Name)
				break
			}
		}
		if got := c.CPUs.Len(); got != 0 && got != c.WholeCPUs {
			say("container %s gets %d CPUs and not the %d that it asks for: the kubelet counts a cache that lies on several NUMA nodes more than once (prefer-align-cpus-by-uncorecache)", c.Name, got, c.WholeCPUs)
		}
	}
	for _, err := range []error{p.kubelet.cpu.restart, p.kubelet.memory.restart} {
		if err != nil {
			say("the kubelet runs, but would not start again: %v", err)
		}
	}
	s := p.in.Settings.withDefaults()
	if s.CPUManagerPolicy == PolicyStatic && p.Verdict.Outcome == Admitted {
		t := p.in.topology()
		for _, c := range p.Outcomes[0].Containers {
			if others := c.CPUs.Minus(p.kubelet.cpu.available(p.kubelet.cpu.shared)); !others.IsEmpty() && !p.in.Pod.reuses(c.Name) {
				say("container %s gets CPUs %s, which are reserved or another container's: where CPUs are offline, the kubelet takes cores to be free that are not", c.Name, others)
			}
			if nodes := t.nodesOf(c.CPUs); nodes.Count() > 1 {
				say("the CPUs of container %s are on NUMA nodes %s", c.Name, nodes)
			}
		}
	}
}

// alignments are those of the pod and of its containers.
func (o *Outcome) alignments() []*Alignment {
	var out []*Alignment
	if o.Pod != nil {
		out = append(out, o.Pod)
	}
	for i := range o.Containers {
		if al := o.Containers[i].Alignment; al != nil {
			out = append(out, al)
		}
	}
	return out
}
