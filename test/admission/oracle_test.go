// Package admission holds the prediction of an admission against the managers of the
// real kubelet, on machines, settings and pods that are thrown with fixed seeds.
package admission

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	apiv1 "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/utils/cpuset"
	"sigs.k8s.io/yaml"

	"fettle.dev/fettle/internal/kube/admission"
	"fettle.dev/fettle/internal/kube/admission/podfile"
	"fettle.dev/fettle/internal/unit"
	"fettle.dev/fettle/test/admission/upstream"
)

// machines is how many machines are thrown; each gets up to eight pods.
const machines = 2500

// tally counts what was seen, so that a test that sees nothing fails.
type tally map[string]int

func (t tally) String() string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(t)) {
		out = append(out, fmt.Sprintf("%6d %s", t[k], k))
	}
	return strings.Join(out, "\n")
}

// TestAgainstUpstream lets pods come and go on machines, and compares every admission:
// whether the kubelet starts, what each manager answers, what is merged, the verdict
// with its reason, the CPUs, the memory, the devices, and what is left.
func TestAgainstUpstream(t *testing.T) {
	seen := tally{}
	failed := 0
	for seed := range uint64(machines) {
		if err := oneMachine(t, seed, seen); err != nil {
			t.Errorf("seed %d: %v", seed, err)
			if failed++; failed == 5 {
				t.Fatal("more are not shown")
			}
		}
	}
	t.Logf("compared:\n%s", seen)
	for _, want := range []string{
		"admitted", "refused TopologyAffinityError", "refused SMTAlignmentError", "refused UnexpectedAdmissionError",
		"kubelet does not start", "kubelet crashes", "course depends on devices", "undecided", "CPUs on several NUMA nodes",
		"init container", "sidecar", "resources of the pod", "huge pages", "scope pod", "scope container", "pods before",
		"option full-pcpus-only", "option distribute-cpus-across-numa", "option prefer-align-cpus-by-uncorecache", "option align-by-socket",
		"option distribute-cpus-across-cores", "option strict-cpu-reservation", "more than one memory block", "memory on several NUMA nodes",
	} {
		if seen[want] < 10 {
			t.Errorf("%q was seen %d times: the throws do not reach it", want, seen[want])
		}
	}
}

func oneMachine(t *testing.T, seed uint64, seen tally) error {
	d := newDice(seed)
	in := admission.Input{}
	in.Node = d.node()
	in.Settings = d.settings(&in.Node)
	in.Devices = d.devices(&in.Node)
	for i := range in.Devices { // nobody is given what is broken
		for j := range in.Devices[i].Devices {
			if in.Devices[i].Devices[j].Unhealthy {
				in.Devices[i].Devices[j].Used = false
			}
		}
	}
	in.Pod = admission.Pod{Containers: []admission.Container{{Name: "c"}}}
	first, err := admission.Predict(in)
	if err != nil {
		return err
	}
	if loops(first) {
		seen["kubelet loops"]++
		return nil
	}
	dir, err := os.MkdirTemp("", "a")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	k, err := upstream.Start(dir, &in.Node, in.Settings, in.Devices)
	if k != nil {
		defer k.Stop()
	}
	if starts := first.Verdict.Outcome != admission.NodeFails; starts != (err == nil) {
		return fmt.Errorf("starting: predicted %+v; the kubelet: %v\n%+v", first.Verdict, err, in.Settings)
	}
	if err != nil {
		seen["kubelet does not start"]++
		return nil
	}
	for name := range in.Settings.CPUManagerPolicyOptions {
		seen["option "+name]++
	}
	var there []*v1.Pod
	for i := range d.between(2, 8) {
		if len(there) > 0 && d.chance(30) {
			gone := d.IntN(len(there))
			k.Remove(there[gone])
			there = slices.Delete(there, gone, gone+1)
		}
		if len(there) > 0 {
			seen["pods before"]++
		}
		in.State = stateOf(k, in.Settings)
		usedDevices(&in, k)
		raw := d.pod(fmt.Sprintf("pod-%d", i), &in.Node, in.Devices)
		pod, err := read(raw, &in)
		if err != nil {
			return err
		}
		p, err := admission.Predict(in)
		if err != nil {
			return fmt.Errorf("pod %d: %w", i, err)
		}
		if loops(p) {
			seen["kubelet loops"]++
			return nil
		}
		before := shared(k)
		r := k.Admit(pod)
		if err := compare(k, &in, p, pod, r, seen); err != nil {
			text, _ := yaml.Marshal(raw.Spec)
			return fmt.Errorf("pod %d: %w\nthe kubelet: %+v\npredicted: %+v\n%s\nsettings %+v\nshared before %s\nCPUs %+v\nNUMA %+v\ndevices %+v", i, err, r, p.Verdict, text, in.Settings, before, in.Node.CPUs, in.Node.NUMA, in.Devices)
		}
		if r.Crash != "" {
			return nil
		}
		if r.Admit {
			there = append(there, pod)
		} else {
			k.Remove(pod)
		}
	}
	return nil
}

// loops says that the kubelet would not come back.
func loops(p *admission.Prediction) bool {
	for _, o := range p.Outcomes {
		if o.Verdict.Outcome == admission.NodeFails && strings.Contains(o.Verdict.Message, "for ever") {
			return true
		}
	}
	return p.Verdict.Outcome == admission.NodeFails && strings.Contains(p.Verdict.Message, "for ever")
}

// read takes a pod the way that it takes to us, as text, and the way that it takes to
// a kubelet, with the API server's defaults.
func read(raw *v1.Pod, in *admission.Input) (*v1.Pod, error) {
	text, err := yaml.Marshal(raw)
	if err != nil {
		return nil, err
	}
	f, err := podfile.Read("pod.yaml", text)
	if err != nil {
		return nil, err
	}
	in.Pod = f.Pods[0].Pod
	pod := raw.DeepCopy()
	apiv1.SetDefaults_Pod(pod)
	return pod, nil
}

func shared(k *upstream.Kubelet) string { return k.CPU.GetDefaultCPUSet().String() }

// stateOf is what the managers hold.
func stateOf(k *upstream.Kubelet, s admission.Settings) admission.State {
	var st admission.State
	if s.CPUManagerPolicy == admission.PolicyStatic {
		st.CPU = &admission.CPUState{Policy: s.CPUManagerPolicy, Default: set(k.CPU.GetDefaultCPUSet()), Entries: map[string]map[string]unit.CPUSet{}}
		for pod, containers := range k.CPU.GetCPUAssignments() {
			st.CPU.Entries[pod] = map[string]unit.CPUSet{}
			for name, cpus := range containers {
				st.CPU.Entries[pod][name] = set(cpus)
			}
		}
	}
	if s.MemoryManagerPolicy == admission.MemoryPolicyStatic {
		st.Memory = &admission.MemoryState{Policy: s.MemoryManagerPolicy, Nodes: accounts(k), Entries: map[string]map[string][]admission.MemoryBlock{}}
		for pod, containers := range k.Memory.GetMemoryAssignments() {
			st.Memory.Entries[pod] = map[string][]admission.MemoryBlock{}
			for name, blocks := range containers {
				for _, b := range blocks {
					st.Memory.Entries[pod][name] = append(st.Memory.Entries[pod][name], admission.MemoryBlock{Nodes: admission.NodesOf(b.NUMAAffinity), Resource: string(b.Type), SizeBytes: b.Size})
				}
			}
		}
	}
	return st
}

func accounts(k *upstream.Kubelet) map[int]*admission.MemoryNode {
	out := map[int]*admission.MemoryNode{}
	for id, n := range k.Memory.GetMachineState() {
		x := &admission.MemoryNode{Assignments: n.NumberOfAssignments, Group: admission.NodesOf(n.Cells), Tables: map[string]*admission.MemoryTable{}}
		for name, m := range n.MemoryMap {
			x.Tables[string(name)] = &admission.MemoryTable{TotalBytes: m.TotalMemSize, SystemReservedBytes: m.SystemReserved, AllocatableBytes: m.Allocatable, ReservedBytes: m.Reserved, FreeBytes: m.Free}
		}
		out[id] = x
	}
	return out
}

func set(s cpuset.CPUSet) unit.CPUSet { return unit.CPUs(s.List()...) }

// usedDevices marks the devices that pods have.
func usedDevices(in *admission.Input, k *upstream.Kubelet) {
	used := map[string]bool{}
	for _, pod := range k.Active() {
		for _, c := range append(slices.Clone(pod.Spec.InitContainers), pod.Spec.Containers...) {
			for name, ids := range k.DevicesOf(string(pod.UID), c.Name) {
				for _, id := range ids {
					used[name+" "+id] = true
				}
			}
		}
	}
	for i := range in.Devices {
		r := &in.Devices[i]
		r.Devices = slices.Clone(r.Devices)
		for j := range r.Devices {
			r.Devices[j].Used = used[r.Name+" "+r.Devices[j].ID]
		}
	}
}

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

// sameDevices compares how many devices of which NUMA nodes a container has; where it
// can only be certain ones, these.
func sameDevices(in *admission.Input, c admission.ContainerOutcome, got map[string][]string) error {
	want := map[string][]string{}
	for _, g := range c.Devices {
		want[g.Resource] = g.IDs
		have := slices.Sorted(slices.Values(g.IDs))
		if g.Certain && !slices.Equal(have, got[g.Resource]) {
			return fmt.Errorf("container %s: predicted %s %v for certain, it has %v", c.Name, g.Resource, have, got[g.Resource])
		}
	}
	if a, b := classes(in, want), classes(in, got); a != b {
		return fmt.Errorf("container %s: predicted devices %s (%v), it has %s (%v)", c.Name, a, want, b, got)
	}
	return nil
}

func classes(in *admission.Input, ids map[string][]string) string {
	all := map[string]map[string]int{}
	for _, r := range in.Devices {
		for _, d := range r.Devices {
			if slices.Contains(ids[r.Name], d.ID) {
				if all[r.Name] == nil {
					all[r.Name] = map[string]int{}
				}
				all[r.Name][admission.NodesOf(d.NUMA).String()]++
			}
		}
	}
	return fmt.Sprint(all)
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
