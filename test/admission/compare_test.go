package admission

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"

	"fettle.dev/fettle/kube/pod/admission"
	"fettle.dev/fettle/test/admission/upstream"
)

// compare looks for the course that the kubelet has taken among those predicted.
func compare(k *upstream.Kubelet, in *admission.Input, p *admission.Prediction, pod *v1.Pod, r upstream.Result, seen tally) error {
	if p.Verdict.Outcome == admission.Invalid {
		return fmt.Errorf("the pod was thrown to be valid: %v", p.Problems)
	}
	note(in, p, r, seen)
	if !p.Complete {
		return nil // not all courses are known
	}
	var why []string
	for i := range p.Outcomes {
		err := sameCourse(k, in, &p.Outcomes[i], pod, r)
		if err == nil {
			return nil
		}
		why = append(why, fmt.Sprintf("course %d of %d: %v", i+1, len(p.Outcomes), err))
	}
	return fmt.Errorf("%s", strings.Join(why[:min(len(why), 4)], "\n"))
}

func note(in *admission.Input, p *admission.Prediction, r upstream.Result, seen tally) {
	switch {
	case r.Crash != "":
		seen["kubelet crashes"]++
	case r.Admit:
		seen["admitted"]++
	default:
		seen["refused "+r.Reason]++
	}
	mark := func(name string, ok bool) {
		if ok {
			seen[name]++
		}
	}
	o := p.Outcomes[0]
	mark("course depends on devices", len(p.Outcomes) > 1)
	mark("undecided", p.Verdict.Outcome == admission.Undecided)
	mark("too many courses", !p.Complete)
	mark("resources of the pod", in.Pod.Limits != nil)
	mark("advice given", len(p.Advice) > 0)
	if in.Settings.TopologyManagerPolicy != admission.PolicyNone {
		seen["scope "+in.Settings.TopologyManagerScope]++
	}
	for _, c := range in.Pod.Init {
		mark("sidecar", c.Sidecar)
		mark("init container", !c.Sidecar)
	}
	for _, c := range o.Containers {
		nodes := map[int]bool{}
		for _, cpu := range in.Node.CPUs {
			if c.CPUs.Has(cpu.ID) {
				nodes[cpu.NUMA] = true
			}
		}
		mark("CPUs on several NUMA nodes", len(nodes) > 1)
		mark("CPUs for itself", !c.CPUs.IsEmpty())
		mark("CPUs not as many as asked", !c.CPUs.IsEmpty() && c.CPUs.Len() != c.WholeCPUs)
		mark("more than one memory block", len(c.Memory) > 1)
		for _, b := range c.Memory {
			mark("memory on several NUMA nodes", b.Nodes.Count() > 1)
			mark("huge pages", b.Resource != admission.Memory)
		}
	}
}

// sameCourse compares one predicted course with that of the kubelet.
func sameCourse(k *upstream.Kubelet, in *admission.Input, o *admission.Outcome, pod *v1.Pod, r upstream.Result) error {
	if crash := o.Verdict.Outcome == admission.NodeFails; crash || r.Crash != "" {
		if crash != (r.Crash != "") {
			return fmt.Errorf("predicted %+v, the kubelet's crash: %q", o.Verdict, r.Crash)
		}
		return nil
	}
	if admit := o.Verdict.Outcome == admission.Admitted; admit != r.Admit || o.Verdict.Reason != r.Reason {
		return fmt.Errorf("predicted %+v; the kubelet admits: %v, %q, %s", o.Verdict, r.Admit, r.Reason, r.Message)
	}
	if err := sameCalls(o, r.Calls); err != nil {
		return err
	}
	for i, c := range o.Containers {
		last := i == len(o.Containers)-1 && !r.Admit // it failed here; what it has got does not matter
		al := o.Pod
		if c.Alignment != nil {
			al = c.Alignment
		}
		if al != nil && al.Admit {
			if err := sameHint(al, r.Affinity[c.Name]); err != nil {
				return fmt.Errorf("container %s: %w", c.Name, err)
			}
		}
		if last {
			break
		}
		cpus, _ := k.CPU.GetCPUSet(string(pod.UID), c.Name)
		if got := set(cpus); !got.Equal(c.CPUs) {
			return fmt.Errorf("container %s: predicted CPUs %q, the kubelet gives %q", c.Name, c.CPUs, got)
		}
		if err := sameDevices(in, c, k.DevicesOf(string(pod.UID), c.Name)); err != nil {
			return err
		}
		if err := sameBlocks(c, k, pod); err != nil {
			return err
		}
	}
	if !r.Admit {
		return nil
	}
	if in.Settings.CPUManagerPolicy == admission.PolicyStatic {
		if got := set(k.CPU.GetDefaultCPUSet()); !got.Equal(o.Shared) {
			return fmt.Errorf("predicted a shared pool of %s, it is %s", o.Shared, got)
		}
	}
	if in.Settings.MemoryManagerPolicy == admission.MemoryPolicyStatic {
		return sameAccounts(o.Memory, accounts(k))
	}
	return nil
}

// sameHint compares a merged hint.
func sameHint(al *admission.Alignment, h topologymanager.TopologyHint) error {
	want := "any"
	if !al.Any {
		want = al.Nodes.String()
	}
	got := "any"
	if h.NUMANodeAffinity != nil {
		got = admission.NodesOf(h.NUMANodeAffinity.GetBits()).String()
	}
	if want != got || al.Preferred != h.Preferred {
		return fmt.Errorf("merged: predicted %s, preferred %v; the kubelet has %s, %v", want, al.Preferred, got, h.Preferred)
	}
	return nil
}

// sameCalls compares what every manager answered.
func sameCalls(o *admission.Outcome, calls []upstream.Call) error {
	for _, call := range calls {
		al := o.Pod
		for i := range o.Containers {
			if call.Container != "" && o.Containers[i].Name == call.Container {
				al = o.Containers[i].Alignment
			}
		}
		if al == nil {
			return fmt.Errorf("the %s was asked for container %q, which was not predicted", call.Provider, call.Container)
		}
		want, got := predictedAnswers(al, call.Provider), upstreamAnswers(call)
		if want != got {
			return fmt.Errorf("the %s for container %q:\npredicted %s\nanswered  %s", call.Provider, call.Container, want, got)
		}
	}
	return nil
}

type hint struct {
	nodes     admission.Mask
	preferred bool
}

func text(hints []hint) string {
	slices.SortFunc(hints, func(a, b hint) int { return cmp.Compare(a.nodes, b.nodes) })
	return fmt.Sprint(hints)
}

func predictedAnswers(al *admission.Alignment, provider string) string {
	all := map[string]string{}
	for _, a := range al.Answers {
		if a.Provider != provider || a.Resource == "" {
			continue
		}
		var hints []hint
		for _, h := range a.Hints {
			hints = append(hints, hint{h.Nodes, h.Preferred})
		}
		all[a.Resource] = text(hints)
		if a.Any {
			all[a.Resource] = "any"
		}
	}
	return fmt.Sprint(all)
}

func upstreamAnswers(call upstream.Call) string {
	all := map[string]string{}
	for name, list := range call.Hints {
		var hints []hint
		for _, h := range list {
			hints = append(hints, hint{admission.NodesOf(h.NUMANodeAffinity.GetBits()), h.Preferred})
		}
		all[name] = text(hints)
		if list == nil {
			all[name] = "any"
		}
	}
	return fmt.Sprint(all)
}

// sameDevices compares how many devices a container has; where it can only be certain
// ones, these. Of which NUMA nodes the others are shows in what the device manager
// answers to the containers that follow.
func sameDevices(in *admission.Input, c admission.ContainerOutcome, got map[string][]string) error {
	want := map[string][]string{}
	for _, g := range c.Devices {
		want[g.Resource] = g.IDs
		have := slices.Sorted(slices.Values(g.IDs))
		if g.Certain && !slices.Equal(have, got[g.Resource]) {
			return fmt.Errorf("container %s: predicted %s %v for certain, it has %v", c.Name, g.Resource, have, got[g.Resource])
		}
	}
	for _, r := range in.Devices {
		if len(want[r.Name]) != len(got[r.Name]) {
			return fmt.Errorf("container %s: predicted devices %v, it has %v", c.Name, want, got)
		}
	}
	return nil
}

// sameBlocks compares the memory of a container. What an init container had is
// accounted for anew once another uses it again, so that only its nodes are compared.
func sameBlocks(c admission.ContainerOutcome, k *upstream.Kubelet, pod *v1.Pod) error {
	want, got := map[string]string{}, map[string]string{}
	for _, b := range c.Memory {
		want[b.Resource] = fmt.Sprint(b.Nodes)
		if c.Kind != "init" {
			want[b.Resource] += fmt.Sprint(" ", b.SizeBytes)
		}
	}
	for _, b := range k.Memory.GetMemoryBlocks(string(pod.UID), c.Name) {
		got[string(b.Type)] = fmt.Sprint(admission.NodesOf(b.NUMAAffinity))
		if c.Kind != "init" {
			got[string(b.Type)] += fmt.Sprint(" ", b.Size)
		}
	}
	if !maps.Equal(want, got) {
		return fmt.Errorf("container %s: predicted memory %v, it has %v", c.Name, want, got)
	}
	return nil
}

func sameAccounts(want, got map[int]*admission.MemoryNode) error {
	for id, n := range got {
		w := want[id]
		if w == nil || w.Assignments != n.Assignments || w.Group != n.Group {
			return fmt.Errorf("NUMA node %d: predicted %+v, the account is %+v", id, w, n)
		}
		for name, m := range n.Tables {
			if w.Tables[name] == nil || *w.Tables[name] != *m {
				return fmt.Errorf("NUMA node %d, %s: predicted %+v, the account is %+v", id, name, w.Tables[name], m)
			}
		}
	}
	return nil
}
